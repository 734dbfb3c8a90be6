"""Make texts that a recogniser learns from: annotated ones, with other names of a KB in place of most mentions.

    python scripts/other_names.py kb/MeSH OUT --texts bc5cdr/train.pubtator.txt.gz --texts ncbi/train.pubtator.txt.gz

OUT gets diseases.pubtator, of the files that annotate no chemicals, and both.pubtator. Half of the documents
are made so. A mention gets the same name wherever a document has it.
"""

import random
from pathlib import Path
from typing import Annotated

import typer
from calibration_texts import LABEL_OF

from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.documents.document import Document, mention_at
from spacy_pel.documents.pubtator import pubtator_text
from spacy_pel.kb import KnowledgeBase
from spacy_pel.system.whole_files import whole_file

TYPES = {"Disease": ("Disease", "Diseases"), "Chemical": ("Chemical or Drug",)}
LONGEST, MOST_WORDS = 50, 5  # of a name, in characters and words
DOCUMENTS, MENTIONS = 0.5, 0.7  # the shares that are changed


def main(kb: Path, out: Path, texts: Annotated[list[Path], typer.Option()]) -> None:
    """Write diseases.pubtator and both.pubtator to the folder OUT."""
    rng = random.Random(0)
    base = KnowledgeBase.open(kb)
    names = {label: names_of(base, types) for label, types in TYPES.items()}
    made: dict[str, list[Document]] = {"diseases": [], "both": []}
    for path in texts:
        documents = list(open_corpus(path).documents())
        labels = {LABEL_OF.get(m.label) for document in documents for m in document.mentions}
        of_file = made["both" if "Chemical" in labels else "diseases"]
        chosen = [document for document in documents if rng.random() < DOCUMENTS]
        of_file += [with_other_names(document, names, rng) for document in chosen]
    out.mkdir(parents=True, exist_ok=True)
    for name, documents in made.items():
        with whole_file(out / f"{name}.pubtator") as file:
            file.writelines(map(pubtator_text, documents))
    print(f"{out}: {', '.join(f'{len(d):,} of {name}' for name, d in made.items())}")


def names_of(kb: KnowledgeBase, types: tuple[str, ...]) -> list[list[str]]:
    """The names of each entity of a KB with one of the types, without those that are turned round."""
    entities = (entity for entity in kb if set(types) & set(entity.types))
    fitting = (
        [n for n in e.names if ", " not in n and len(n) < LONGEST and len(n.split()) <= MOST_WORDS]
        for e in entities
    )
    return list(filter(None, fitting))


def with_other_names(
    document: Document, names: dict[str, list[list[str]]], rng: random.Random
) -> Document:
    """A document with other names; its mentions have no ids. Of mentions that overlap the first counts."""
    text, mentions, at, chosen = "", [], 0, {}
    for mention in sorted(document.mentions):
        label = LABEL_OF.get(mention.label)
        if label is None or mention.start < at:
            continue
        old = document.text[mention.start : mention.end]
        if (old.casefold(), label) not in chosen:
            new = rng.choice(rng.choice(names[label])) if rng.random() < MENTIONS else old
            is_lower = old[:1].islower() and not any(map(str.isupper, new[1:]))
            chosen[old.casefold(), label] = new.lower() if is_lower else new
        text += document.text[at : mention.start]
        start, at = len(text), mention.end
        text += chosen[old.casefold(), label]
        mentions.append((start, len(text), label, ()))
    text += document.text[at:]
    return Document(text, document.id, tuple(mention_at(text, *mention) for mention in mentions))


if __name__ == "__main__":
    typer.run(main)
