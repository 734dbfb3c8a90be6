"""Metrics of a linker whose settings are fitted on documents other than those they are used on.

``calibrate`` fits a NIL threshold, a calibration, and weights of the reranker and of exact names. On
the documents that they were fitted to, their figures are too good. So the documents are halved. Each
half is linked with the settings that were fitted to the other one:

python -m papers.cross_fitting en_pel_mesh_sm bc5cdr/dev.pubtator ncbi_disease/dev.pubtator --names
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer
from spacy.language import Language

from spacy_pel.evaluation.linking_metrics import metrics_table
from spacy_pel.evaluation.nil_metrics import nil_summary
from spacy_pel.fitting.calibrate import fit
from spacy_pel.fitting.evaluate import metrics_of
from spacy_pel.fitting.gold_examples import check_ids, gold_examples, link_examples
from spacy_pel.jobs.joint_linking import with_settings
from spacy_pel.pipeline.pipelines import linker_of, load_pipeline


def evaluate_cross_fitted(
    nlp: Language, corpora: Sequence[str], *, limit: int = 0, names: bool = False
) -> dict[str, dict[str, Any]]:
    """Evaluate a linker on corpora, with settings that are fitted on the other half of them.

    The halves are every other document of each corpus. The settings are fitted on the halves of all
    corpora together. The linker keeps the settings that it has.

    Returns:
        For each corpus what ``evaluate`` returns, without ``linker``.

    Raises:
        PelError: As ``calibrate`` raises it; one half of the documents may not be enough.
    """
    linker = linker_of(nlp)
    examples = {corpus: gold_examples(nlp, linker, [corpus], limit) for corpus in corpora}
    for corpus, own in examples.items():
        check_ids(own, linker, [corpus])
    fitted, seconds = [], Counter()
    with with_settings(linker, fitted=replace(linker.fitted)):
        for other in (1, 0):
            of_all = [e for own in examples.values() for e in own[other::2]]
            fit(nlp, linker, of_all, names=names)
            fitted.append(replace(linker.fitted))
        for half, settings in enumerate(fitted):
            linker.fitted = settings
            for corpus, own in examples.items():
                started = time.perf_counter()
                link_examples(nlp, linker, own[half::2])
                seconds[corpus] += time.perf_counter() - started
        # A linker has thresholds if one of the halves had mentions that are NIL.
        linker.fitted = max(fitted, key=lambda settings: settings.nil_threshold is not None)
        return {
            corpus: metrics_of(linker, own, seconds[corpus], [corpus], limit)
            for corpus, own in examples.items()
        }


def main(
    pipeline: Annotated[str, typer.Argument(help="Folder or name of a trained pipeline")],
    corpora: Annotated[list[str], typer.Argument(help="Files whose mentions have ids")],
    names: Annotated[bool, typer.Option(help="Fit a bonus for exact names")] = False,
    limit: Annotated[int, typer.Option(help="Documents taken of each file; 0: all")] = 0,
) -> None:
    """Score linking with settings that are fitted on the other half of the documents."""
    nlp = load_pipeline(pipeline)
    found = evaluate_cross_fitted(nlp, corpora, limit=limit, names=names)
    for corpus, metrics in found.items():
        print(f"{corpus}\n\n{metrics_table(metrics)}\n\n{nil_summary(metrics['nil'])}")
        print(f"Expected calibration error: {100 * metrics['expected_calibration_error']:.1f}\n")


if __name__ == "__main__":
    typer.run(main)
