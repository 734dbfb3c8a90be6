"""``pel evaluate`` and ``calibrate``: how well a pipeline links, what is NIL, what is probable."""

from __future__ import annotations

import json
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from .apps import Component, OtherKB, Pipeline, SpansKey, command, pel
from .terminal import msg, progress_bar, say

if TYPE_CHECKING:
    from ..fitting.fit_joint import JointReport

Corpora = Annotated[
    list[Path],
    Argument(
        help="Files whose mentions have ids (.pubtator, .jsonl, .json, .xml, .spacy, ...; also .gz), or "
        "FOLDER:SPLIT of MedMentions or ZESHEL"
    ),
]
Limit = Annotated[int, Option(min=0, help="Number of documents taken of each file; 0 takes all")]
_bars = partial(progress_bar, unit=" documents")


@command(pel, "evaluate")
def evaluate_cli(
    pipeline: Pipeline,
    corpus: Corpora,
    output: Annotated[Path | None, Option("--output", "-o", help="JSON file to write")] = None,
    kb: OtherKB = None,
    limit: Limit = 0,
    spans_key: SpansKey = None,
    rerank: Annotated[
        int | None, Option(min=0, help="Candidates that the reranker reads; 0 turns it off")
    ] = None,
    component: Component = "proxy_linker",
) -> None:
    """Score linking on gold mentions.

    Prints recall@1, @5, @16 and @64, and the mean reciprocal rank (MRR): over all mentions, over those
    whose entity is in the KB, and over entities seen and unseen in training. Only the linker runs:
    mentions are those of the corpus. A gold id that the KB lacks counts as a miss. Recall and MRR look
    at the candidates, even if the linker says NIL.

    "By name" is a lenient figure, as some papers report: an answer counts that has a name in common
    with the right entity.

    The file has more: "nil", the precision, recall and F1 of saying NIL; "nel_micro_p/r/f", spaCy's
    scores; once it is calibrated, "expected_calibration_error"; and "mentions_per_second", which
    counts linking alone. To see what a reranker gains, evaluate a second time with --rerank 0.

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
        metrics = evaluate(nlp, corpus, component=component, limit=limit, progress=_bars)
        if file:
            json.dump({"pipeline": pipeline, **metrics}, file, indent=2)
            file.write("\n")
    say(metrics_table(metrics))
    say(nil_summary(metrics["nil"]))
    say(surface_summary(metrics["surface_forms"]))
    written = f"; metrics: {output}" if output else ""
    msg.good(f"{metrics['mentions_per_second']:,.0f} mentions a second{written}")


@command(pel, "calibrate")
def calibrate_cli(
    pipeline: Pipeline,
    corpus: Corpora,
    kb: OtherKB = None,
    limit: Limit = 0,
    spans_key: SpansKey = None,
    component: Component = "proxy_linker",
    names: Annotated[
        bool | None, Option(help="Fit a bonus for exact names [default: if the pipeline has one]")
    ] = None,
    jointly: Annotated[
        bool | None, Option(help="Fit how mentions are linked together [default: if it was before]")
    ] = None,
) -> None:
    """Tune NIL and probabilities on dev.

    Give a corpus that the pipeline was not trained on. The settings of the pipeline are changed in
    its folder; its weights and vectors stay. These are fitted:

    \b
    NIL threshold    A mention whose best score is below it is NIL: the KB lacks its entity. It has
                     the best F1 of NIL. Without gold mentions that are NIL there is none.
    probability      of the best candidate to be right, by its score and the margin to the next.
    reranker         The weight of its score, which is added to the retriever's.
    exact names      With --names: what a candidate's score gains if the mention is one of its
                     names. A bonus that the pipeline has is fitted again; --no-names drops it.
    joint linking    With --jointly, for pel link --jointly and pel discover: when two mentions get
                     one entity. --no-jointly drops it.

    The figures printed are those of this corpus. For another one, run "pel evaluate".

    \b
    Example:
      python -m spacy pel calibrate training/model-best dev.pubtator.gz
    """
    from ..evaluation.nil_metrics import nil_summary
    from ..fitting.calibrate import calibrate_folder

    where = {"component": component, "kb": kb, "spans_key": spans_key}
    fitted = {"limit": limit, "names": names, "jointly": jointly, "progress": _bars}
    report = calibrate_folder(pipeline, corpus, **where, **fitted)
    if report.nil_threshold is None:
        msg.warn("No mention is NIL: nothing to tune a threshold on, and none is set")
    else:
        say(f"NIL below a score of {report.nil_threshold:.4f}")
    say(nil_summary(report.nil))
    if report.rerank_weight is not None:
        say(f"The reranker's score counts {report.rerank_weight:.3f} times")
    if report.name_weight is not None:
        say(f"An exact name adds {report.name_weight:.4f} to the score")
    elif report.names:
        msg.warn("No bonus for exact names: these mentions do not show what it should be")
    say(f"The probabilities hold for mentions of {report.fitted_on}")
    before, after = 100 * report.error_before, 100 * report.error_after
    say(f"Expected calibration error: {before:.1f} before, {after:.1f} after")
    if report.joint is not None:
        _print_joint(report.joint)
    msg.good(f"Calibrated {pipeline} on {report.mentions:,} mentions")


def _print_joint(report: JointReport) -> None:
    linking, discovery = report.settings.linking, report.settings.discovery
    alone, jointly = 100 * report.accuracy_alone, 100 * report.accuracy
    if linking.k:
        way = "directed" if linking.directed else "undirected"
        say(
            f"Linked jointly: {jointly:.1f} % right instead of {alone:.1f} % ({linking.k} nearest "
            f"mentions, the same with a probability of {linking.least} or more, {way})"
        )
    else:
        msg.warn(f"Linked jointly, no more mentions are right than one by one ({alone:.1f} %)")
    say(
        f"Mentions that mean the same are found with an adjusted Rand index of "
        f"{report.agreement:.2f} ({discovery.k} nearest mentions, {discovery.least} or more)"
    )
