"""Fit the ranking and the NIL threshold of a linker to gold mentions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain, compress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from spacy.language import Language
from spacy.training import Example

from ..batch.document_blocks import NoBar
from ..corpora.open_documents import open_documents
from ..errors import PelError
from ..evaluation.evaluate import Bars, check_ids, gold_examples, read_batches
from ..io.whole_files import pointed_to, whole_file
from ..linking.contexts import Contexts, learnt_contexts
from ..linking.nil import NilPolicy, is_nil
from ..linking.ordering import sure_owners
from ..linking.ranking import (
    TOP,
    Features,
    Ranking,
    compare,
    features_of,
    joined_features,
    learnt_priors,
)
from ..metrics.linking import best_nil_threshold, nil_metrics
from ..metrics.probabilities import expected_calibration_error
from ..models.ranker import fitted_ranker
from ..pipeline.fitted import Fitted
from ..pipeline.pipelines import linker_of, load_pipeline
from ..spans import gold_ids, mention_spans
from .fit_joint import JointReport, fit_joint

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker

_FOLDS = 5  # of documents, for cross-validation
_SURE = 0.9


class CalibrationReport(NamedTuple):
    """The figures of a calibration, by five-fold cross-validation over documents.

    With a single document, the figures are those of the mentions that the ranking was fitted to.

    Attributes:
        mentions: The number of gold mentions.
        fitted_on: Their labels, with the number of each.
        nil_threshold: A mention is NIL if the probability that any candidate is correct is lower. None:
            no mention is NIL.
        recall_before: Among mentions whose entity is in the KB, the share whose first candidate by
            scores is correct.
        recall_after: The same share by the ranking.
        nil: The figures of ``metrics.linking.nil_metrics``.
        error: The expected calibration error of the probabilities.
        sure: The share of mentions whose first candidate has a probability of at least 90 %, and the
            share of these that is correct. None without any.
        joint: The figures of joint linking, or None if it was not fitted.
    """

    mentions: int
    fitted_on: str
    nil_threshold: float | None
    recall_before: float
    recall_after: float
    nil: dict[str, Any]
    error: float
    sure: tuple[float, float] | None
    joint: JointReport | None = None


def calibrate_folder(
    pipeline: str | Path,
    corpus: Sequence[str | Path],
    *,
    kb: Path | None = None,
    spans_key: str | None = None,
    **settings: Any,
) -> CalibrationReport:
    """Calibrate the linker of a saved pipeline, and save its settings in the folder.

    After an error or an interruption, the folder is unchanged.

    Args:
        pipeline: The folder of a pipeline.
        corpus: As for ``calibrate``.
        kb: The folder of a KB that replaces the linker's.
        spans_key: The mentions are in ``doc.spans[spans_key]``. None keeps the linker's.
        **settings: Further arguments of ``calibrate``.

    Raises:
        PelError: The folder has no pipeline with a linker, or ``calibrate`` raises it.
        OSError: The folder cannot be written to.
    """
    if not Path(pipeline).is_dir():
        problem = f"{pipeline}: no folder of a pipeline"
        raise PelError(problem, "give the folder of a pipeline, such as training/model-best")
    nlp = load_pipeline(pipeline)
    linker = linker_of(nlp, kb=kb, spans_key=spans_key)
    report = calibrate(nlp, corpus, **settings)
    with whole_file(pointed_to(Path(pipeline) / linker.name / "cfg")) as written:
        json.dump(linker.settings_of_weights(), written)
    return report


def calibrate(
    nlp: Language,
    corpus: Sequence[str | Path],
    *,
    limit: int = 0,
    jointly: bool | None = None,
    texts: Sequence[str | Path] = (),
    progress: Bars = NoBar,
) -> CalibrationReport:
    """Fit the ranking of a linker (``linking.ranking``) and its NIL threshold to gold mentions.

    The NIL threshold has the best F1 of the NIL class; it is None if no mention is NIL. The linker of
    ``nlp`` changes.

    Args:
        nlp: The pipeline; the arguments not named here are those of ``evaluate``.
        jointly: Whether to fit joint linking (``fit_joint``), without which the linker cannot link
            jointly. None: only if it was fitted before.
        texts: Files of plain texts from which to learn the words around the senses of abbreviations.
            Without any, the words that were learnt before stay.

    Raises:
        PelError: There is no linker or no mention, all mentions are NIL, the KB has none of the gold ids,
            no candidate is correct, or the KB has no vectors of the linker's encoder.
    """
    linker = linker_of(nlp)
    jointly = linker.joint is not None if jointly is None else jointly
    examples = gold_examples(nlp, linker, corpus, limit)
    if not check_ids(examples, linker, corpus):
        files = ", ".join(map(str, corpus))
        raise PelError(f"{files}: all mentions are NIL", "give a corpus with entities as well")
    before = linker.fitted
    contexts = before.ranking.contexts if before.ranking else Contexts()
    if texts:
        lines = (raw.document().text for raw in open_documents(texts))
        contexts = learnt_contexts(linker.kb, lines)
    linker.fitted = Fitted(configured_nil_threshold=before.configured_nil_threshold)
    try:
        report = fit(nlp, linker, examples, progress, contexts=contexts)
        joint = fit_joint(nlp, linker, examples, progress) if jointly else None
        return report._replace(joint=joint)
    except BaseException:
        linker.fitted = before
        raise


def fit(
    nlp: Language,
    linker: ProxyLinker,
    examples: Sequence[Example],
    progress: Bars = NoBar,
    kb_types: Mapping[tuple[str, ...], int] | None = None,
    contexts: Contexts = Contexts(),
) -> CalibrationReport:
    """Fit the ranking and the NIL threshold of a linker to the mentions of ``gold_examples``.

    Args:
        nlp: The pipeline of the linker.
        linker: The linker, which changes.
        examples: The documents.
        progress: Makes progress bars, as for ``evaluate``.
        kb_types: The number of entities with each combination of types. None counts those of the KB.
        contexts: The words around the senses of abbreviations.

    Raises:
        PelError: No candidate is correct.
    """
    gold = _gold_features(nlp, linker, examples, contexts, progress)
    if not gold.correct.any():
        problem = "no candidate is correct, so no ranking can be fitted"
        raise PelError(problem, "give a larger corpus, or a pipeline that is better trained")
    kb_types = kb_types or Counter(entity.types for entity in linker.kb)
    folds = gold.documents % _FOLDS
    probabilities = np.empty((len(gold.correct), gold.correct.shape[1] + 1), np.float32)
    with progress(desc="Fitting", total=1 + _FOLDS, unit=" rankings") as bar:
        linker.ranking = _fitted_ranking(gold, kb_types, linker.reranked)._replace(
            contexts=contexts
        )
        for fold in range(_FOLDS):
            bar.update()
            held_out = folds == fold
            if held_out.any():
                ranking = linker.ranking
                if not held_out.all():
                    ranking = _fitted_ranking(gold.of(~held_out), kb_types, 0)
                probabilities[held_out] = ranking.probabilities(gold.of(held_out).features)
        bar.update()
    lines, best = np.arange(len(probabilities)), probabilities[:, :-1].argmax(axis=1)
    best_correct, best_probabilities = gold.correct[lines, best], probabilities[lines, best]
    in_kb = np.array([types is not None for types in gold.types])
    policy = NilPolicy(linker.kb, linker.sure_probability)
    is_sure = policy.is_sure(gold.owns[lines, best], best_probabilities)
    nil_score = np.where(is_sure, np.inf, 1 - probabilities[:, -1])
    threshold = best_nil_threshold(nil_score, (~in_kb).tolist())
    linker.nil_threshold = threshold
    sure = best_probabilities >= _SURE
    error = expected_calibration_error(best_probabilities, best_correct)
    assert error is not None  # there are mentions
    ranks = 1 + np.argmax(
        np.take_along_axis(gold.correct, np.argsort(-probabilities[:, :-1]), 1), axis=1
    )
    return CalibrationReport(
        mentions=len(best),
        fitted_on=linker.ranking.fitted_on,
        nil_threshold=threshold,
        recall_before=float(gold.correct[in_kb, 0].mean()),
        recall_after=float(best_correct[in_kb].mean()),
        nil=nil_metrics(
            1 - probabilities[:, -1],
            is_nil(nil_score, threshold),
            np.where(gold.correct.any(axis=1), ranks, gold.ranks),
            in_kb,
            decided=threshold is not None,
        ),
        error=error,
        sure=(float(sure.mean()), float(best_correct[sure].mean())) if sure.any() else None,
    )


class _Gold(NamedTuple):
    """The best TOP candidates of n gold mentions, with their features."""

    features: Features
    correct: np.ndarray  # bool [n, k], which candidates are correct
    # int64 [n], the rank of the first correct candidate among all; 0 if there is none
    ranks: np.ndarray
    owns: np.ndarray  # bool [n, k], which candidates are sure owners of the name (``sure_owners``)
    types: Sequence[tuple[str, ...] | None]  # of the gold entities; None if the KB lacks them
    documents: np.ndarray  # int64 [n], the numbers of the documents

    def of(self, chosen: np.ndarray) -> _Gold:
        """Return the mentions for which ``chosen``, bool [n], is true."""
        return _Gold(
            self.features.of(chosen),
            self.correct[chosen],
            self.ranks[chosen],
            self.owns[chosen],
            list(compress(self.types, chosen)),
            self.documents[chosen],
        )


def _gold_features(
    nlp: Language,
    linker: ProxyLinker,
    examples: Sequence[Example],
    contexts: Contexts,
    progress: Bars,
) -> _Gold:
    """Search the candidates of gold mentions, and compare them."""
    features, numbers, owns = [], [], []
    for batch in read_batches(nlp, linker, examples, progress):
        inputs = linker.ranking_inputs(batch)
        if inputs is None:
            continue
        labels = [span.label_ for doc in batch for span in mention_spans(doc, linker.spans_key)]
        features.append(features_of(labels, compare(linker.kb, inputs, contexts)))
        numbers.append(inputs.candidates.numbers)
        top = inputs.candidates.numbers[:, :TOP]
        owns.append(sure_owners(linker.kb, inputs.mentions, top))
    correct, types, documents = [], [], []
    rows = chain.from_iterable(numbers)
    for document, example in enumerate(examples):
        for span in mention_spans(example.reference, linker.spans_key):
            golds = [n for n in map(linker.kb.number, gold_ids(span)) if n is not None]
            correct.append(np.isin(next(rows), golds))
            types.append(linker.kb.entities(golds[:1])[0].types if golds else None)
            documents.append(document)
    is_correct = np.array(correct)  # [n, all candidates]
    return _Gold(
        joined_features(features),
        is_correct[:, :TOP],
        np.where(is_correct.any(axis=1), 1 + is_correct.argmax(axis=1), 0),
        np.concatenate(owns),
        types,
        np.array(documents),
    )


def _fitted_ranking(gold: _Gold, kb_types: Mapping[tuple[str, ...], int], reranked: int) -> Ranking:
    priors = learnt_priors(gold.features.labels, gold.types, kb_types)
    ranker = fitted_ranker(*gold.features.with_priors(priors), gold.correct)
    return Ranking(ranker, priors, dict(Counter(gold.features.labels)), reranked)
