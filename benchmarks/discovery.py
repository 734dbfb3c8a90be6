"""Entities that were taken out of a knowledge base, found again in a corpus by ``pel discover``.

    python benchmarks/discovery.py PIPELINE KB CORPUS OUT --share 0.1 --seeds 3

For each seed a share of the corpus's entities is removed from a copy of KB in the folder OUT. On
every other document the pipeline is calibrated (--jointly --names); on the rest it is measured.

``discovery_metrics`` says what the figures are. The proposals of single mentions are the mentions
below the NIL threshold, one by one, or those of the same words together, ignoring case.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import spacy
import typer
from papers.discovery_metrics import discovery_metrics, write_lacking_kb

from spacy_pel.fitting.calibrate import fit
from spacy_pel.fitting.fit_joint import fit_joint, gold_mentions
from spacy_pel.fitting.gold_examples import gold_examples, link_examples
from spacy_pel.jobs.joint_linking import clusters_of, numbered_ids, with_settings
from spacy_pel.kb.vectors.matrix import VectorMatrix
from spacy_pel.linking.joint import Neighbourhood
from spacy_pel.spans import gold_ids, mention_spans


def main(
    pipeline: str,
    kb: Path,
    corpus: str,
    out: Path,
    share: float = 0.1,
    seeds: int = 3,
    limit: int = 0,
) -> None:
    """Measure discovery."""
    runs = [
        measured(pipeline, kb, corpus, out / f"kb-{seed}", share, seed, limit)
        for seed in range(seeds)
    ]
    columns = list(runs[0]["together"])
    print(f"{np.mean([run['lacking'] for run in runs]):.0f} mentions of lacking entities")
    print(f"| way | {' | '.join(columns)} |")
    print(f"|---|{'---|' * len(columns)}")
    for way in ("one by one", "the same words", "together"):
        means = [np.mean([run[way][column] for run in runs]) for column in columns]
        print(f"| {way} | {' | '.join(f'{mean:.2f}' for mean in means)} |")


def measured(
    pipeline: str, kb: Path, corpus: str, copy: Path, share: float, seed: int, limit: int
) -> dict[str, Any]:
    """The figures of one seed, by the way of discovery."""
    nlp = spacy.load(pipeline)
    linker = nlp.get_pipe("proxy_linker")
    linker.set_kb(kb)
    examples = gold_examples(nlp, linker, [corpus], limit)
    spans = [s for e in examples for s in mention_spans(e.reference, linker.spans_key)]
    ids = [id for span in spans for id in gold_ids(span)]
    write_lacking_kb(linker.kb, ids, share, seed, copy)
    linker.set_kb(copy)
    fit(nlp, linker, examples[::2], names=True)
    settings = fit_joint(nlp, linker, examples[::2]).settings
    with with_settings(linker, vectors=True):
        link_examples(nlp, linker, examples[1::2])
    gold = gold_mentions(linker, examples[1::2])
    lacking = np.array([bool(g) for g in gold.golds]) & ~gold.in_kb
    vectors, none = VectorMatrix(gold.vectors), Neighbourhood(0, 1.0, True)
    alone, together = (
        clusters_of(gold.mentions, vectors, settings, counted, gold.pairs)[0]
        for counted in (none, settings.discovery)
    )
    words = numbered_ids([mention.text.casefold() for mention in gold.mentions])[1]
    same = alone.numbers.max() + 1 + words
    by_words = alone._replace(numbers=np.where(alone.entities < 0, same, alone.numbers))
    print(f"seed {seed}: {settings}, NIL below {linker.nil_threshold}", flush=True)
    ways = {"one by one": alone, "the same words": by_words, "together": together}
    return {
        "lacking": int(lacking.sum()),
        **{way: discovery_metrics(gold, found) for way, found in ways.items()},
    }


if __name__ == "__main__":
    typer.run(main)
