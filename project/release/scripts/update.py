"""Prepare to train the last release on, with a newer MeSH. "project.yml" has the calls."""

import random
from itertools import chain
from pathlib import Path

import spacy
import typer
from texts import learnt_and_fitted, write

from spacy_pel.corpora.document_corpus import open_corpus

app = typer.Typer()

# How many documents of each file a training of less than an hour reads. 0: all.
SAMPLED = {
    "both": 0,
    "diseases": 0,
    "kinds": 900,
    "notes": 1_800,
    "taught": 0,
    "voted": 700,
    "names": 300,
}
WEAK, REPLACED = (
    1_500,
    4_500,
)  # of weak-labels: its texts with a definition, and with a long form replaced
TIMES = 3  # that the sentences of notes are read
# The labels that each file annotates. Names and weakly labelled texts teach the linker alone.
ANNOTATED = {
    "kinds": ["Chemical", "Disease", "Entity"],
    "acronyms": ["Chemical", "Disease"],
    "names": [],
    "weak-labels": [],
}


@app.command()
def sample(made: Path, of_linker: Path, of_notes: Path, out: Path) -> None:
    """Write a sample of the texts in the folders MADE and OF_LINKER, and the texts OF_NOTES, to OUT."""
    rng = random.Random(0)
    for name, count in SAMPLED.items():
        folder = of_linker if name == "names" else made
        documents = list(open_corpus(folder / f"{name}.pubtator").documents())
        write(out, name, rng.sample(documents, min(count or len(documents), len(documents))))
    notes, _ = learnt_and_fitted(of_notes)
    ids = {document.id for document in notes}
    parts: tuple[list, list] = [], []
    for document in open_corpus(of_linker / "weak-labels.pubtator").documents():
        if document.id not in ids:
            parts[document.id.startswith("replaced-")].append(document)
    sizes = zip(parts, (WEAK, REPLACED))
    write(out, "weak-labels", chain(*(rng.sample(p, min(n, len(p))) for p, n in sizes)))
    repeated = (d._replace(id=f"{d.id}-{n}") for n in range(TIMES) for d in notes)
    write(out, "acronyms", repeated)


@app.command()
def start(last_release: str, recogniser_kb: Path, linker_kb: Path, made: str, out: Path) -> None:
    """Save the pipeline LAST_RELEASE to OUT, with the KBs that its components learn with.

    MADE is the name of the folder with the sample.
    """
    nlp = spacy.load(last_release)
    nlp.get_pipe("kb_ner").set_kb(recogniser_kb)
    nlp.get_pipe("proxy_linker").set_kb(linker_kb)
    annotated = nlp.get_pipe("kb_ner").cfg["annotated"]
    known = {Path(source).name.partition(".")[0]: labels for source, labels in annotated.items()}
    for name in (*SAMPLED, *ANNOTATED):
        annotated[f"{made}/{name}.pubtator"] = ANNOTATED.get(name, known.get(name))
    nlp.to_disk(out)


if __name__ == "__main__":
    app()
