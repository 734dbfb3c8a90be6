"""FHIR R4: a Bundle a document, with a Condition or a MedicationStatement for each mention."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

from ...spans import NIL
from ..doc_conversion import linked_mentions
from ..vocabularies import coding, vocabulary_of
from .base import Format, TextOutput, document_id
from .omop import is_negated

if TYPE_CHECKING:
    from spacy.tokens import Doc

# Words of labels and semantic types, of the UMLS, MeSH and common recognisers, in lower case.
_CONDITION = set(
    "condition conditions diagnosis disease diseases diso disorder disorders problem problems "
    "syndrome syndromes neoplastic neoplasm neoplasms cancer finding findings symptom symptoms "
    "sign injury injuries poisoning abnormality abnormalities phenotype phenotypicfeature infection "
    "infections dysfunction diseaseorphenotypicfeature".split()
)
_MEDICATION = set(
    "chem chemical chemicals chemicalentity drug drugs medication medications medicine "
    "pharmacologic antibiotic vitamin simplechemical".split()
)
_STATUS = "http://terminology.hl7.org/CodeSystem/condition-"


def _bundle_line(number: int, doc: Doc, spans_key: str | None) -> str:
    document = document_id(number, doc)
    entries = []
    for n, mention in enumerate(linked_mentions(doc, spans_key)):
        if resource := _resource(document, mention):
            place = f"spacy_pel {number} {document} {n}"
            url = f"urn:uuid:{uuid5(NAMESPACE_URL, place)}"
            entries.append({"fullUrl": url, "resource": resource})
    bundle: dict[str, Any] = {"resourceType": "Bundle", "type": "collection"}
    if value := _text(document):
        bundle["identifier"] = {"value": value}
    if entries:
        bundle["entry"] = entries
    return json.dumps(bundle, ensure_ascii=False) + "\n"


def _resource(document: str, mention: dict[str, Any]) -> dict[str, Any] | None:
    """The resource of a mention; None if it is neither a condition nor a medication."""
    text = _text(mention["text"])
    kind = kind_of(mention["label"], mention["types"])
    if not text or not kind:
        return None
    concept = {"coding": _codings(mention), "text": text}
    if not concept["coding"]:
        del concept["coding"]
    place = f"characters {mention['start']} to {mention['end']} of the document"
    negated, sure = is_negated(mention), mention["probability"]
    told = place if sure is None else f"{place}, probability {sure:.2f}"
    common = {
        "resourceType": kind,
        "subject": {"display": _text(f"patient of document {document}")},
        "note": [{"text": told}],
    }
    if kind == "MedicationStatement":
        status = "not-taken" if negated else "unknown"
        return {**common, "status": status, "medicationCodeableConcept": concept}
    verification = "refuted" if negated else "unconfirmed"
    status = {"system": f"{_STATUS}ver-status", "code": verification}
    return {**common, "verificationStatus": {"coding": [status]}, "code": concept}


def kind_of(label: str, types: list[str]) -> str | None:
    """The type of resource: what the label says, or else the semantic types of the entity."""
    for text in (label, *types):
        words = set(re.findall(r"[^\W\d_]+", text.lower()))
        if words & _MEDICATION:
            return "MedicationStatement"
        if words & _CONDITION:
            return "Condition"
    return None


def _codings(mention: dict[str, Any]) -> list[dict[str, str]]:
    """The codes of a mention: the entity's id, and those that were asked for."""
    codings = []
    if mention["id"] not in ("", NIL):
        name = _text(mention["name"] or "")
        display = {"display": name} if name else {}
        codings.append(coding(*vocabulary_of(mention["id"])) | display)
    for vocabulary, codes in mention.get("xrefs", {}).items():
        codings += [coding(vocabulary, code) for code in codes]
    distinct = {(each.get("system"), each["code"]): each for each in reversed(codings)}
    return [*distinct.values()][::-1]


def _text(text: str) -> str:
    """The text without what FHIR's strings may not hold."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


FORMAT = Format("fhir", (".fhir.ndjson", ".ndjson"), output=TextOutput(_bundle_line))
