"""Write a corpus again with other names in the places of its mentions, to train a recogniser on.

A thousand documents hold few of the names that a text may have. In a copy, half of the names of a
document are replaced by names of the KB. So the recogniser learns that what stands there is a disease
or a chemical, whatever its name.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import typer

from spacy_pel import KnowledgeBase
from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.documents.document import Document, Mention

# The branches of MeSH that have the names for a label, as sources name them.
TYPES = {
    "Disease": {"Disease", "Diseases"},
    "Chemical": {"Chemical or Drug", "Chemicals and Drugs"},
}
# Kinds of NCBI disease that a name of another disease can replace.
LABELS = {"Disease": "Disease", "SpecificDisease": "Disease", "Chemical": "Chemical"}
# What MeSH has among chemicals, and a text does not have, or BC5CDR does not mark.
NOT_MARKED = re.compile(
    r" brand|protein|ase\b|ases\b|receptor|factor|antibod|antigen|gene|peptide|globulin|vaccine|DNA|RNA",
    re.IGNORECASE,
)
WORDS = re.compile(r"[A-Z]?[a-z]+(?:[ -][A-Z]?[a-z]+)*")  # whose capitals are only MeSH's
LONGEST = 40  # characters of a name
SHARE = 0.5  # of the names of a document that are replaced


def main(kb: Path, output: Path, corpora: list[Path], copies: int = 2, seed: int = 0) -> None:
    """Write COPIES of each document of CORPORA to OUTPUT (PubTator), with names of KB."""
    rng = random.Random(seed)
    names = {label: list(usable_names(kb, types)) for label, types in TYPES.items()}
    output.parent.mkdir(parents=True, exist_ok=True)
    n = 0
    with output.open("w", encoding="utf8") as file:
        for corpus in corpora:
            for document in open_corpus(corpus).documents():
                for _ in range(copies):
                    n += 1
                    file.write(pubtator(str(n), *renamed(document, names, rng)))
    print(f"{output}: {n:,} documents")


def usable_names(kb: Path, types: set[str]) -> Iterator[str]:
    """The names of some types that a text may have: short, and in the order of words."""
    for entity in KnowledgeBase.open(kb):
        if types.intersection(entity.types):
            for name in entity.names:
                if len(name) <= LONGEST and "," not in name and not NOT_MARKED.search(name):
                    yield name.lower() if WORDS.fullmatch(name) else name


def renamed(
    document: Document, names: Mapping[str, Sequence[str]], rng: random.Random
) -> tuple[str, list[Mention]]:
    """The text and the mentions with other names. A name that comes back is replaced alike."""
    chosen: dict[str, str] = {}
    parts, mentions, end = [], [], 0
    for mention in sorted(document.mentions or (), key=lambda m: (m.start, -m.end)):
        if mention.start < end:  # overlaps the one before
            continue
        name = chosen.get(mention.text)
        if name is None:
            label = LABELS.get(mention.label)
            replaced = label is not None and rng.random() < SHARE
            name = chosen[mention.text] = rng.choice(names[label]) if replaced else mention.text
        parts += [document.text[end : mention.start], name]
        start = sum(map(len, parts)) - len(name)
        mentions.append(mention._replace(start=start, end=start + len(name), text=name))
        end = mention.end
    return "".join([*parts, document.text[end:]]), mentions


def pubtator(id: str, text: str, mentions: Sequence[Mention]) -> str:
    """A document in PubTator's format: the whole text is its title."""
    text = text.replace("\n", " ")
    lines = [f"{id}|t|{text}", f"{id}|a|"]
    lines += [f"{id}\t{m.start}\t{m.end}\t{m.text}\t{m.label}\t-" for m in mentions]
    return "\n".join(lines) + "\n\n"


if __name__ == "__main__":
    typer.run(main)
