"""``pel evaluate``: linking metrics of a pipeline on gold mentions."""

from __future__ import annotations

import json
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from .apps import Component, Corpora, Limit, OtherKB, Pipeline, SpansKey, command, pel
from .progress_bar import progress_bar
from .terminal import msg, say


@command(pel, "evaluate")
def evaluate_cli(
    pipeline: Pipeline,
    corpus: Corpora,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="JSON file to write, with more figures")
    ] = None,
    kb: OtherKB = None,
    limit: Limit = 0,
    spans_key: SpansKey = None,
    rerank: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Number of candidates that the reranker reads; 0 turns it off "
            "[default: the linker's own]",
        ),
    ] = None,
    component: Component = "proxy_linker",
) -> None:
    """Score linking on gold mentions.

    Prints recall@1, @5, @16 and @64, and the mean reciprocal rank (MRR). With --output, these and
    more are written to a JSON file.

    Only the linker runs: mentions are those of the corpus. Each figure is given over all mentions,
    over those whose entity is in the KB, and over entities seen and unseen in training. A gold id
    that the KB lacks counts as a miss. Recall and MRR look at the candidates, even if the linker
    says NIL.

    "By name" is a lenient figure, as some papers report: an answer counts that has a name in common
    with the right entity.

    In the file, "nil" has the precision, recall and F1 of saying NIL, and recall with NIL as a
    class. "nel_micro_p/r/f" are spaCy's scores. "expected_calibration_error" is there once the
    pipeline is calibrated. "mentions_per_second" counts linking alone, without loading, tokenising
    and scoring.

    To see what a reranker gains, evaluate a second time with --rerank 0.

    \b
    Example:
      python -m spacy pel evaluate training/model-best dev.pubtator.gz
      python -m spacy pel evaluate training/model-best test.pubtator.gz --output test.json
    """
    from ..evaluation.linking_metrics import metrics_table
    from ..evaluation.nil_metrics import nil_summary
    from ..fitting.evaluate import evaluate, surface_summary
    from ..pipeline.pipelines import linker_of, load_pipeline
    from ..system.whole_files import whole_file

    # The file is opened first: a path that cannot be written to is told before the work.
    with whole_file(output) if output else nullcontext() as file:
        nlp = load_pipeline(pipeline)
        linker = linker_of(nlp, component, kb=kb, spans_key=spans_key)
        if rerank is not None:
            linker.rerank = rerank
        if rerank:
            linker.reranker  # refuses a pipeline without one
        bars = partial(progress_bar, unit=" documents")
        metrics = evaluate(nlp, corpus, component=component, limit=limit, progress=bars)
        if file:
            json.dump({"pipeline": pipeline, **metrics}, file, indent=2)
            file.write("\n")
    say(metrics_table(metrics))
    say(nil_summary(metrics["nil"]))
    say(surface_summary(metrics["surface_forms"]))
    written = f"; metrics: {output}" if output else ""
    msg.good(f"{metrics['mentions_per_second']:,.0f} mentions a second{written}")
