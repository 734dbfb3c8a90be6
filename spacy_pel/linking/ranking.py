"""The learnt ranking of candidates, which ``pel calibrate`` fits, and what it looks at."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from math import log, log1p
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..kb.knowledge_base import KnowledgeBase
from ..kb.records.entity import Entity
from ..kb.records.names import american, normalised
from ..text.mention_inputs import MentionInContext
from .ordering import Evidence, Ordered, RankingInput, group_means, is_acronym
from .similarity import trigram_similarity, word_similarity

if TYPE_CHECKING:
    from ..models.ranker import Ranker

TOP = 8  # the candidates of a mention that are looked at, from the best
_MAX_OWNERS = 5  # of a name; more count as many
_MAX_ELSEWHERE = 4  # mentions of a document that mean a candidate; more count as many
_PRIOR = 20  # gold mentions that the KB as a whole counts for, where a label's types are learnt
_MAX_LOG_RATIO = 3.0  # of a type
_SHOWN = 10  # labels in a message


class Ranking(NamedTuple):
    """Orders the best candidates of a mention, and says how probable each is, and that none is right."""

    ranker: Ranker  # the network
    priors: LabelPriors  # what a mention's label says
    labels: Mapping[str, int]  # how many mentions of each label it was fitted on
    # The number of candidates that were reranked when it was fitted. It applies only while the linker
    # reranks this number.
    reranked: int = 0
    by_words: bool = True  # whether it looks at them; it does not if an older version fitted it

    def ordered(self, kb: KnowledgeBase, labels: Sequence[str], found: RankingInput) -> Ordered:
        """The best candidates by their probabilities; equal ones, and the others, stay in order.

        ``kb`` has their names and types. ``labels`` are those of the mentions.
        """
        comparison = compare(kb, found, self.by_words)
        given = self.probabilities(features_of(labels, comparison))
        if found.groups is not None:
            given = group_means(given, found.groups)
        probabilities = np.full(found.candidates.scores.shape, np.nan, dtype=np.float32)
        probabilities[:, : given.shape[1] - 1] = given[:, :-1]
        order = np.argsort(-np.nan_to_num(probabilities, nan=-1.0), kind="stable", axis=1)
        evidence = evidence_of(comparison).in_order(order[:, : given.shape[1] - 1])
        return Ordered(
            order, np.take_along_axis(probabilities, order, axis=1), 1 - given[:, -1], evidence
        )

    def probabilities(self, features: Features) -> np.ndarray:
        """The probability of each candidate and, last, that none is right: float32 [n, k + 1]."""
        return self.ranker.probabilities(*features.with_priors(self.priors))

    @property
    def fitted_on(self) -> str:
        """The labels with their counts, the most frequent first."""
        labels = sorted(self.labels.items(), key=lambda pair: (-pair[1], pair[0]))
        shown = ", ".join(f"{label} ({count:,})" for label, count in labels[:_SHOWN])
        return f"{shown} and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else shown

    def as_data(self) -> dict[str, Any]:
        """All of it as plain data, for JSON."""
        return {
            "ranker": self.ranker.as_data(),
            "priors": self.priors._asdict(),
            "labels": dict(self.labels),
            "reranked": self.reranked,
            "by_words": self.by_words,
        }

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Ranking:
        """The ranking that ``as_data`` described."""
        from ..models.ranker import Ranker  # here: torch takes seconds

        ranker, priors = Ranker.of(data["ranker"]), LabelPriors(**data["priors"])
        by_words = data.get("by_words", False)
        return cls(ranker, priors, data["labels"], data["reranked"], by_words)


class Features(NamedTuple):
    """The features of n mentions and of their k candidates."""

    candidates: np.ndarray  # float32 [n, k, f]
    mentions: np.ndarray  # float32 [n, g]
    there: np.ndarray  # bool [n, k], whether there is such a candidate
    labels: Sequence[str]  # of the mentions
    types: Sequence[Sequence[tuple[str, ...]]]  # of the candidates, n lists of k

    def of(self, chosen: np.ndarray) -> Features:
        """Return the features of some of the mentions, bool [n]."""
        arrays = (array[chosen] for array in self[:3])
        return Features(*arrays, *(list(compress(column, chosen)) for column in self[3:]))

    def with_priors(self, priors: LabelPriors) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The inputs of ``models.ranker.Ranker``: one more feature of each, by what labels say.

        That of a candidate is how well its types fit to the label; 0 for a label that is not known.
        """
        labels = [label.casefold() for label in self.labels]
        known: dict[tuple[str, tuple[str, ...]], float] = {}
        for label, row in zip(labels, self.types):
            of_label, others = priors.types.get(label), priors.others.get(label)
            for types in row:
                if of_label is None:
                    known[label, types] = 0.0
                elif (label, types) not in known:
                    known[label, types] = max(of_label.get(t, others) for t in types or ("",))
        affinities = [[known[label, t] for t in row] for label, row in zip(labels, self.types)]
        affinities = np.array(affinities, np.float32).reshape(*self.there.shape, 1)
        none = [[priors.none.get(label, priors.none[""])] for label in labels]
        none = np.array(none, np.float32)
        candidates = np.concatenate([self.candidates, affinities * self.there[..., None]], axis=2)
        return candidates, np.concatenate([self.mentions, none], axis=1), self.there


class LabelPriors(NamedTuple):
    """What a mention's label, in lower case, says of its entity, learnt from gold mentions."""

    # For each type of its gold entities the log of how much more often these have it than the entities
    # of the KB. The type "" stands for entities without one.
    types: Mapping[str, Mapping[str, float]]
    others: Mapping[str, float]  # the same for a type that none of its gold entities has
    none: Mapping[str, float]  # the log-odds that the KB lacks the entity; "" for any other label


def learnt_priors(
    labels: Sequence[str],
    types: Sequence[Collection[str] | None],
    of_kb: Mapping[tuple[str, ...], int],
) -> LabelPriors:
    """The priors of labels.

    Given are the labels of gold mentions, the types of the entity of each, None if the KB lacks it,
    and how many entities of the KB have which types.
    """
    everywhere = Counter[str]()
    for own, count in of_kb.items():
        everywhere.update(dict.fromkeys(own or ("",), count))
    n_types, n_all = len(everywhere), everywhere.total()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    missing, mentions = Counter[str](), Counter[str]()
    for label, own in zip(map(str.casefold, labels), types):
        mentions[label] += 1
        missing[label] += own is None
        counts[label].update(() if own is None else own or ("",))

    def ratio(of_label: Counter[str], type: str) -> float:
        share = (everywhere[type] + 1) / (n_all + n_types)
        found = (of_label[type] + _PRIOR * share) / (of_label.total() + _PRIOR)
        return round(min(max(log(found / share), -_MAX_LOG_RATIO), _MAX_LOG_RATIO), 3)

    ratios = {
        name: {type: ratio(own, type) for type in sorted(own)} for name, own in counts.items()
    }
    shares = {name: _PRIOR / (own.total() + _PRIOR) for name, own in counts.items()}
    others = {name: round(max(log(share), -_MAX_LOG_RATIO), 3) for name, share in shares.items()}
    overall = (missing.total() + 1) / (mentions.total() + 2)
    none = {name: (missing[name] + 10 * overall) / (n + 10) for name, n in mentions.items()}
    odds = {name: round(log(p / (1 - p)), 3) for name, p in {"": overall, **none}.items()}
    return LabelPriors(ratios, others, odds)


@dataclass
class Comparison:
    """What n mentions and their k best candidates are compared by.

    Arrays are [n, k] unless they say otherwise. Values of a missing candidate are 0.
    """

    surfaces: list[str]  # the words of the mentions, as written
    normalised: list[str]  # the same, normalised
    numbers: np.ndarray  # int64, the numbers of the candidates; -1 for no candidate
    entities: Mapping[int, Entity]  # the candidates
    present: np.ndarray  # bool, whether there is such a candidate
    scores: np.ndarray  # float32, the retriever's
    n_owners: np.ndarray  # int [n], how many entities have the mention as a name
    exact: np.ndarray  # bool, whether the mention is a name of the candidate
    similarity: np.ndarray  # of the most similar name (``similarity.trigram_similarity``)
    first_similarity: np.ndarray  # of the first name
    nearest_names: np.ndarray  # int, the place of the most similar name
    # Four arrays of ``similarity.word_similarity``; none if words do not count.
    word_similarities: list[np.ndarray]
    # How many mentions with other words in the document seem to mean the candidate, 0 to 1.
    elsewhere: np.ndarray
    definitions: np.ndarray  # int, how many texts define the mention as the candidate
    all_definitions: np.ndarray  # int [n], how many texts define the mention
    # The log of the share of definitions, to which each owner of the name adds 0.5; at most 0.
    definition_share: np.ndarray
    rerank_scores: np.ndarray  # float, NaN for a candidate that was not reranked
    # float32, by canonical names alone: senses of an acronym may share one vector by this name, and
    # differ by their other names.
    canonical_scores: np.ndarray

    @property
    def is_unambiguous(self) -> np.ndarray:
        """Whether one entity alone has the mention as a name: bool [n, 1]."""
        return self.n_owners[:, None] == 1

    @property
    def share_of_owners(self) -> np.ndarray:
        """The number of owners of the name, 0 to 1, float [n]."""
        return np.minimum(self.n_owners, _MAX_OWNERS) / _MAX_OWNERS

    def of_entities(self, value: Callable[[Entity], float]) -> np.ndarray:
        """A value of each candidate's entity, float64."""
        values = {number: value(entity) for number, entity in self.entities.items()}
        column = [values.get(number, 0.0) for number in self.numbers.ravel().tolist()]
        return np.array(column).reshape(self.numbers.shape)


def _behind_best(values: np.ndarray) -> np.ndarray:
    """How far each candidate's value is behind the best one of its mention."""
    return values.max(axis=1, keepdims=True) - values


# The features of a candidate, [n, k] each. A saved ranking knows them by their order.
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
    "mention is a name of no other entity": lambda c: c.exact & c.is_unambiguous,
    "number of owners of the name": lambda c: c.exact * c.share_of_owners[:, None],
    "mention is the canonical name": lambda c: c.exact & (c.first_similarity > 0.999),
    "another mention means it": lambda c: c.elsewhere > 0,
    "number of other mentions that mean it": lambda c: c.elsewhere,
    "log of the number of names": lambda c: c.of_entities(lambda entity: log(len(entity.names))),
    "has a type": lambda c: c.of_entities(lambda entity: float(bool(entity.types))),
    "rerank score": lambda c: np.where(np.isfinite(c.rerank_scores), c.rerank_scores, 0.0),
    "was reranked": lambda c: np.isfinite(c.rerank_scores),
    "log of the share of definitions": lambda c: c.definition_share,
    "score by the canonical name": lambda c: c.canonical_scores,
    "the same, behind the best": lambda c: _behind_best(c.canonical_scores),
}
# Those by words follow, in the order of ``word_similarity``; then each behind the best.

# The features of a mention, [n] each. The largest similarities by words follow.
MENTION_FEATURES: dict[str, Callable[[Comparison], np.ndarray | list[float]]] = {
    "best score": lambda c: c.scores[:, 0],
    "best score before the second": lambda c: c.scores[:, 0] - c.scores[:, 1],
    "best similarity": lambda c: c.similarity.max(axis=1),
    "is an acronym": lambda c: [float(is_acronym(surface)) for surface in c.surfaces],
    "log of its length": lambda c: [log(len(s)) if s else 0.0 for s in c.surfaces],
    "number of owners": lambda c: c.share_of_owners,
    "has one owner": lambda c: c.is_unambiguous[:, 0],
    "number of words": lambda c: [len(surface.split()) / 4 for surface in c.normalised],
    "log of the number of definitions": lambda c: np.array(list(map(log1p, c.all_definitions))),
}


def compare(kb: KnowledgeBase, found: RankingInput, by_words: bool = True) -> Comparison:
    """Compare mentions with the first 8 of their candidates, of which there are two at least.

    Mentions of a document are compared together. ``kb`` has names and types.
    """
    numbers, scores = (column[:, :TOP] for column in found.candidates)
    present = numbers >= 0
    distinct = np.unique(numbers[present])
    entities = dict(zip(distinct.tolist(), kb.entities(distinct)))
    surfaces = [mention.surface for mention in found.mentions]
    names = [normalised(surface) for surface in surfaces]
    owners = {surface: kb.numbers_named(surface) for surface in set(surfaces)}
    n_owners = np.array([len(owners[surface]) for surface in surfaces])
    # np.isin is slow on few numbers.
    owner_sets = [set(owners[surface].tolist()) for surface in surfaces]
    is_owner = [[n in own for n in row] for own, row in zip(owner_sets, numbers.tolist())]
    exact = np.array(is_owner, dtype=bool).reshape(numbers.shape) & present
    spelled = list(map(american, names))
    similarity, first_similarity, nearest = trigram_similarity(spelled, numbers, entities)
    words = word_similarity(kb, spelled, numbers, entities) if by_words else []
    rerank_scores = np.full(numbers.shape, np.nan)
    if found.rerank_scores is not None:
        rerank_scores = found.rerank_scores[:, :TOP]
    return Comparison(
        surfaces,
        names,
        numbers,
        entities,
        present,
        np.where(present, scores, 0.0),
        n_owners,
        exact,
        similarity,
        first_similarity,
        nearest,
        words,
        _meant_elsewhere(found.mentions, names, numbers, exact & (n_owners == 1)[:, None]),
        *_definitions(kb, surfaces, numbers, n_owners),
        rerank_scores,
        _canonical_scores(kb, found, numbers),
    )


def features_of(labels: Sequence[str], comparison: Comparison) -> Features:
    """Return the features of n mentions with these labels, and of their candidates."""
    words, numbers = comparison.word_similarities, comparison.numbers
    candidates = [feature(comparison) for feature in CANDIDATE_FEATURES.values()]
    candidates += [*words, *map(_behind_best, words)]
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
    """Join the features of several lots of mentions."""
    columns = list(zip(*parts))
    arrays = map(np.concatenate, columns[:3])
    return Features(*arrays, *(list(chain.from_iterable(column)) for column in columns[3:]))


def evidence_of(comparison: Comparison) -> Evidence:
    """Return what the ranking compares, for people."""
    names = [
        [comparison.entities[n].names[place] if n >= 0 else "" for n, place in zip(*rows)]
        for rows in zip(comparison.numbers.tolist(), comparison.nearest_names.tolist())
    ]
    shape = comparison.numbers.shape
    return Evidence(
        names,
        comparison.similarity,
        comparison.exact,
        np.broadcast_to(comparison.n_owners[:, None], shape),
        comparison.definitions,
        np.broadcast_to(comparison.all_definitions[:, None], shape),
        np.rint(comparison.elsewhere * _MAX_ELSEWHERE).astype(int),
    )


def _definitions(
    kb: KnowledgeBase, surfaces: Sequence[str], numbers: np.ndarray, n_owners: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return ``definitions``, ``all_definitions`` and ``definition_share`` of a ``Comparison``."""
    definitions, share = np.zeros(numbers.shape, dtype=int), np.zeros(numbers.shape)
    all_definitions = np.zeros(len(surfaces), dtype=int)
    for place, (surface, row) in enumerate(zip(surfaces, numbers.tolist())):
        if counts := kb.definitions(surface):
            definitions[place] = [counts.get(number, 0) for number in row]
            all_definitions[place] = sum(counts.values())
            total = sum(counts.values()) + n_owners[place] / 2
            share[place] = [log((counts.get(number, 0) + 0.5) / total) for number in row]
    return definitions, all_definitions, np.minimum(share, 0.0)


def _canonical_scores(kb: KnowledgeBase, found: RankingInput, numbers: np.ndarray) -> np.ndarray:
    """Return the scores of candidates by their canonical names, float32 [n, k]; 0 without vectors."""
    scores = np.zeros(numbers.shape, np.float32)
    if found.vectors is not None:
        present = numbers >= 0
        lines, _ = np.nonzero(present)
        by_name = kb.vectors.name_scores(found.vectors, lines, numbers[present], first=True)
        scores[present] = np.where(np.isfinite(by_name), by_name, 0.0)
    return scores


def _meant_elsewhere(
    mentions: Sequence[MentionInContext],
    surfaces: Sequence[str],
    numbers: np.ndarray,
    unambiguous: np.ndarray,
) -> np.ndarray:
    """Return how many mentions with other words in the document seem to mean a candidate: [n, k], 0 to 1.

    A mention seems to mean the entity that alone has it as a name, or else its first candidate.
    """
    documents = [mention.document or mention.text for mention in mentions]
    meant: dict[tuple[object, int], set[str]] = defaultdict(set)
    first = np.where(unambiguous.any(axis=1), unambiguous.argmax(axis=1), 0)
    for document, surface, row, place in zip(documents, surfaces, numbers.tolist(), first.tolist()):
        meant[document, row[place]].add(surface)
    none: set[str] = set()
    counts = [
        len(meant.get((document, number), none) - {surface})
        for document, surface, row in zip(documents, surfaces, numbers.tolist())
        for number in row
    ]
    return np.minimum(np.array(counts).reshape(numbers.shape), _MAX_ELSEWHERE) / _MAX_ELSEWHERE
