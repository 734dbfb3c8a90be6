"""``pel calibrate``: when a mention is NIL, and how probable it is that a link is right."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from spacy.language import Language
from spacy.training import Example

from ..errors import PelError
from ..evaluation.calibration_error import expected_calibration_error
from ..evaluation.feature_weight import feature_weight
from ..evaluation.nil_metrics import best_nil_threshold, nil_summary
from ..evaluation.platt_scaling import platt_fit
from ..pipeline.pipelines import linker_of, load_pipeline
from ..spans import gold_ids, mention_spans
from ..system.whole_files import whole_file
from ..tasks.gold_examples import (
    check_ids,
    docs_to_link,
    enough_candidates,
    forget_reading,
    gold_examples,
    link_examples,
)
from .apps import Component, Corpora, OtherKB, Pipeline, SpansKey, command, msg, pel

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker


@command(pel, "calibrate")
def calibrate_cli(
    pipeline: Pipeline,
    corpus: Corpora,
    kb: OtherKB = None,
    limit: Annotated[int, typer.Option(min=0, help="Documents taken of each file; 0: all")] = 0,
    spans_key: SpansKey = None,
    component: Component = "proxy_linker",
    names: Annotated[
        bool, typer.Option("--names", help="Let exact names count; needs a second pass")
    ] = False,
) -> None:
    """Tune NIL and probabilities on dev.

    Changes the pipeline in its folder, and nothing of its vectors. Nor of the order of candidates,
    but for two weights (conditional logistic regression). What the reranker's score counts beside
    the retriever's, in a linker that has both: it knows the mentions it was trained on too well. And
    with --names what it counts if the mention is one of a candidate's names; without it none does.

    A mention is NIL if its best score is below a threshold: the one with the best F1 of the NIL
    class on the gold mentions of the corpus, where those that are NIL or whose ids the KB lacks
    are NIL. The probability that the best candidate is right is a sigmoid of its score, fitted to
    the same mentions (Platt scaling): of the reranker's score, if the linker reranks. Take a corpus
    that was not trained on. Figures printed are of this corpus: for those of another one, evaluate
    there.

    \b
    Example:
      python -m spacy pel calibrate training/model-best dev.pubtator.gz
    """
    from tqdm import tqdm

    settings = Path(pipeline) / component / "cfg"
    if not settings.is_file():
        raise PelError(
            f'{pipeline}: no folder of a pipeline with a "{component}"',
            "give one that may be changed, such as training/model-best",
        )
    nlp = load_pipeline(pipeline)
    linker = linker_of(nlp, component, kb=kb, spans_key=spans_key)
    with tqdm(desc="Linking", unit=" documents") as bar:
        figures = calibrate(
            nlp, corpus, component=component, limit=limit, names=names, progress=bar.update
        )
    with whole_file(settings) as file:
        json.dump(linker.cfg, file)
    if linker.nil_threshold is None:
        msg.warn("No mention is NIL: nothing to tune a threshold on, and none is set")
    else:
        typer.echo(f"NIL below a score of {linker.nil_threshold:.4f}")
    typer.echo(nil_summary(figures["nil"]))
    if linker.rerank_weight is not None:
        typer.echo(f"The reranker's score counts {linker.rerank_weight.value:.3f} times")
    if linker.name_weight is not None:
        typer.echo(f"An exact name is worth {linker.name_weight.value:.4f} of the score")
    elif names:
        msg.warn("The mentions do not say what an exact name is worth: none counts")
    before, after = figures["expected_calibration_error"].values()
    typer.echo(f"Expected calibration error: {100 * before:.1f} before, {100 * after:.1f} after")
    msg.good(f"Calibrated {pipeline} on {figures['mentions']:,} mentions")


def calibrate(
    nlp: Language,
    corpus: Sequence[Path],
    *,
    component: str = "proxy_linker",
    limit: int = 0,
    names: bool = False,
    progress: Callable[[], object] | None = None,
) -> dict[str, Any]:
    """Set the linker's NIL threshold and calibration by the gold mentions of corpora.

    Without a mention that is NIL, the threshold is None. limit: documents taken of each file; 0
    takes all. names: whether exact names are to count, too; the linker's name weight is set, or
    taken away. Its rerank weight is set where the retriever's score counts beside the reranker's; 0
    where that adds nothing. progress: called after each document.
    Gives ``mentions``; ``nil``, see ``evaluation.nil_metrics``; and ``expected_calibration_error``,
    {"before": x, "after": x}, before being that of the score itself: a cosine, cut to 0 to 1, or
    the reranker's probability.
    Raises PelError if there is no linker or mention, all mentions are NIL, none of the gold ids is
    in the KB, best candidates are all right or all wrong, or the KB has no vectors of its encoder.
    """
    # Imported here: torch takes seconds, and spaCy imports this module for all of its commands.
    from ..linking.calibration import Calibration
    from ..linking.nil import is_nil
    from ..pipeline.scorer import nil_scores, scored_mentions

    linker = linker_of(nlp, component)
    examples = gold_examples(nlp, linker, corpus, limit)
    if not check_ids(examples, linker, corpus):
        files = ", ".join(map(str, corpus))
        raise PelError(f"{files}: all mentions are NIL", "give a corpus with entities as well")
    _fit_weights(nlp, linker, examples, names, progress)
    link_examples(nlp, linker, examples, progress)
    weight = linker.name_weight.value if linker.name_weight else 0.0
    mentions = list(scored_mentions(examples, linker.kb, linker.spans_key, weight))
    threshold = best_nil_threshold([m.score for m in mentions], [not m.golds for m in mentions])
    said_nil = is_nil([m.score for m in mentions], threshold)
    mentions = [m._replace(said_nil=bool(said)) for m, said in zip(mentions, said_nil)]
    with_candidates = [mention for mention in mentions if mention.candidates]
    scores = np.array([mention.decisive for mention in with_candidates])
    right = np.array([mention.right for mention in with_candidates], dtype=bool)
    if right.all() or not right.any():
        raise PelError(
            f"of {len(right)} best candidates {right.sum()} are right, which says nothing of "
            "probabilities",
            "give a larger corpus, or a pipeline that is better trained",
        )
    linker.nil_threshold = threshold
    linker.calibration = Calibration(*platt_fit(scores, right), linker.reranked)
    # The reranker's scores are logarithms; what a name is worth may take them above 0.
    before = np.exp(np.minimum(scores, 0)) if linker.reranked else np.clip(scores, 0, 1)
    return {
        "mentions": len(mentions),
        "nil": nil_scores(mentions, decided=threshold is not None),
        "expected_calibration_error": {
            "before": expected_calibration_error(before, right),
            "after": expected_calibration_error(linker.calibration.probabilities(scores), right),
        },
    }


def _fit_weights(
    nlp: Language,
    linker: ProxyLinker,
    examples: Sequence[Example],
    names: bool,
    progress: Callable[[], object] | None,
) -> None:
    """Set what the reranker's score and exact names count, by these examples."""
    from ..linking.calibration import FittedWeight
    from ..linking.reranking import log_softmax

    beside = linker.reranker.retriever_weight if linker.reranked else 0.0
    # A weight of 0 for names: they are looked up, and change no order.
    linker.rerank_weight, linker.name_weight = (
        None,
        FittedWeight(0.0, linker.reranked) if names else None,
    )
    if not beside and not names:
        return
    scores, found, named, right = _candidates(nlp, linker, examples, progress)
    if beside:
        # Rerank scores are logarithms of probabilities: but for one number a mention, the sum of
        # the cross-encoder's score and the retriever's, as it is weighed.
        read = np.isfinite(scores)
        found = np.where(read, beside * found, -np.inf)
        pairs = np.where(read, scores, 0) - np.where(read, found, 0)
        weight = feature_weight(found, pairs, right) or 0.0
        linker.rerank_weight = FittedWeight(weight, linker.reranked)
        scores = log_softmax(found + weight * pairs)
    if names:
        worth = feature_weight(scores, named, right)
        linker.name_weight = None if worth is None else FittedWeight(worth, linker.reranked)


def _candidates(
    nlp: Language,
    linker: ProxyLinker,
    examples: Sequence[Example],
    progress: Callable[[], object] | None,
) -> tuple[np.ndarray, ...]:
    """Of the candidates of the examples' gold mentions, [n, k] each: the score that orders them,
    the retriever's, whether the mention is one of their names, whether they are right."""
    tables = []
    for example, doc in zip(examples, docs_to_link(nlp, linker, examples)):
        with enough_candidates(linker):
            linked = linker.predict([doc])
        forget_reading(doc)
        if linked is not None:
            links = linked.links
            golds = [
                [n for n in map(linker.kb.number, gold_ids(span)) if n is not None]
                for span in mention_spans(example.reference, linker.spans_key)
            ]
            right = [np.isin(row, gold) for row, gold in zip(links.numbers, golds)]
            named = np.zeros_like(right) if links.named is None else links.named
            tables.append((links.ranking_scores, links.scores, named, right))
        if progress:
            progress()
    return tuple(np.concatenate(columns) for columns in zip(*tables))
