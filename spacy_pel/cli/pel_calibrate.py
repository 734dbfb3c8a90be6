"""``pel calibrate``: when a mention is NIL, and how probable it is that a link is right."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from .apps import Component, Corpora, Limit, OtherKB, Pipeline, SpansKey, command, pel
from .progress_bar import progress_bar
from .terminal import msg, say

if TYPE_CHECKING:
    from ..fitting.calibrate import CalibrationReport
    from ..fitting.fit_joint import JointReport


@command(pel, "calibrate")
def calibrate_cli(
    pipeline: Pipeline,
    corpus: Corpora,
    kb: OtherKB = None,
    limit: Limit = 0,
    spans_key: SpansKey = None,
    component: Component = "proxy_linker",
    names: Annotated[
        bool | None,
        typer.Option(
            help="Fit a bonus for exact names: what a candidate's score gains if the mention is one "
            "of its names [default: if the pipeline has one]",
        ),
    ] = None,
    jointly: Annotated[
        bool | None,
        typer.Option(
            help="Fit how mentions are linked together, for pel link --jointly and pel discover "
            "[default: if that was fitted before]",
        ),
    ] = None,
) -> None:
    """Tune NIL and probabilities on dev.

    Give a corpus that the pipeline was not trained on. The settings of the pipeline are changed in
    its folder; its weights and vectors stay. These are fitted:

    \b
    NIL threshold    A mention whose best score is below it is NIL: the KB lacks its entity. It is
                     the threshold with the best F1 of NIL. A gold mention is NIL if the corpus says
                     so, or if the KB lacks its ids. Without such mentions there is no threshold.
    probability      The probability that the best candidate is right: a sigmoid of its score and of
                     the margin to the next one (Platt scaling).
    reranker         The weight of the reranker's score, which is added to the retriever's.
    exact names      With --names: what a candidate's score gains if the mention is one of its
                     names. A bonus that the pipeline has is fitted again; --no-names drops it.
    joint linking    With --jointly: how probable it is that two mentions mean the same, and how
                     probable it must be for them to get one entity. --no-jointly drops it.

    The weights of the reranker and of names can change the order of candidates. They are fitted by conditional logistic
    regression, which takes a second pass over the corpus.

    The figures printed are those of this corpus. For the figures of another corpus, run "pel
    evaluate" on it.

    \b
    Example:
      python -m spacy pel calibrate training/model-best dev.pubtator.gz
    """
    from ..fitting.calibrate import calibrate_folder

    report = calibrate_folder(
        pipeline,
        corpus,
        component=component,
        kb=kb,
        spans_key=spans_key,
        limit=limit,
        names=names,
        jointly=jointly,
        progress=partial(progress_bar, unit=" documents"),
    )
    _print(report)
    msg.good(f"Calibrated {pipeline} on {report.mentions:,} mentions")


def _print(report: CalibrationReport) -> None:
    from ..evaluation.nil_metrics import nil_summary

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
