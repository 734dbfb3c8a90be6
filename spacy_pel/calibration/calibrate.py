"""The ranking and the NIL threshold of a linker, fitted to gold mentions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from itertools import chain, compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from spacy.language import Language
from spacy.training import Example

from ..errors import PelError
from ..evaluation.evaluate import Bars, check_ids, gold_examples, read_batches
from ..io.whole_files import pointed_to, whole_file
from ..linking.nil import NilPolicy, is_nil
from ..linking.ordering import unambiguous_owners
from ..linking.ranking import (
    TOP,
    Features,
    Ranking,
    compare,
    features_of,
    joined_features,
    learnt_priors,
)
from ..metrics.calibration import expected_calibration_error
from ..metrics.linking import best_nil_threshold, nil_metrics
from ..models.ranker import fitted_ranker
from ..pipeline.fitted import Fitted
from ..pipeline.pipelines import linker_of, load_pipeline
from ..spans import gold_ids, mention_spans
from .fit_joint import JointReport, fit_joint

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker

_FOLDS = 5  # of documents, for figures of documents that nothing was fitted to
_SURE = 0.9


class CalibrationReport(NamedTuple):
    """What was fitted, and how well it does.

    The figures are of documents that a ranking was not fitted to: five are fitted, each without a fifth
    of the documents. Of one document they are of the mentions that the ranking was fitted to.
    """

    mentions: int  # the number of gold mentions
    fitted_on: str  # their labels, with the number of each
    # A mention is NIL if the probability that a candidate is right is below it. None: no mention is.
    nil_threshold: float | None
    recall_before: (
        float  # the share of mentions in the KB whose first candidate is right, by scores
    )
    recall_after: float  # the same by the ranking
    nil: dict[str, Any]  # how well NIL mentions are found, see ``metrics.linking``
    error: float  # the expected calibration error of the probabilities
    # Of the first candidates with a probability of 90 % at least: their share of all mentions, and the
    # share of them that is right; None if there are none.
    sure: tuple[float, float] | None
    joint: JointReport | None = None  # how mentions are linked together, if that was fitted


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
        kb: The folder of a KB to use instead of the linker's own.
        spans_key: Mentions are in ``doc.spans[spans_key]``. None: where the linker looks for them.
        **settings: Others, and ``corpus`` and ``component``, are those of ``calibrate``.

    Raises:
        PelError: The folder has no pipeline with such a linker, or what ``calibrate`` raises.
        OSError: The folder cannot be written to.
    """
    file = Path(pipeline) / component / "cfg"
    if not file.is_file():
        problem = f'{pipeline}: no folder of a pipeline with a "{component}"'
        raise PelError(problem, "give one that may be changed, such as training/model-best")
    nlp = load_pipeline(pipeline)
    linker = linker_of(nlp, component, kb=kb, spans_key=spans_key)
    report = calibrate(nlp, corpus, component=component, **settings)
    with whole_file(pointed_to(file)) as written:
        json.dump(linker.settings_of_weights(), written)
    return report


def calibrate(
    nlp: Language,
    corpus: Sequence[str | Path],
    *,
    component: str = "proxy_linker",
    limit: int = 0,
    jointly: bool | None = None,
    progress: Bars | None = None,
) -> CalibrationReport:
    """Fit the ranking of a linker (``linking.ranking``) and its NIL threshold to gold mentions.

    The ranking orders the candidates, and gives them probabilities. The NIL threshold is the one with
    the best F1 of the NIL class; it is None where no mention is NIL.

    Arguments that are not named here are those of ``evaluate``. The linker of ``nlp`` is changed.

    Args:
        jointly: Whether to fit how mentions are linked together (``fit_joint``). If not, they
            cannot be. None: if that was fitted before.

    Raises:
        PelError: There is no linker or no mention, all mentions are NIL, none of the gold ids is in
            the KB, no candidate is right, or the KB has no vectors of the linker's encoder.
    """
    linker = linker_of(nlp, component)
    jointly = linker.joint is not None if jointly is None else jointly
    examples = gold_examples(nlp, linker, corpus, limit)
    if not check_ids(examples, linker, corpus):
        files = ", ".join(map(str, corpus))
        raise PelError(f"{files}: all mentions are NIL", "give a corpus with entities as well")
    before = linker.fitted
    linker.fitted = Fitted(configured_nil_threshold=before.configured_nil_threshold)
    try:
        report = fit(nlp, linker, examples, progress)
        joint = fit_joint(nlp, linker, examples, progress) if jointly else None
        return report._replace(joint=joint)
    except BaseException:
        linker.fitted = before
        raise


def fit(
    nlp: Language,
    linker: ProxyLinker,
    examples: Sequence[Example],
    progress: Bars | None = None,
    types_of_kb: Mapping[tuple[str, ...], int] | None = None,
) -> CalibrationReport:
    """Fit the ranking and the NIL threshold of a linker to the mentions of ``gold_examples``.

    ``types_of_kb``: how many entities have which types; None: those of the linker's KB. PelError if no
    candidate is right.
    """
    gold = _looked_at(nlp, linker, examples, progress)
    if not gold.correct.any():
        problem = "no candidate is right, so no ranking can be fitted"
        raise PelError(problem, "give a larger corpus, or a pipeline that is better trained")
    types_of_kb = types_of_kb or Counter(entity.types for entity in linker.kb)
    folds = gold.documents % _FOLDS
    probabilities = np.empty((len(gold.correct), gold.correct.shape[1] + 1), np.float32)
    whole = {"desc": "Fitting", "total": 1 + _FOLDS, "unit": " rankings"}
    with progress(**whole) if progress else nullcontext() as bar:
        linker.ranking = _fitted(gold, types_of_kb, linker.reranked)
        for fold in range(_FOLDS):
            if bar:
                bar.update()
            own = folds == fold
            if own.any():
                ranking = linker.ranking if own.all() else _fitted(gold.of(~own), types_of_kb, 0)
                probabilities[own] = ranking.probabilities(gold.of(own).features)
        if bar:
            bar.update()
    best = probabilities[:, :-1].argmax(axis=1)
    first_correct = np.take_along_axis(gold.correct, best[:, None], axis=1)[:, 0]
    best_probabilities = probabilities[np.arange(len(best)), best]
    in_kb = np.array([types is not None for types in gold.types])
    policy = NilPolicy(linker.kb, linker.sure_probability)
    is_sure = policy.is_sure(gold.unambiguous[np.arange(len(best)), best], best_probabilities)
    nil_score = np.where(is_sure, np.inf, 1 - probabilities[:, -1])
    threshold = best_nil_threshold(nil_score, (~in_kb).tolist())
    linker.nil_threshold = threshold
    sure = best_probabilities >= _SURE
    ranks = 1 + np.argmax(
        np.take_along_axis(gold.correct, np.argsort(-probabilities[:, :-1]), 1), axis=1
    )
    return CalibrationReport(
        mentions=len(best),
        fitted_on=linker.ranking.fitted_on,
        nil_threshold=threshold,
        recall_before=float(gold.correct[in_kb, 0].mean()),
        recall_after=float(first_correct[in_kb].mean()),
        nil=nil_metrics(
            1 - probabilities[:, -1],
            is_nil(nil_score, threshold),
            np.where(gold.correct.any(axis=1), ranks, gold.ranks),
            in_kb,
            decided=threshold is not None,
        ),
        error=expected_calibration_error(best_probabilities, first_correct),
        sure=(float(sure.mean()), float(first_correct[sure].mean())) if sure.any() else None,
    )


class _Gold(NamedTuple):
    """The candidates of gold mentions as a ranking looks at them."""

    features: Features
    correct: np.ndarray  # bool [n, k], which candidates are correct
    ranks: np.ndarray  # int64 [n], the rank of the first correct candidate; 0: there is none
    unambiguous: np.ndarray  # bool [n, k], which candidates alone have the mention as a name
    # Of the correct entities; None if the KB has none of them.
    types: Sequence[tuple[str, ...] | None]
    documents: np.ndarray  # int64 [n], the numbers of the documents

    def of(self, chosen: np.ndarray) -> _Gold:
        """Some of the mentions, bool [n]."""
        return _Gold(
            self.features.of(chosen),
            self.correct[chosen],
            self.ranks[chosen],
            self.unambiguous[chosen],
            list(compress(self.types, chosen)),
            self.documents[chosen],
        )


def _looked_at(
    nlp: Language, linker: ProxyLinker, examples: Sequence[Example], progress: Bars | None
) -> _Gold:
    """Search the candidates of gold mentions, and compare them."""
    features, numbers, unambiguous = [], [], []
    for batch in read_batches(nlp, linker, examples, progress):
        found = linker.ranking_inputs(batch)
        if found is None:
            continue
        labels = [span.label_ for doc in batch for span in mention_spans(doc, linker.spans_key)]
        features.append(features_of(labels, compare(linker.kb, found)))
        numbers.append(found.candidates.numbers)
        top = found.candidates.numbers[:, :TOP]
        unambiguous.append(unambiguous_owners(linker.kb, found.mentions, top))
    correct, types, documents = [], [], []  # ``correct`` is of all candidates
    rows = chain.from_iterable(numbers)
    for document, example in enumerate(examples):
        for span in mention_spans(example.reference, linker.spans_key):
            golds = [n for n in map(linker.kb.number, gold_ids(span)) if n is not None]
            correct.append(np.isin(next(rows), golds))
            types.append(linker.kb.entities(golds[:1])[0].types if golds else None)
            documents.append(document)
    is_correct = np.array(correct)
    ranks = np.where(is_correct.any(axis=1), 1 + is_correct.argmax(axis=1), 0)
    return _Gold(
        joined_features(features),
        is_correct[:, :TOP],
        ranks,
        np.concatenate(unambiguous),
        types,
        np.array(documents),
    )


def _fitted(gold: _Gold, types_of_kb: Mapping[tuple[str, ...], int], reranked: int) -> Ranking:
    priors = learnt_priors(gold.features.labels, gold.types, types_of_kb)
    ranker = fitted_ranker(*gold.features.with_priors(priors), gold.correct)
    return Ranking(ranker, priors, dict(Counter(gold.features.labels)), reranked)
