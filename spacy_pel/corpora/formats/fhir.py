"""FHIR R4: a Bundle for each document, with a Condition or a MedicationStatement for each mention."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from uuid import NAMESPACE_URL, uuid5

from ...kb.records.entity import CURIE, vocabulary_of
from ...spans import NIL
from ..doc_conversion import linked_mentions
from ..vocabularies import coding
from .base import Format, TextOutput, document_id
from .omop import is_negated

if TYPE_CHECKING:
    from spacy.tokens import Doc

# Words of labels and semantic types in the UMLS, MeSH and common recognisers, in lower case.
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
    """Return the resource of a mention, or None if it is neither a condition nor a medication."""
    text = _text(mention["text"])
    kind = kind_of(mention["label"], mention["types"])
    if not text or not kind:
        return None
    codings = _codings(mention)
    concept: dict[str, Any] = {"coding": codings, "text": text} if codings else {"text": text}
    note = f"characters {mention['start']} to {mention['end']} of the document"
    if mention["probability"] is not None:
        note += f", probability {mention['probability']:.2f}"
    common = {
        "resourceType": kind,
        "subject": {"display": _text(f"patient of document {document}")},
        "note": [{"text": note}],
    }
    negated = is_negated(mention)
    if kind == "MedicationStatement":
        status = "not-taken" if negated else "unknown"
        return {**common, "status": status, "medicationCodeableConcept": concept}
    verification = "refuted" if negated else "unconfirmed"
    verification_status = {"system": f"{_STATUS}ver-status", "code": verification}
    return {**common, "verificationStatus": {"coding": [verification_status]}, "code": concept}


def kind_of(label: str, types: list[str]) -> str | None:
    """Return the type of resource from the label, or else from the semantic types of the entity."""
    for text in (label, *types):
        words = set(re.findall(r"[^\W\d_]+", text.lower()))
        if words & _MEDICATION:
            return "MedicationStatement"
        if words & _CONDITION:
            return "Condition"
    return None


def _codings(mention: dict[str, Any]) -> list[dict[str, str]]:
    """Return the distinct codes of a mention: the id of its entity and its cross-references."""
    codings = []
    if mention["id"] not in ("", NIL):
        name = _text(mention["name"] or "")
        display = {"display": name} if name else {}
        codings.append(coding(*vocabulary_of(mention["id"])) | display)
    for vocabulary, codes in mention.get("xrefs", {}).items():
        if vocabulary != CURIE:  # the id itself
            codings += [coding(vocabulary, code) for code in codes]
    distinct = {(code.get("system"), code["code"]): code for code in reversed(codings)}
    return [*reversed(distinct.values())]


def _text(text: str) -> str:
    """Return the text without the characters that FHIR forbids in strings."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


FORMAT = Format("fhir", (".fhir.ndjson", ".ndjson"), output=TextOutput(_bundle_line))
