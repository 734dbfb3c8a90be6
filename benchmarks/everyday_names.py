"""Measure how many everyday names, each in three sentences, a pipeline finds and links correctly.

    python benchmarks/everyday_names.py PIPELINE [--show]

``everyday_names.txt`` has one name per line, with the correct headings of MeSH if it is no name of MeSH:
"heart attack = Myocardial Infarction". It was written for this project.
"""

from pathlib import Path

import typer

from spacy_pel.pipeline.pipelines import linker_of, load_pipeline

NAMES = Path(__file__).with_suffix(".txt")
SENTENCES = {
    "# Drugs": (
        "The patient was started on {} last year.",
        "{} was stopped on admission.",
        "We studied the effect of {} in adults.",
    ),
    "# Diseases and symptoms": (
        "The patient was treated for {} last year.",
        "{} was noted on admission.",
        "We studied the role of {} in adults.",
    ),
}


def main(pipeline: str, show: bool = False) -> None:
    """Print how many names PIPELINE finds and links correctly; with --show also the others."""
    nlp = load_pipeline(pipeline)
    kb = linker_of(nlp).kb
    mentions = found = right = 0
    for line in NAMES.read_text("utf8").splitlines():
        if line.startswith("#"):
            sentences = SENTENCES[line]
            continue
        name, _, headings = line.partition(" = ")
        wanted = {e.concept_id for own in (headings or name).split("|") for e in kb.named(own)}
        for sentence in sentences:
            said = name if sentence[0] != "{" else name[0].upper() + name[1:]
            start = sentence.index("{")
            doc = nlp(sentence.format(said))
            ids = [e._.kb_id for e in doc.ents if (e.start_char, e.text) == (start, said)]
            mentions += 1
            found += bool(ids)
            right += bool(wanted.intersection(ids))
            if show and not wanted.intersection(ids):
                print(doc.text, ids or "not found")
    print(f"{mentions} mentions: {found / mentions:.1%} found, {right / mentions:.1%} right")


if __name__ == "__main__":
    typer.run(main)
