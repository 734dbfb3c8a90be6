"""Measure how many current names, each in three plain sentences, a pipeline finds and links correctly.

    python benchmarks/current_names.py PIPELINE [--worst 10]

``current_names.txt`` has groups of names, one per line with its correct ids: "HFpEF = D054144". Ids are those
of MeSH and of ``project/release/new_entities.jsonl`` ("PEL:"). It was written for this project. The first 30
brands and 20 classes were chosen before ``project/release/current_names.tsv`` was written.
"""

from collections import Counter
from pathlib import Path

import typer

from spacy_pel.pipeline.pipelines import load_pipeline
from spacy_pel.spans import NIL

NAMES = Path(__file__).with_suffix(".txt")
OF_DRUGS = (
    "The patient was started on {} last year.",
    "{} was stopped on admission.",
    "We studied the effect of {} in adults.",
)
OF_DISEASES = (
    "The patient was treated for {} last year.",
    "{} was noted on admission.",
    "We studied the role of {} in adults.",
)
# Of each group of names, in the order of the file.
SENTENCES = {
    "Drugs approved since 2012": OF_DRUGS,
    "Brands": OF_DRUGS,
    "Disease terms since 2012": OF_DISEASES,
    "Drug classes": OF_DRUGS,
    "Patients' words": ("She reports {} since Monday.", "{}, worse today.", "He asked about {}."),
    "Combination products": OF_DRUGS,
}


def main(pipeline: str, worst: int = 10) -> None:
    """Print how many names of each group PIPELINE links correctly, incorrectly, to NIL, and does not find.

    Also print the WORST wrong links of each group, those with the highest probability.
    """
    nlp = load_pipeline(pipeline)
    groups: dict[str, dict[str, set[str]]] = {}
    for line in NAMES.read_text("utf8").splitlines():
        if line.startswith("# "):
            names = groups[line[2:]] = {}
        else:
            name, _, right = line.partition(" = ")
            names[name] = set(right.split("|"))
    for group, names in groups.items():
        outcomes: Counter[str] = Counter()
        wrong = []
        for name, ids in names.items():
            for sentence in SENTENCES[group]:
                start = sentence.index("{")
                said = name[0].upper() + name[1:] if start == 0 else name
                doc = nlp(sentence.format(said))
                found = [e for e in doc.ents if (e.start_char, e.text) == (start, said)]
                if not found:
                    outcomes["not found"] += 1
                elif found[0]._.kb_id in ids:
                    outcomes["right"] += 1
                elif found[0]._.kb_id == NIL:
                    outcomes["NIL"] += 1
                else:
                    outcomes["wrong"] += 1
                    probability = found[0]._.kb_probability or 0.0
                    wrong.append((probability, said, found[0]._.kb_id))
        n = outcomes.total()
        shares = [
            f"{outcomes[key] / n:.1%} {key}" for key in ("right", "wrong", "NIL", "not found")
        ]
        print(f"{group}: {n} mentions, {', '.join(shares)}")
        for probability, said, id in sorted(wrong, reverse=True)[:worst]:
            print(f"    {probability:.2f} {said}: {id}")


if __name__ == "__main__":
    typer.run(main)
