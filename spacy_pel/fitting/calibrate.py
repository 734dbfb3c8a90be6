"""The NIL threshold and the calibration of a linker, fitted to gold mentions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from spacy.language import Language
from spacy.training import Example

from ..errors import PelError
from ..evaluation.calibration import expected_calibration_error, feature_weight, platt_fit
from ..evaluation.nil_metrics import best_nil_threshold
from ..pipeline.pipelines import linker_of, load_pipeline
from ..reading.mention import MentionInContext
from ..spans import gold_ids, mention_spans
from ..system.whole_files import whole_file
from .fit_joint import JointReport, fit_joint
from .gold_examples import Bars, check_ids, gold_examples, link_examples, linked_one_by_one

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker

# A threshold of names: how many are searched at most, and how many there must be.
_NAMES, _FEWEST = 500, 50
# The share of entities missing from the KB whose names are to be NIL. A higher share makes mentions
# NIL whose entity is there: see docs/nil.md.
_MISSING = 0.25
# The share of names in the KB that may be NIL at most.
_PRESENT = 0.01
_CANDIDATES = 64


class CalibrationReport(NamedTuple):
    """What was fitted, and how well it does on the mentions that it was fitted to.

    Attributes:
        mentions: The number of gold mentions.
        fitted_on: Their labels, with the number of each.
        nil_threshold: A mention whose best score is below it is NIL. None: no mention is.
        rerank_weight: The weight of the cross-encoder's score beside the retriever's. None where
            only one of them counts.
        names: Whether it was asked what an exact name adds to a candidate's score.
        name_weight: What it adds. None where names do not count.
        nil: How well NIL mentions are found, see ``evaluation.nil_metrics``.
        error_before: The expected calibration error of the plain score: a cosine, cut to 0 to 1, or
            the reranker's probability.
        error_after: The expected calibration error of the fitted probability.
        joint: How mentions are linked together; None if that was not fitted.
    """

    mentions: int
    fitted_on: str
    nil_threshold: float | None
    rerank_weight: float | None
    names: bool
    name_weight: float | None
    nil: dict[str, Any]
    error_before: float
    error_after: float
    joint: JointReport | None = None


def calibrate_folder(
    pipeline: str | Path,
    corpus: Sequence[str | Path],
    *,
    component: str = "proxy_linker",
    kb: Path | None = None,
    spans_key: str | None = None,
    **settings: Any,
) -> CalibrationReport:
    """Calibrate the linker of a saved pipeline, and change its settings in the folder.

    After an error or an interruption the folder is as it was.

    Args:
        pipeline: The folder of a pipeline.
        corpus: See ``calibrate``.
        component: The name of the linker in the pipeline.
        kb: The folder of a KB to use instead of the linker's own.
        spans_key: Mentions are in ``doc.spans[spans_key]``. None: where the linker looks for them.
        **settings: Others of ``calibrate``.

    Raises:
        PelError: There is no pipeline with such a linker in the folder, or what ``calibrate``
            raises.
        OSError: The folder cannot be written to.
    """
    file = Path(pipeline) / component / "cfg"
    if not file.is_file():
        raise PelError(
            f'{pipeline}: no folder of a pipeline with a "{component}"',
            "give one that may be changed, such as training/model-best",
        )
    nlp = load_pipeline(pipeline)
    linker = linker_of(nlp, component, kb=kb, spans_key=spans_key)
    report = calibrate(nlp, corpus, component=component, **settings)
    with whole_file(file) as written:
        json.dump(linker.settings_of_weights(), written)
    return report


def calibrate(
    nlp: Language,
    corpus: Sequence[str | Path],
    *,
    component: str = "proxy_linker",
    limit: int = 0,
    names: bool | None = None,
    jointly: bool | None = None,
    progress: Bars | None = None,
) -> CalibrationReport:
    """Set the NIL threshold and the calibration of a linker by the gold mentions of corpora.

    The NIL threshold is the one with the best F1 of the NIL class; it is None where no mention is
    NIL. Mentions that are never NIL, such as the name of one entity alone, have no part in it. The
    calibration is a Platt scaling. If the linker has a reranker and the retriever's score counts as
    well, the weight of the cross-encoder's score is fitted too. It is 0 if the cross-encoder adds
    nothing.

    Args:
        nlp: A pipeline with a trained linker, which is changed.
        corpus: Names of corpora, as ``corpora.document_corpus.open_corpus`` takes them.
        component: The name of the linker in the pipeline.
        limit: The number of documents taken of each corpus file. 0 takes all.
        names: Whether to fit a bonus for exact names: what a candidate's score gains if the mention
            is exactly one of its names. If not, there is none. None: if the linker has one.
        jointly: Whether to fit how mentions are linked together (``fit_joint``). If not, they
            cannot be. None: if that was fitted before.
        progress: See ``Bars`` of ``gold_examples``.

    Raises:
        PelError: There is no linker or no mention, all mentions are NIL, none of the gold ids is in
            the KB, the best candidates are all right or all wrong, or the KB has no vectors of the
            linker's encoder.
    """
    linker = linker_of(nlp, component)
    names = linker.name_weight is not None if names is None else names
    jointly = linker.joint is not None if jointly is None else jointly
    examples = gold_examples(nlp, linker, corpus, limit)
    if not check_ids(examples, linker, corpus):
        files = ", ".join(map(str, corpus))
        raise PelError(f"{files}: all mentions are NIL", "give a corpus with entities as well")
    report = fit(nlp, linker, examples, names=names, progress=progress)
    return report._replace(joint=fit_joint(nlp, linker, examples, progress) if jointly else None)


def fit(
    nlp: Language,
    linker: ProxyLinker,
    examples: Sequence[Example],
    *,
    names: bool = False,
    progress: Bars | None = None,
) -> CalibrationReport:
    """Set the NIL threshold, the calibration and the weights of a linker by gold mentions.

    The examples (``gold_examples``) are linked in place. See ``calibrate``.

    Raises:
        PelError: The best candidates are all right or all wrong.
    """
    # Imported here: torch takes seconds, and spaCy imports the commands for all of its own.
    from ..linking.calibration import Calibration
    from ..linking.nil import is_nil
    from ..pipeline.scorer import nil_scores, scored_mentions

    linker.calibration = linker.joint = None  # of labels that may be others
    _fit_weights(nlp, linker, examples, names, progress)
    name_weight = linker.name_weight.value if linker.name_weight else None
    linker.nil_threshold = np.inf  # every mention is NIL that can be
    link_examples(nlp, linker, examples, progress)
    linker.nil_threshold = None
    mentions = list(scored_mentions(examples, linker.kb, linker.spans_key, name_weight or 0.0))
    found = [mention for mention in mentions if mention.candidates]
    decisive = np.array([mention.decisive for mention in found])
    margins = np.array([mention.margin for mention in found])
    right = np.array([mention.right for mention in found], dtype=bool)
    if right.all() or not right.any():
        raise PelError(
            f"{right.sum()} of {len(right)} best candidates are right, so no probability can be fitted",
            "give a larger corpus, or a pipeline that is better trained",
        )
    slope, margin_slope, intercept = platt_fit(np.stack([decisive, margins], axis=1), right)
    spans = (span for e in examples for span in mention_spans(e.reference, linker.spans_key))
    labels = dict(Counter(span.label_ for span in spans))
    fitted = Calibration(slope, intercept, linker.reranked, margin_slope, labels)
    linker.calibration = fitted
    sure = np.array([not mention.said_nil for mention in mentions])
    if linker.sure_probability is not None:
        has_candidate = np.array([bool(mention.candidates) for mention in mentions])
        sure[has_candidate] |= fitted.probabilities(decisive, margins) >= linker.sure_probability
    scores = np.where(sure, np.inf, [mention.score for mention in mentions])
    threshold = best_nil_threshold(scores, [not mention.golds for mention in mentions])
    linker.nil_threshold = threshold
    said_nil = is_nil(scores, threshold).tolist()
    mentions = [m._replace(said_nil=nil) for m, nil in zip(mentions, said_nil)]
    # The reranker's scores are logarithms of probabilities; a name may take them above 0.
    before = np.exp(np.minimum(decisive, 0)) if linker.reranked else np.clip(decisive, 0, 1)
    return CalibrationReport(
        mentions=len(mentions),
        fitted_on=fitted.fitted_on,
        nil_threshold=threshold,
        rerank_weight=linker.rerank_weight.value if linker.rerank_weight else None,
        names=names,
        name_weight=name_weight,
        nil=nil_scores(mentions, decided=threshold is not None),
        error_before=expected_calibration_error(before, right),
        error_after=expected_calibration_error(fitted.probabilities(decisive, margins), right),
    )


def _fit_weights(
    nlp: Language,
    linker: ProxyLinker,
    examples: Sequence[Example],
    names: bool,
    progress: Bars | None,
) -> None:
    """Set the weights of the cross-encoder's score and of exact names, by these examples."""
    from ..linking.calibration import FittedWeight
    from ..linking.reranking import log_softmax

    beside = linker.reranker.retriever_weight if linker.reranked else 0.0
    # With a weight of 0 names are looked up, and change no order.
    linker.rerank_weight = None
    linker.name_weight = FittedWeight(0.0, linker.reranked) if names else None
    if not beside and not names:
        return
    # Four tables [n, k] of the mentions' candidates: the score that orders them, the retriever's,
    # whether the mention is a name of the candidate, and whether that is right.
    tables = []
    for example, linked in linked_one_by_one(nlp, linker, examples, "Fitting weights", progress):
        if linked is None:
            continue
        links = linked.links
        golds = [
            [n for n in map(linker.kb.number, gold_ids(span)) if n is not None]
            for span in mention_spans(example.reference, linker.spans_key)
        ]
        right = [np.isin(row, gold) for row, gold in zip(links.numbers, golds)]
        named = np.zeros_like(right) if links.named is None else links.named
        tables.append((links.ranking_scores, links.scores, named, right))
    scores, found, named, right = (np.concatenate(columns) for columns in zip(*tables))
    if beside:
        # A rerank score is the cross-encoder's score plus the weighed score of the retriever, less
        # one number for each mention (it is the logarithm of a probability).
        read = np.isfinite(scores)
        found = np.where(read, beside * found, -np.inf)
        pairs = np.where(read, scores, 0) - np.where(read, found, 0)
        weight = feature_weight(found, pairs, right) or 0.0
        linker.rerank_weight = FittedWeight(weight, linker.reranked)
        scores = log_softmax(found + weight * pairs)
    if names:
        worth = feature_weight(scores, named, right)
        linker.name_weight = None if worth is None else FittedWeight(worth, linker.reranked)


def nil_threshold_of_names(linker: ProxyLinker) -> float | None:
    """Give a NIL threshold that rejects what resembles no name, and keeps the names of the KB.

    Some names of the KB are searched as mentions without a context. The best score of an entity that
    does not have the name is what a mention gets if the KB lacks its entity. A quarter of these
    scores are below the threshold.

    Args:
        linker: A linker whose KB has its vectors.

    Returns:
        The threshold; None if the KB has too few names to tell.
    """
    kb = linker.index
    rng = np.random.default_rng(0)
    numbers = kb.numbers()
    entities = kb.entities(np.sort(rng.permutation(numbers)[:_NAMES]))
    names = [entity.names[rng.integers(len(entity.names))] for entity in entities]
    if len(names) < _FEWEST:
        return None
    mentions = [MentionInContext(name, 0, len(name)) for name in names]
    found = kb.search(linker.retriever.mention_vectors(mentions), _CANDIDATES)
    owned = np.array([np.isin(row, kb.numbers_named(n)) for row, n in zip(found.numbers, names)])
    own, others = (np.where(which, found.scores, -np.inf).max(axis=1) for which in (owned, ~owned))
    limits = np.quantile(others, _MISSING), np.quantile(own, _PRESENT)
    return float(min(limits)) if np.isfinite(limits).all() else None
