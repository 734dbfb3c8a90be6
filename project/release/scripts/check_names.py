"""Check the lists of current names and new entities: each name means one entity.

``current_names.tsv`` has a name a line: the id of MeSH, its heading, the name, and the kind of name.
``new_entities.jsonl`` has the entities that MeSH lacks, each with its source. Their ids begin with "PEL:".
"""

import csv
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import srsly
import typer
from wasabi import msg

from spacy_pel.io.lines import numbered_lines
from spacy_pel.kb import Entity, open_source
from spacy_pel.kb.records.names import normalised

KINDS = frozenset("acronym brand class clinic generic patient product symbol".split())
NAMES = Path(__file__).parent.parent / "current_names.tsv"
NEW = NAMES.with_name("new_entities.jsonl")
NEW_ID = "PEL:"
_MIN_USES = 5  # of a brand in lower case, from which it is an ordinary word


class Name(NamedTuple):
    """A line of the list."""

    id: str
    heading: str
    name: str
    kind: str


class Faults(NamedTuple):
    """The errors of a list of names, and the names that need a review."""

    wrong: list[str]
    other_meanings: list[str]  # names of other entities of MeSH


def main(mesh: Path, names: Path = NAMES, new: Path = NEW, text: list[Path] = []) -> None:
    """Check NAMES and NEW against MESH, a file of entities (JSONL).

    With --text also against plain text: a brand that is common there in lower case is an ordinary word.
    """
    listed = list(read_names(names))
    entities = list(open_source(new).entities)
    wrong = [f"{e.concept_id} has no {NEW_ID}" for e in entities if e.concept_id[:4] != NEW_ID]
    wrong += [
        f"{e['concept_id']} has no source" for e in srsly.read_jsonl(new) if not e.get("source")
    ]
    of_new = [Name(e.concept_id, e.canonical_name, n, "new") for e in entities for n in e.names]
    found, other_meanings = faults(listed + of_new, open_source(mesh).entities)
    wrong += found
    lines = (line for path in text for _, line in numbered_lines(path))
    wrong += ordinary_words(listed, lines)
    counts = Counter(name.kind for name in listed)
    msg.info(f"{len(listed):,} names: " + ", ".join(f"{n:,} {kind}" for kind, n in counts.items()))
    for line in other_meanings:
        msg.warn(line)
    for line in wrong:
        msg.fail(line)
    if wrong:
        raise typer.Exit(1)


def read_names(path: Path) -> Iterator[Name]:
    """Yield the lines of a list of names."""
    with path.open(encoding="utf8", newline="") as file:
        for number, row in enumerate(csv.reader(file, "excel-tab", quoting=csv.QUOTE_NONE), 1):
            if len(row) != len(Name._fields) or row[-1] not in KINDS or not all(row):
                msg.fail(f"{path}, line {number} is not: id, heading, name, kind", exits=1)
            yield Name(*row)


def faults(listed: list[Name], entities: Iterable[Entity]) -> Faults:
    """Compare a list of names with the entities of MeSH."""
    by_key = defaultdict(list)
    for name in listed:
        by_key[normalised(name.name)].append(name)
    headings = {}
    owners: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for entity in entities:
        headings[entity.concept_id] = entity.canonical_name
        for key in dict.fromkeys(map(normalised, entity.names)):
            if key in by_key:
                owners[key].append((entity.concept_id, entity.canonical_name))
    wrong, other_meanings = [], []
    for key, names in by_key.items():
        for name in names:
            if name.kind != "new" and headings.get(name.id) != name.heading:
                wrong.append(f"{name.id} is {headings.get(name.id)}, and not {name.heading}")
        if len(names) > 1 and {name.kind for name in names} != {"acronym"}:
            means = " and ".join(name.heading for name in names)
            wrong.append(f"{names[0].name} is there twice: {means}")
        for id, heading in owners[key]:
            if id == names[0].id:
                wrong.append(f"{names[0].name} is already a name of {heading}")
            else:
                other_meanings.append(f"{names[0].name} ({names[0].heading}) is also {heading}")
    return Faults(wrong, other_meanings)


def ordinary_words(listed: list[Name], lines: Iterable[str]) -> list[str]:
    """Return the brands that are words of plain text in lower case."""
    brands = {name.name.lower() for name in listed if name.kind == "brand"}
    uses = Counter(word for line in lines for word in line.split() if word in brands)
    return [f"{word} is an ordinary word ({n} uses)" for word, n in uses.items() if n >= _MIN_USES]


if __name__ == "__main__":
    typer.run(main)
