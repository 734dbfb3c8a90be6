"""Write knowledge bases as JSON lines in scispaCy's schema, from the files of vocabularies and ontologies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import typer
from corpora import write_gzip
from tqdm import tqdm
from wasabi import msg

from spacy_pel.documents import open_documents
from spacy_pel.errors import PelError
from spacy_pel.kb import Entity
from spacy_pel.kb.readers import open_source
from spacy_pel.kb.readers.tables import read_mapping
from spacy_pel.kb.records.merging import merged, plain_id, united

_CUI = re.compile(r"C\d{7}")
# What the terms of each ontology are: semantic groups of UMLS. The first gives the names.
_GROUPS = {"mondo": "DISO", "doid": "DISO", "hp": "DISO", "uberon": "ANAT"}
# Keys that scispaCy has in every line. The others stand where they say something.
_ALWAYS = {"concept_id", "canonical_name", "aliases", "types", "definition"}

app = typer.Typer()


def write_entities(output: Path, entities: Iterable[Entity]) -> None:
    """Write a gzipped file that is there as a whole or not at all, and say what it holds."""
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
    msg.good(f"{output}: {number:,} entities, {names:,} names")


@app.command()
def joined(output: Path, sources: list[Path]) -> None:
    """Write the entities of SOURCES to OUTPUT; those with the same id are one."""
    write_entities(output, merged([_read(source) for source in sources]))


@app.command()
def medmentions(output: Path, corpus: Path, mapping: Path, ontologies: list[Path]) -> None:
    """Write the concepts of UMLS that open sources name to OUTPUT.

    They are the concepts of the terms of ONTOLOGIES (OBO files; for MONDO by the SSSOM file MAPPING),
    and those of the training documents of CORPUS (a folder of MedMentions), named by their mentions.
    """
    exact = read_mapping([mapping])
    concepts = united(
        concept
        for path in ontologies
        for concept in _concepts(_read(path), exact, _GROUPS[path.stem])
    )
    write_entities(output, merged([concepts, _mentioned(corpus)]))


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
    for raw in open_documents(f"{corpus}:train"):
        for mention in raw.document().mentions or ():
            for cui in mention.ids:
                names.setdefault(cui, {})[mention.text] = None
    for cui in sorted(names):
        name, *aliases = names[cui]
        yield Entity(cui, name, tuple(aliases), sources=("MedMentions",))


def _read(path: Path) -> Iterator[Entity]:
    """The entities of a file or folder, with a bar."""
    yield from tqdm(open_source(path).entities, desc=path.name, unit=" records", leave=False)


if __name__ == "__main__":
    try:
        app()
    except PelError as error:
        msg.fail(str(error), exits=1)
