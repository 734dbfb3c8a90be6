"""Measure how many mentions of every kind a pipeline finds in sentences of notes.

    python benchmarks/every_kind.py PIPELINE

In every_kind.txt, mentions are in brackets: anatomy, procedures, findings, organisms, measurements.
"Exact": the pipeline marks the same bounds. "Touched": it marks at least one of the words.
"""

import re
from pathlib import Path

import spacy
import typer

SENTENCES = Path(__file__).with_suffix(".txt")


def main(pipeline: str, show: bool = False) -> None:
    """Print the shares of mentions that PIPELINE finds; with --show also those that it misses."""
    nlp = spacy.load(pipeline)
    if nlp.has_pipe("kb_ner"):
        nlp.get_pipe("kb_ner").only = None  # all that it has learnt
    exact = touched = gold = found = 0
    for line in SENTENCES.read_text("utf8").splitlines():
        parts = re.split(r"[\[\]]", line)
        ends = [sum(map(len, parts[: i + 1])) for i in range(len(parts))]
        mentions = {(ends[i - 1], ends[i]) for i in range(1, len(parts), 2)}
        doc = nlp("".join(parts))
        own = {(ent.start_char, ent.end_char) for ent in doc.ents}
        near = {m for m in mentions if any(m[0] < end and start < m[1] for start, end in own)}
        exact, touched = exact + len(mentions & own), touched + len(near)
        gold, found = gold + len(mentions), found + len(own)
        if show:
            for start, end in sorted(mentions - own):
                print(f"{doc.text[start:end]}: {doc.text}")
    print(f"{gold} mentions: {exact / gold:.1%} exact, {touched / gold:.1%} touched; {found} found")


if __name__ == "__main__":
    typer.run(main)
