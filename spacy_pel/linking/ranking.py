"""The learnt ranking of candidates, which ``pel calibrate`` fits, and its features."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, compress
from math import log, log1p
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..kb.knowledge_base import OTHER_SENSE, KnowledgeBase
from ..kb.records.entity import Entity
from ..kb.records.names import american, normalised
from ..text.mention_inputs import MentionInContext
from .contexts import Contexts
from .name_similarity import trigram_similarity, word_similarity
from .ordering import (
    Evidence,
    Ordered,
    RankingInput,
    group_means,
    is_acronym,
    log_softmax,
    sure_owners,
)

if TYPE_CHECKING:
    from ..models.ranker import Ranker

TOP = 8  # the candidates of a mention that the ranking reads, from the best
_MAX_OWNERS = 5  # of a name; more count as this many
_MAX_ELSEWHERE = 4  # mentions of a document that mean a candidate; more count as this many
_PRIOR = 20  # the weight, in gold mentions, of the types in the whole KB among those of a label
_MAX_LOG_RATIO = 3.0  # of a type
_MAX_LABELS = 10  # in a message
# The weight of the context among definitions: naive Bayes counts related words as if they were independent.
_CONTEXT_WEIGHT = 0.5
_MIN_LOG_SENSE = -8.0  # less probable senses count as this improbable


class Ranking(NamedTuple):
    """Computes the probability of each of the best candidates, and that none is correct."""

    ranker: Ranker  # the network
    priors: LabelPriors  # the facts about the labels of mentions
    labels: Mapping[str, int]  # the number of mentions of each label that it was fitted on
    # The number of candidates that were reranked when it was fitted. It applies only while the linker
    # reranks this number.
    reranked: int = 0
    contexts: Contexts = Contexts()  # the words around the senses of abbreviations

    def ordered(self, kb: KnowledgeBase, labels: Sequence[str], given: RankingInput) -> Ordered:
        """Order the best candidates of mentions with these labels by their probabilities.

        Equally probable candidates, and those that the ranking does not read, keep their order. In a KB that
        knows word forms, those that have the mention as a name come first.
        """
        comparison = compare(kb, given, self.contexts)
        p_correct = self.probabilities(features_of(labels, comparison))
        # Gold mentions, to which it was fitted, rarely have acronyms in senses that are no entity.
        other = _p_other_sense(comparison)
        p_correct[:, :-1] *= 1 - other[:, None]
        p_correct[:, -1] += other * (1 - p_correct[:, -1])
        if given.groups is not None:
            p_correct = group_means(p_correct, given.groups)
        n_read = p_correct.shape[1] - 1
        probabilities = np.full(given.candidates.scores.shape, np.nan, dtype=np.float32)
        probabilities[:, :n_read] = p_correct[:, :-1]
        keys = np.nan_to_num(probabilities, nan=-1.0)
        if kb.settings.get("word_forms"):
            keys[:, :n_read] += 2 * sure_owners(
                kb, given.mentions, given.candidates.numbers[:, :n_read]
            )
        order = np.argsort(-keys, kind="stable", axis=1)
        evidence = evidence_of(comparison).in_order(order[:, :n_read])
        probabilities = np.take_along_axis(probabilities, order, axis=1)
        return Ordered(order, probabilities, 1 - p_correct[:, -1], evidence)

    def probabilities(self, features: Features) -> np.ndarray:
        """Return the probability of each candidate and, last, of none: float32 [n, k + 1]."""
        # An older version fitted fewer features. Those that were added since are the last.
        n_candidate, n_mention = len(self.ranker.candidate_mean), len(self.ranker.mention_mean)
        known = features._replace(
            candidates=features.candidates[..., : n_candidate - 1],
            mentions=features.mentions[:, : n_mention - 1],
        )
        return self.ranker.probabilities(*known.with_priors(self.priors))

    @property
    def fitted_on(self) -> str:
        """The labels with their counts, the most frequent first."""
        labels = sorted(self.labels.items(), key=lambda pair: (-pair[1], pair[0]))
        shown = ", ".join(f"{label} ({count:,})" for label, count in labels[:_MAX_LABELS])
        n_more = len(labels) - _MAX_LABELS
        return f"{shown} and {n_more} more" if n_more > 0 else shown

    def as_data(self) -> dict[str, Any]:
        """Return it as plain data, for JSON."""
        return {
            "ranker": self.ranker.as_data(),
            "priors": self.priors._asdict(),
            "labels": dict(self.labels),
            "reranked": self.reranked,
            "contexts": self.contexts.as_data(),
        }

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Ranking:
        """Make a ranking from ``as_data``."""
        from ..models.ranker import Ranker  # here: torch takes seconds

        ranker, priors = Ranker.of(data["ranker"]), LabelPriors(**data["priors"])
        contexts = Contexts.of(data["contexts"]) if "contexts" in data else Contexts()
        return cls(ranker, priors, data["labels"], data["reranked"], contexts)


class Features(NamedTuple):
    """The features of n mentions and of their k candidates."""

    candidates: np.ndarray  # float32 [n, k, f]
    mentions: np.ndarray  # float32 [n, g]
    present: np.ndarray  # bool [n, k], whether there is such a candidate
    labels: Sequence[str]  # of the mentions
    types: Sequence[Sequence[tuple[str, ...]]]  # of the candidates, n lists of k

    def of(self, chosen: np.ndarray) -> Features:
        """Return the features of some of the mentions, bool [n]."""
        return Features(
            self.candidates[chosen],
            self.mentions[chosen],
            self.present[chosen],
            list(compress(self.labels, chosen)),
            list(compress(self.types, chosen)),
        )

    def with_priors(self, priors: LabelPriors) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the inputs of ``models.ranker.Ranker``: the features, with one more from the labels.

        The additional feature of a candidate is the fit of its types and the label; 0 for an unknown label.
        That of a mention is the log-odds that the KB lacks its entity.

        Returns:
            The features of candidates, float32 [n, k, f + 1], those of mentions, float32 [n, g + 1], and
            whether there is such a candidate, bool [n, k].
        """
        labels = [label.casefold() for label in self.labels]
        fit = cache(priors.fit)
        fits = [[fit(label, types) for types in row] for label, row in zip(labels, self.types)]
        fit_feature = np.array(fits, np.float32).reshape(self.present.shape) * self.present
        none = [[priors.none.get(label, priors.none[""])] for label in labels]
        candidates = np.concatenate([self.candidates, fit_feature[..., None]], axis=2)
        mentions = np.concatenate([self.mentions, np.array(none, np.float32)], axis=1)
        return candidates, mentions, self.present


class LabelPriors(NamedTuple):
    """The facts about the entities of mentions with a label, in lower case, learnt from gold mentions."""

    # By label and type, the log-ratio of the share of gold entities with the type to the share of all
    # entities of the KB. The type "" stands for entities without a type.
    types: Mapping[str, Mapping[str, float]]
    others: Mapping[str, float]  # by label, the same for a type that none of its gold entities has
    # By label, the log-odds that the KB lacks the entity; "" for any other label.
    none: Mapping[str, float]

    def fit(self, label: str, types: tuple[str, ...]) -> float:
        """Return how well the types of an entity fit a label: the best log-ratio, or 0 if unknown."""
        if label not in self.types:
            return 0.0
        ratios, other = self.types[label], self.others[label]
        return max(ratios.get(type, other) for type in types or ("",))


def learnt_priors(
    labels: Sequence[str],
    types: Sequence[Collection[str] | None],
    kb_types: Mapping[tuple[str, ...], int],
) -> LabelPriors:
    """Learn the priors of labels from gold mentions.

    Args:
        labels: The label of each mention.
        types: The types of the entity of each mention; None if the KB lacks it.
        kb_types: The number of entities of the KB with each combination of types.
    """
    in_kb = Counter[str]()
    for combination, count in kb_types.items():
        in_kb.update(dict.fromkeys(combination or ("",), count))
    n_types, n_all = len(in_kb), in_kb.total()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    missing, mentions = Counter[str](), Counter[str]()
    for label, of_entity in zip(map(str.casefold, labels), types):
        mentions[label] += 1
        missing[label] += of_entity is None
        counts[label].update(() if of_entity is None else of_entity or ("",))

    def log_ratio(of_label: Counter[str], type: str) -> float:
        share = (in_kb[type] + 1) / (n_all + n_types)
        share_of_label = (of_label[type] + _PRIOR * share) / (of_label.total() + _PRIOR)
        ratio = log(share_of_label / share)
        return round(min(max(ratio, -_MAX_LOG_RATIO), _MAX_LOG_RATIO), 3)

    ratios, others = {}, {}
    overall = (missing.total() + 1) / (mentions.total() + 2)
    p_none = {"": overall}
    for label, of_label in counts.items():
        ratios[label] = {type: log_ratio(of_label, type) for type in sorted(of_label)}
        others[label] = round(max(log(_PRIOR / (of_label.total() + _PRIOR)), -_MAX_LOG_RATIO), 3)
        p_none[label] = (missing[label] + 10 * overall) / (mentions[label] + 10)
    none = {label: round(log(p / (1 - p)), 3) for label, p in p_none.items()}
    return LabelPriors(ratios, others, none)


@dataclass
class Comparison:
    """The comparison of n mentions with their k best candidates.

    Arrays are [n, k] unless stated otherwise. Values of a missing candidate are 0.
    """

    surfaces: list[str]  # the words of the mentions, as written
    normalised: list[str]  # the same, normalised
    numbers: np.ndarray  # int64, the numbers of the candidates; -1 for no candidate
    entities: Mapping[int, Entity]  # the candidates
    entity_names: Mapping[int, Sequence[str]]  # their names
    present: np.ndarray  # bool, whether there is such a candidate
    scores: np.ndarray  # float32, the retriever's
    n_owners: np.ndarray  # int [n], the number of entities that have the mention as a name
    share_of_owners: np.ndarray  # float [n], the number of owners, scaled to 0 to 1
    is_unambiguous: np.ndarray  # bool [n], whether one entity alone has the mention as a name
    exact: np.ndarray  # bool, whether the mention is a name of the candidate
    similarity: np.ndarray  # of the most similar name (``trigram_similarity``)
    first_similarity: np.ndarray  # of the first name
    nearest_names: np.ndarray  # int, the place of the most similar name
    # The four arrays of ``word_similarity``.
    word_similarities: list[np.ndarray]
    elsewhere: np.ndarray  # see ``_meant_elsewhere``
    definitions: np.ndarray  # int, the number of texts that define the mention as the candidate
    all_definitions: np.ndarray  # int [n], the number of texts that define the mention as an entity
    other_definitions: np.ndarray  # int [n], the number of texts that define it as no entity
    # The log of the share of definitions, to which each owner of the name adds 0.5; at most 0.
    definition_share: np.ndarray
    rerank_scores: np.ndarray  # float, NaN for a candidate that was not reranked
    # float32, the scores by canonical names alone. The senses of an acronym share the vector of the
    # acronym, but not this one.
    canonical_scores: np.ndarray
    context_scores: np.ndarray  # float, of ``contexts``; 0 where the mention has no other sense

    def of_entities(self, value: Callable[[int], float]) -> np.ndarray:
        """Return a value of each candidate, by its number: float64 [n, k]."""
        values = {number: value(number) for number in self.entities}
        column = [values.get(number, 0.0) for number in self.numbers.ravel().tolist()]
        return np.array(column).reshape(self.numbers.shape)


def _behind_best(values: np.ndarray) -> np.ndarray:
    """Return the difference of the best value of each mention and each candidate's value, [n, k]."""
    behind: np.ndarray = values.max(axis=1, keepdims=True) - values
    return behind


# The features of a candidate, [n, k] each. A saved ranking depends on their order.
CANDIDATE_FEATURES: dict[str, Callable[[Comparison], np.ndarray]] = {
    "score": lambda c: c.scores,
    "score behind the best": lambda c: _behind_best(c.scores),
    "log of rank": lambda c: np.broadcast_to(
        np.log1p(np.arange(c.numbers.shape[1])), c.numbers.shape
    ),
    "similarity of the most similar name": lambda c: c.similarity,
    "similarity behind the best": lambda c: _behind_best(c.similarity),
    "similarity of the canonical name": lambda c: c.first_similarity,
    "mention is a name": lambda c: c.exact,
    "mention is a name of no other entity": lambda c: c.exact & c.is_unambiguous[:, None],
    "number of owners of the name": lambda c: c.exact * c.share_of_owners[:, None],
    "mention is the canonical name": lambda c: c.exact & (c.first_similarity > 0.999),
    "another mention means it": lambda c: c.elsewhere > 0,
    "number of other mentions that mean it": lambda c: c.elsewhere,
    "log of the number of names": lambda c: c.of_entities(lambda n: log(len(c.entity_names[n]))),
    "has a type": lambda c: c.of_entities(lambda n: float(bool(c.entities[n].types))),
    "rerank score": lambda c: np.where(np.isfinite(c.rerank_scores), c.rerank_scores, 0.0),
    "was reranked": lambda c: np.isfinite(c.rerank_scores),
    "log of the share of definitions": lambda c: c.definition_share,
    "score by the canonical name": lambda c: c.canonical_scores,
    "the same, behind the best": lambda c: _behind_best(c.canonical_scores),
}
# The arrays of ``word_similarity`` follow, then each of these behind the best, the context score, and the
# log-probability of the sense.

# The features of a mention, [n] each. The maximum of each array of ``word_similarity`` follows.
MENTION_FEATURES: dict[str, Callable[[Comparison], np.ndarray | list[float]]] = {
    "best score": lambda c: c.scores[:, 0],
    "best score before the second": lambda c: c.scores[:, 0] - c.scores[:, 1],
    "best similarity": lambda c: c.similarity.max(axis=1),
    "is an acronym": lambda c: [float(is_acronym(surface)) for surface in c.surfaces],
    "log of its length": lambda c: [log(len(s)) if s else 0.0 for s in c.surfaces],
    "number of owners": lambda c: c.share_of_owners,
    "has one owner": lambda c: c.is_unambiguous,
    "number of words": lambda c: [len(surface.split()) / 4 for surface in c.normalised],
    "log of the number of definitions": lambda c: np.array(list(map(log1p, c.all_definitions))),
}


def compare(kb: KnowledgeBase, given: RankingInput, contexts: Contexts = Contexts()) -> Comparison:
    """Compare n mentions with their TOP best candidates.

    Pass all mentions of a document in one call, because the comparison counts mentions of the same entity.

    Args:
        kb: The KB of the candidates.
        given: The mentions with at least two columns of candidates.
        contexts: The words around the senses of abbreviations.
    """
    numbers, scores = (column[:, :TOP] for column in given.candidates)
    present = numbers >= 0
    distinct = np.unique(numbers[present])
    entities = dict(zip(distinct.tolist(), kb.entities(distinct)))
    entity_names = {number: entity.names for number, entity in entities.items()}
    surfaces = [mention.surface for mention in given.mentions]
    names = [normalised(surface) for surface in surfaces]
    owners = kb.numbers_of_names(surfaces)
    n_owners = np.array(list(map(len, owners)))
    is_unambiguous = n_owners == 1
    # np.isin is slow on few numbers.
    owner_sets = [set(numbers.tolist()) for numbers in owners]
    is_owner = [[n in known for n in row] for known, row in zip(owner_sets, numbers.tolist())]
    exact = np.array(is_owner, dtype=bool).reshape(numbers.shape) & present
    spelled = list(map(american, names))
    similarity, first_similarity, nearest = trigram_similarity(kb, spelled, numbers, entity_names)
    words = word_similarity(kb, spelled, numbers, entity_names)
    rerank_scores = np.full(numbers.shape, np.nan)
    if given.rerank_scores is not None:
        rerank_scores = given.rerank_scores[:, :TOP]
    return Comparison(
        surfaces,
        names,
        numbers,
        entities,
        entity_names,
        present,
        np.where(present, scores, 0.0),
        n_owners,
        np.minimum(n_owners, _MAX_OWNERS) / _MAX_OWNERS,
        is_unambiguous,
        exact,
        similarity,
        first_similarity,
        nearest,
        words,
        _meant_elsewhere(given.mentions, names, numbers, exact & is_unambiguous[:, None]),
        *_definitions(kb, surfaces, numbers, n_owners),
        rerank_scores,
        _canonical_scores(kb, given, numbers),
        _context_scores(contexts, given.mentions, np.where(exact, numbers, -1), entities),
    )


def features_of(labels: Sequence[str], comparison: Comparison) -> Features:
    """Return the features of n mentions with these labels, and of their candidates."""
    words, numbers = comparison.word_similarities, comparison.numbers
    candidates = [feature(comparison) for feature in CANDIDATE_FEATURES.values()]
    candidates += [*words, *map(_behind_best, words)]
    candidates += [comparison.context_scores, _log_senses(comparison)]
    mentions = [feature(comparison) for feature in MENTION_FEATURES.values()]
    mentions += [values.max(axis=1) for values in words]
    entities = comparison.entities
    return Features(
        np.stack(candidates, axis=-1).astype(np.float32),
        np.array(mentions, dtype=np.float32).T.copy(),
        comparison.present,
        labels,
        [[entities[n].types if n >= 0 else () for n in row] for row in numbers.tolist()],
    )


def joined_features(parts: Sequence[Features]) -> Features:
    """Concatenate the features of the mentions of several parts."""
    return Features(
        np.concatenate([part.candidates for part in parts]),
        np.concatenate([part.mentions for part in parts]),
        np.concatenate([part.present for part in parts]),
        list(chain.from_iterable(part.labels for part in parts)),
        list(chain.from_iterable(part.types for part in parts)),
    )


def evidence_of(comparison: Comparison) -> Evidence:
    """Return the facts of a comparison that users see."""
    names = [
        [comparison.entity_names[n][place] if n >= 0 else "" for n, place in zip(*rows)]
        for rows in zip(comparison.numbers.tolist(), comparison.nearest_names.tolist())
    ]
    shape = comparison.numbers.shape
    all_definitions = comparison.all_definitions + comparison.other_definitions
    return Evidence(
        names,
        comparison.similarity,
        comparison.exact,
        np.broadcast_to(comparison.n_owners[:, None], shape),
        comparison.definitions,
        np.broadcast_to(all_definitions[:, None], shape),
        np.rint(comparison.elsewhere * _MAX_ELSEWHERE).astype(int),
    )


def _definitions(
    kb: KnowledgeBase, surfaces: Sequence[str], numbers: np.ndarray, n_owners: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the four arrays of a ``Comparison`` that come from the definitions of acronyms."""
    definitions, share = np.zeros(numbers.shape, dtype=int), np.zeros(numbers.shape)
    all_definitions, others = np.zeros((2, len(surfaces)), dtype=int)
    for place, (surface, row) in enumerate(zip(surfaces, numbers.tolist())):
        counts = dict(kb.definitions(surface))
        others[place] = counts.pop(OTHER_SENSE, 0)
        if counts:
            definitions[place] = [counts.get(number, 0) for number in row]
            all_definitions[place] = sum(counts.values())
            total = sum(counts.values()) + n_owners[place] / 2
            share[place] = [log((counts.get(number, 0) + 0.5) / total) for number in row]
    return definitions, all_definitions, others, np.minimum(share, 0.0)


def _p_other_sense(c: Comparison) -> np.ndarray:
    """Return the probability that mentions are acronyms of what is no entity, float [n].

    It is the share of the texts that define them so, among these and those that define them as a candidate,
    to which each candidate with this name adds 0.5.
    """
    known = np.where(c.exact, c.definitions + 0.5, 0).sum(axis=1)
    shares: np.ndarray = c.other_definitions / np.maximum(c.other_definitions + known, 1)
    return shares


def _canonical_scores(kb: KnowledgeBase, given: RankingInput, numbers: np.ndarray) -> np.ndarray:
    """Return the scores of candidates by their canonical names, float32 [n, k]; 0 without vectors."""
    scores = np.zeros(numbers.shape, np.float32)
    if given.vectors is not None:
        present = numbers >= 0
        lines, _ = np.nonzero(present)
        by_name = kb.vectors.name_scores(given.vectors, lines, numbers[present], first=True)
        scores[present] = np.where(np.isfinite(by_name), by_name, 0.0)
    return scores


def _context_scores(
    contexts: Contexts,
    mentions: Sequence[MentionInContext],
    owners: np.ndarray,
    entities: Mapping[int, Entity],
) -> np.ndarray:
    """Return how well the words around mentions fit candidates, float [n, k].

    ``owners``, int64 [n, k], has the numbers of the candidates with the mention as a name; -1 for the
    others. The best score of a mention is 0. All are 0 unless several candidates have the name.
    """
    scores = np.zeros(owners.shape)
    if not contexts.entities:
        return scores
    for mention, row, of_mention in zip(mentions, owners.tolist(), scores):
        senses = [place for place, number in enumerate(row) if number >= 0]
        if len(senses) > 1:
            around = contexts.stems_around(mention.text, mention.start, mention.end)
            for place in senses:
                context = contexts.entities.get(entities[row[place]].concept_id)
                of_mention[place] = context.score(around) if context else 0.0
            of_mention[senses] -= of_mention[senses].max()
    return scores


def _log_senses(c: Comparison) -> np.ndarray:
    """Return the log-probability of each sense of a name, by definitions and context: float [n, k].

    The senses are the candidates that have the mention as a name. It is 0 for the others, and for a name
    with one sense.
    """
    scores = c.definition_share + _CONTEXT_WEIGHT * c.context_scores
    logs = np.maximum(log_softmax(np.where(c.exact, scores, -np.inf)), _MIN_LOG_SENSE)
    is_sense = c.exact & (c.exact.sum(axis=1, keepdims=True) > 1)
    return np.where(is_sense, logs, 0.0)


def _meant_elsewhere(
    mentions: Sequence[MentionInContext],
    surfaces: Sequence[str],
    numbers: np.ndarray,
    unambiguous: np.ndarray,
) -> np.ndarray:
    """Return the number of other surfaces in the document that seem to mean each candidate, [n, k].

    The number is scaled to 0 to 1. A mention seems to mean the entity that alone has it as a name, or else
    its first candidate.
    """
    documents = [mention.document or mention.text for mention in mentions]
    by_document: dict[object, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    first = np.where(unambiguous.any(axis=1), unambiguous.argmax(axis=1), 0)
    for document, surface, row, place in zip(documents, surfaces, numbers.tolist(), first.tolist()):
        by_document[document][row[place]].add(surface)
    counts = []
    for meant, surface, row in zip(
        map(by_document.__getitem__, documents), surfaces, numbers.tolist()
    ):
        counts.append([len(meant[n] - {surface}) if n in meant else 0 for n in row])
    shares: np.ndarray = (
        np.minimum(np.array(counts).reshape(numbers.shape), _MAX_ELSEWHERE) / _MAX_ELSEWHERE
    )
    return shares
