"""Measure how often the correct sense of an acronym is chosen in texts that do not define it.

    python -m spacy pel kb learn KB TEXTS --acronyms --pipeline PIPELINE
    # COPY is a copy of the KB before the first command.
    python -m spacy pel kb learn COPY OTHER_TEXTS --acronyms --weak-labels labelled.pubtator
    awk -v RS= -v ORS='\\n\\n' 'NR % 2' labelled.pubtator > odd.pubtator
    awk -v RS= -v ORS='\\n\\n' 'NR % 2 == 0' labelled.pubtator > even.pubtator
    python -m spacy pel calibrate PIPELINE DEV odd.pubtator --kb KB
    python benchmarks/acronyms.py PIPELINE even.pubtator --kb KB

The table covers mentions whose entity has the acronym in the KB, by the number of entities with the
acronym: the share of correct answers by the most frequent sense (by the counts of the KB, then by id),
by the best score, and by the ranking; and the ranking's mean probabilities of correct and of wrong
answers. NIL decisions do not count.

The figure in the docs is of a KB of MeSH that learnt 81,895 sentences and the train splits of BC5CDR,
NCBI disease and BioRED, a ranking fitted to the dev splits of BC5CDR and NCBI disease and to half of
the weakly labelled documents of 81,894 other sentences, and the other half.
"""

from pathlib import Path

import numpy as np
import typer

from spacy_pel.evaluation.evaluate import gold_examples, link_examples
from spacy_pel.metrics.linking import markdown_table
from spacy_pel.pipeline.pipelines import linker_of, load_pipeline
from spacy_pel.spans import gold_ids, mention_spans

HEAD = ["senses", "mentions", "most frequent", "score alone", "pipeline", "p right", "p wrong"]
MOST = 4  # senses; more are as many


def main(pipeline: Path, corpora: list[str], kb: Path | None = None) -> None:
    """Print how often the senses of acronyms in CORPORA, without their definitions, are correct."""
    nlp = load_pipeline(pipeline)
    linker = linker_of(nlp, kb=kb)
    examples = gold_examples(nlp, linker, corpora)
    link_examples(nlp, linker, examples)
    rows, others = [], 0
    for example in examples:
        gold = mention_spans(example.reference, linker.spans_key)
        for wanted, span in zip(gold, mention_spans(example.predicted, linker.spans_key)):
            owners = {entity.concept_id for entity in linker.kb.named(span.text)}
            right = owners.intersection(gold_ids(wanted))
            if not right:
                others += 1
                continue
            defined = linker.kb.definitions(span.text)
            counts = {linker.kb.labels([n])[0][0]: count for n, count in defined.items()}
            found = span._.kb_candidates
            guesses = (
                min(owners, key=lambda id: (-counts.get(id, 0), id)),
                min(found, key=lambda candidate: (-candidate["score"], candidate["id"]))["id"],
                found[0]["id"],
            )
            chance = found[0].get("probability") or np.nan
            rows.append((min(len(owners), MOST), *(guess in right for guess in guesses), chance))
    senses, *right, chances = np.array(rows, dtype=float).T
    table = []
    for name, own in [
        *((f"{n}{' and more' if n == MOST else ''}", senses == n) for n in range(1, MOST + 1)),
        ("2 and more", senses > 1),
    ]:
        means = [chances[own & (right[2] == is_right)] for is_right in (1, 0)]
        table.append(
            [
                name,
                f"{own.sum():,}",
                *(f"{100 * share[own].mean():.1f}" if own.any() else "" for share in right),
                *(f"{mean.mean():.2f}" if len(mean) else "" for mean in means),
            ]
        )
    print(markdown_table(HEAD, table))
    print(f"{others:,} more mentions: the KB does not call their entity so")


if __name__ == "__main__":
    typer.run(main)
