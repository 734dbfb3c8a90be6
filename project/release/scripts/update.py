"""Prepare to train the linker of the last release on, with a newer MeSH. "project.yml" has the calls."""

import random
from itertools import chain
from pathlib import Path

import spacy
import typer
from texts import learnt_and_fitted, write

from spacy_pel.corpora.document import Document
from spacy_pel.corpora.document_corpus import open_corpus

app = typer.Typer()

NAMES = 300  # texts of names
WEAK, REPLACED = (
    1_500,
    4_500,
)  # of weak-labels: its texts with a definition, and with a long form replaced
TIMES = 3  # that the sentences of notes are read


@app.command()
def sample(of_linker: Path, of_notes: Path, out: Path) -> None:
    """Write a sample of the texts in the folder OF_LINKER, and the texts OF_NOTES, to the folder OUT."""
    rng = random.Random(0)
    names = list(open_corpus(of_linker / "names.pubtator").documents())
    write(out, "names", rng.sample(names, min(NAMES, len(names))))
    notes, _ = learnt_and_fitted(of_notes)
    ids = {document.id for document in notes}
    parts: tuple[list[Document], list[Document]] = [], []
    for document in open_corpus(of_linker / "weak-labels.pubtator").documents():
        if document.id not in ids:
            parts[document.id.startswith("replaced-")].append(document)
    sizes = zip(parts, (WEAK, REPLACED))
    write(out, "weak-labels", chain(*(rng.sample(p, min(n, len(p))) for p, n in sizes)))
    repeated = (d._replace(id=f"{d.id}-{n}") for n in range(TIMES) for d in notes)
    write(out, "acronyms", repeated)


@app.command()
def start(last_release: str, recogniser_kb: Path, linker_kb: Path, out: Path) -> None:
    """Save the pipeline LAST_RELEASE to OUT, with the KBs that its components learn with."""
    nlp = spacy.load(last_release)
    nlp.get_pipe("kb_ner").set_kb(recogniser_kb)
    nlp.get_pipe("proxy_linker").set_kb(linker_kb)
    nlp.to_disk(out)


if __name__ == "__main__":
    app()
