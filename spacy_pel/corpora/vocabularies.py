"""The URIs of vocabularies in FHIR."""

from __future__ import annotations

# The canonical URIs of code systems in FHIR, and the names of the vocabularies in the UMLS, in OBO and in
# other sources, in capitals.
_SYSTEMS = {
    "https://www.nlm.nih.gov/mesh": "MESH MSH",
    "http://terminology.hl7.org/CodeSystem/umls": "UMLS UMLS_CUI",
    "http://snomed.info/sct": "SNOMEDCT SNOMEDCT_US SNOMED SCTID",
    "http://hl7.org/fhir/sid/icd-10-cm": "ICD10CM",
    "http://hl7.org/fhir/sid/icd-10": "ICD10 ICD10WHO",
    "http://hl7.org/fhir/sid/icd-9-cm": "ICD9CM ICD9",
    "http://id.who.int/icd/release/11/mms": "ICD11",
    "http://www.nlm.nih.gov/research/umls/rxnorm": "RXNORM RXCUI",
    "http://www.whocc.no/atc": "ATC",
    "http://loinc.org": "LOINC LNC",
    "https://fhir-terminology.ohdsi.org": "OMOP",
    "http://human-phenotype-ontology.org": "HP HPO",
    "http://www.omim.org": "OMIM MIM",
    "http://www.orpha.net": "ORPHA ORPHANET",
    "http://purl.obolibrary.org/obo/mondo.owl": "MONDO",
    "http://purl.obolibrary.org/obo/doid.owl": "DOID",
    "http://purl.obolibrary.org/obo/chebi.owl": "CHEBI",
    "http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl": "NCIT NCI",
}
_SYSTEM_OF = {name: uri for uri, names in _SYSTEMS.items() for name in names.split()}
# Ontologies whose codes include their name, "MONDO:0005148".
_WITH_NAME = ("DOID", "MONDO", "HP", "CHEBI")


def coding(vocabulary: str | None, code: str) -> dict[str, str]:
    """Return a code as FHIR's Coding, with the URI of its system if it is known."""
    name = (vocabulary or "").upper()
    code = f"{name}:{code}" if name in _WITH_NAME else code
    system = _SYSTEM_OF.get(name)
    return {**({"system": system} if system else {}), "code": code}
