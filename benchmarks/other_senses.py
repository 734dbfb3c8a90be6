"""Measure how often a pipeline links acronyms of notes that stand for no disease or chemical.

    python benchmarks/other_senses.py PIPELINE [--show]

Each line of ``other_senses.txt`` has an acronym and a sentence in which it means, for example, a physician,
an examination or the left eye. The sentences were written for this project. An acronym may be marked, but it
should have no entity. "Listed" are the acronyms of ``project/release/other_senses.tsv``.
"""

import csv
from pathlib import Path

import typer

from spacy_pel.pipeline.pipelines import load_pipeline
from spacy_pel.spans import NIL

HERE = Path(__file__).parent
LISTED = HERE.parent / "project" / "release" / "other_senses.tsv"


def main(pipeline: str, show: bool = False) -> None:
    """Print how many acronyms PIPELINE marks, and how many it links; with --show also the links."""
    nlp = load_pipeline(pipeline)
    lines = (HERE / "other_senses.txt").read_text("utf8").splitlines()
    acronyms, sentences = zip(*(line.split("\t") for line in lines))
    with LISTED.open(encoding="utf8") as file:
        listed = {row["abbreviation"] for row in csv.DictReader(file, delimiter="\t")}
    for group, is_of_group in ("listed", True), ("not listed", False):
        n = n_marked = n_linked = 0
        for acronym, doc in zip(acronyms, nlp.pipe(sentences)):
            if (acronym in listed) != is_of_group:
                continue
            ents = [ent for ent in doc.ents if acronym in ent.text.split()]
            links = [ent for ent in ents if ent.kb_id_ != NIL]
            n, n_marked, n_linked = n + 1, n_marked + bool(ents), n_linked + bool(links)
            for ent in links if show else ():
                print(f"{doc.text}\t{ent.text} = {ent.kb_id_} {ent._.kb_probability:.2f}")
        print(f"{group}: {n} acronyms, {n_marked} marked, {n_linked} linked")


if __name__ == "__main__":
    typer.run(main)
