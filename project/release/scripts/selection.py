"""Select the records and names of MeSH that a package of diseases and chemicals needs.

All descriptors, diseases and drugs stay. These are left out, because plain text does not use them or they
are neither diseases nor chemicals:

- supplementary organisms, populations and the like: a fifth of MeSH's records;
- supplementary proteins, enzymes and peptides that are no drugs: a quarter;
- supplementary chemicals with systematic names alone, such as "4-(3,4,5-trimethoxybenzoyl)-2-phenylthiazole";
- systematic aliases, and inverted ones ("Failure, Heart") of a record that has the direct name.
"""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator

from spacy_pel.kb import Entity
from spacy_pel.kb.readers.mesh import PARTS

_PROTEINS = {PARTS["D08"], PARTS["D12"]}
_CHEMICALS = {"Chemicals and Drugs", "Chemical or Drug"}
_DISEASES = {"Diseases", "Disease"}
MAX_LENGTH = 45  # characters of a name
# From so many characters on, so many digits, brackets, commas and quotes, or hyphens, are too many.
MIN_SIGNED, N_SIGNS = 18, 3
MIN_HYPHENATED, N_HYPHENS = 30, 3
MAX_DRUG_WORDS, MAX_DRUG_LENGTH = 3, 40
_SIGN = re.compile(r"[\d(){}\[\],'*]")
# Names of proteins: "BRPF1 protein, human", "staphopain A", "purine-nucleoside phosphorylase".
_PROTEIN = re.compile(
    r"\b(?:proteins?|receptors?|antigens?|kinase|mRNA|RNA|genes?|polypeptide|homolog|subunit|synthase"
    r"|transferase|dehydrogenase|reductase|hydrolase|ligase|transporter|channel|factor|domain"
    r"|antibodies|hemoglobin)\b|, [A-Za-z]|ase$|\d"
)
# The ends of names of peptides and proteins that are drugs, by the INN's stems.
_DRUG = re.compile(
    r"(?:mab|cept|tide|relin|kinra|stim|poetin|grastim|pressin|plase|tocin|irudin|lukin|ermin|vaccine"
    r"|(?:ase|in) (?:alfa|beta|delta|gamma)|-[a-z]{4})$",
    re.IGNORECASE,
)


def selected(
    entities: Iterable[Entity], kept: Container[str], left_out: Counter[str]
) -> Iterator[Entity]:
    """Yield the records to keep, with the names to keep. ``left_out`` counts the others by reason.

    Records whose ids are in ``kept`` stay.
    """
    for entity in entities:
        reason = None if entity.concept_id in kept else _reason_against(entity)
        if reason:
            left_out[reason] += 1
            continue
        direct = {_words(name) for name in entity.names if ", " not in name}
        aliases = [
            name
            for name in entity.names[1:]
            if not (", " in name and _words(name) in direct)
            and (_DISEASES & set(entity.types) or not _is_systematic(name))
        ]
        left_out["aliases"] += len(entity.names) - 1 - len(aliases)
        yield entity._replace(aliases=tuple(aliases))


def _reason_against(entity: Entity) -> str | None:
    """Return why a record is left out; None: it is kept."""
    types = set(entity.types)
    if entity.concept_id.startswith("D") or types & _DISEASES:
        return None
    if not types & _CHEMICALS:
        return "supplementary records that are neither diseases nor chemicals"
    if types & _PROTEINS and not _is_drug(entity):
        return "proteins and peptides that are no drugs"
    if all(map(_is_systematic, entity.names)):
        return "chemicals with systematic names alone"
    return None


def _is_drug(entity: Entity) -> bool:
    """Tell whether a protein or peptide has the name of a drug, or a plain name of a few words."""
    name = entity.canonical_name
    is_short = len(name) < MAX_DRUG_LENGTH and len(name.split()) <= MAX_DRUG_WORDS
    return (is_short and not _PROTEIN.search(name)) or any(
        _DRUG.search(name) and not _PROTEIN.search(name) for name in entity.names
    )


def _is_systematic(name: str) -> bool:
    """Tell whether a name is systematic, or MeSH's abbreviation of one: "DTBAITA cpd"."""
    if name.endswith(" drug combination"):
        return False
    return (
        name.endswith(" cpd")
        or len(name) > MAX_LENGTH
        or (len(name) > MIN_SIGNED and len(_SIGN.findall(name)) >= N_SIGNS)
        or (len(name) > MIN_HYPHENATED and name.count("-") >= N_HYPHENS)
    )


def _words(name: str) -> tuple[str, ...]:
    """Return the sorted words of a name."""
    return tuple(sorted(re.findall(r"\w+", name.lower())))
