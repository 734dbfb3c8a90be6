"""Knowledge bases, from the files of vocabularies and ontologies to JSON lines in scispaCy's schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from recipe import FETCH_EXTRA, Recipe, write_gzip
from tqdm import tqdm

from spacy_pel.documents.published_splits import MedMentionsSplit
from spacy_pel.kb import Entity
from spacy_pel.kb.readers import open_source
from spacy_pel.kb.readers.tables import read_mapping
from spacy_pel.kb.records.merging import merged, plain_id, united

_CUI = re.compile(r"C\d{7}")
# What the terms of each ontology are: semantic groups of UMLS. The first gives the names.
_GROUPS = {"mondo": "DISO", "doid": "DISO", "hp": "DISO", "uberon": "ANAT"}
_MESH = ("mesh/desc2*.gz", "mesh/supp2*.gz")
# Keys that scispaCy has in every line. The others stand where they say something.
_ALWAYS = {"concept_id", "canonical_name", "aliases", "types", "definition"}


def write_entities(output: Path, entities: Iterable[Entity]) -> str:
    """Write a gzipped file that is there as a whole or not at all; returns what it holds."""
    number = names = 0

    def lines() -> Iterator[bytes]:
        nonlocal number, names
        for entity in entities:
            number += 1
            names += len(entity.names)
            aliases = tuple(name for name in entity.aliases if name != entity.canonical_name)
            fields = entity._replace(aliases=aliases)._asdict()
            kept = {key: value for key, value in fields.items() if value or key in _ALWAYS}
            yield (json.dumps(kept, ensure_ascii=False) + "\n").encode()

    write_gzip(output, lines())
    return f"{number:,} entities, {names:,} names"


def mesh_alone(output: Path, descriptors: Path, supplement: Path) -> str:
    """Write what MeSH's own files hold: names and ids that may be passed on."""
    holds = write_entities(output, _read(descriptors.parent, "MeSH"))
    return f"{holds} of MeSH {open_source(descriptors).version}"


def mesh_with_medic(output: Path, descriptors: Path, supplement: Path, medic: Path) -> str:
    """Write MeSH with MEDIC's names, and with the ids and diseases of OMIM that MEDIC has."""
    joined = merged([_read(descriptors.parent, "MeSH"), _read(medic, "MEDIC")])
    return f"{write_entities(output, joined)} of MeSH {open_source(descriptors).version} and MEDIC"


def medmentions_open(output: Path, corpus: Path, mapping: Path, *ontologies: Path) -> str:
    """Write the concepts of UMLS that open sources name.

    They are the concepts of the ontologies' terms, and those of MedMentions' training documents,
    named by their mentions.

    Args:
        output: The file to write (gzip).
        corpus: ``corpus_pubtator.txt.gz`` of MedMentions.
        mapping: The concepts of MONDO's terms (SSSOM).
        ontologies: OBO files, whose names are keys of ``_GROUPS``.
    """
    exact = read_mapping([mapping])
    concepts = united(
        concept
        for path in ontologies
        for concept in _concepts(_read(path, path.stem), exact, _GROUPS[path.stem])
    )
    return write_entities(output, merged([concepts, _mentioned(corpus)]))


def _concepts(terms: Iterable[Entity], exact: dict[str, str], group: str) -> Iterator[Entity]:
    """Terms as concepts of UMLS: by the exact mapping, or by their only cross-reference to UMLS."""
    for term in terms:
        references = {id for id in map(plain_id, term.xrefs) if _CUI.fullmatch(id)}
        cui = exact.get(term.concept_id) or (references.pop() if len(references) == 1 else None)
        if cui and _CUI.fullmatch(cui):
            xrefs = (term.concept_id, *(x for x in term.xrefs if plain_id(x) != cui))
            named = (cui, term.canonical_name, term.aliases, (group,), term.definition)
            yield Entity(*named, xrefs=xrefs, sources=term.sources)


def _mentioned(corpus: Path) -> Iterator[Entity]:
    """The concepts that training documents mention, named by the words of the mentions."""
    names: dict[str, dict[str, None]] = {}
    for raw in MedMentionsSplit(corpus.parent, "train"):
        for mention in raw.document().mentions or ():
            for cui in mention.ids:
                names.setdefault(cui, {})[mention.text] = None
    for cui in sorted(names):
        name, *aliases = names[cui]
        yield Entity(cui, name, tuple(aliases), sources=("MedMentions",))


def _read(path: Path, title: str) -> Iterator[Entity]:
    """The entities of a file or folder, with a bar."""
    yield from tqdm(open_source(path).entities, desc=title, unit=" records", leave=False)


RECIPES = (
    Recipe("kb/mesh_only.jsonl.gz", _MESH, mesh_alone),
    Recipe("kb/mesh.jsonl.gz", (*_MESH, "medic/CTD_diseases.tsv.gz"), mesh_with_medic),
    Recipe(
        "kb/medmentions_open.jsonl.gz",
        (
            "medmentions/st21pv/data/corpus_pubtator.txt.gz",
            "obo/mondo_exactmatch_umls.sssom.tsv",
            *(f"obo/{name}.obo" for name in _GROUPS),
        ),
        medmentions_open,
        FETCH_EXTRA,
    ),
)
