"""The learnt ranking of candidates, which ``pel calibrate`` fits, and what it looks at."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from math import log, log1p
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..kb.knowledge_base import KnowledgeBase
from ..kb.records.names import american, normalised
from ..text.mention_inputs import MentionInContext
from .ordering import Evidence, Ordered, RankingInput, group_means, is_acronym
from .similarity import trigram_similarity, word_similarity

if TYPE_CHECKING:
    from ..models.ranker import Ranker

TOP = 8  # the candidates of a mention that are looked at, from the best
_OWNERS = 5  # of a name; more are as many
_ELSEWHERE = 4  # mentions of a document that mean a candidate; more are as many
_PRIOR = 20  # gold mentions that the KB as a whole counts for, where a label's types are learnt
_MOST = 3.0  # the largest log-ratio of a type
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
        features, evidence = looked_at(kb, labels, found, self.by_words)
        given = self.probabilities(features)
        if found.groups is not None:
            given = group_means(given, found.groups)
        probabilities = np.full(found.candidates.scores.shape, np.nan, dtype=np.float32)
        probabilities[:, : given.shape[1] - 1] = given[:, :-1]
        order = np.argsort(-np.nan_to_num(probabilities, nan=-1.0), kind="stable", axis=1)
        evidence = evidence.in_order(order[:, : given.shape[1] - 1])
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
        return round(min(max(log(found / share), -_MOST), _MOST), 3)

    ratios = {
        name: {type: ratio(own, type) for type in sorted(own)} for name, own in counts.items()
    }
    shares = {name: _PRIOR / (own.total() + _PRIOR) for name, own in counts.items()}
    others = {name: round(max(log(share), -_MOST), 3) for name, share in shares.items()}
    overall = (missing.total() + 1) / (mentions.total() + 2)
    none = {name: (missing[name] + 10 * overall) / (n + 10) for name, n in mentions.items()}
    odds = {name: round(log(p / (1 - p)), 3) for name, p in {"": overall, **none}.items()}
    return LabelPriors(ratios, others, odds)


def features_of(
    kb: KnowledgeBase, labels: Sequence[str], found: RankingInput, by_words: bool = True
) -> Features:
    """What a ranking looks at (``looked_at``)."""
    return looked_at(kb, labels, found, by_words)[0]


def looked_at(
    kb: KnowledgeBase, labels: Sequence[str], found: RankingInput, by_words: bool = True
) -> tuple[Features, Evidence]:
    """Look at the best candidates of mentions: what a ranking compares, and the same for people.

    Of a candidate: its score, and how far it is behind the best; its rank; how like the mention its
    names are (Dice's coefficient of their trigrams); whether the mention is one of its names, exactly,
    and how many entities share that name; whether other mentions of the document mean it; how many
    names it has, and whether it has a type; the reranker's score; how often texts define the mention as
    it; its score by its canonical name alone, with how far that is behind the best; and with ``by_words``
    how many words its names share with the mention (``similarity.word_similarity``). Of a mention:
    what is best among its candidates, what the mention looks like, and how many texts define it.

    Of the candidates that were found, two at least, the first 8 are looked at. Mentions of a document
    are looked at together. ``kb`` has names and types; ``labels`` are those of the n mentions.
    """
    mentions = found.mentions
    numbers, scores = (column[:, :TOP] for column in found.candidates)
    there = numbers >= 0
    scores = np.where(there, scores, 0.0)
    distinct = np.unique(numbers[there])
    entities = dict(zip(distinct.tolist(), kb.entities(distinct)))
    surfaces = [normalised(mention.surface) for mention in mentions]
    spelled = list(map(american, surfaces))
    owners = {surface: kb.numbers_named(surface) for surface in {m.surface for m in mentions}}
    n_owners = np.array([len(owners[mention.surface]) for mention in mentions])
    is_sole, n_owners = n_owners == 1, np.minimum(n_owners, _OWNERS) / _OWNERS
    owning = [
        set(owners[mention.surface].tolist()) for mention in mentions
    ]  # np.isin is slow on few
    exact = [[number in own for number in row] for own, row in zip(owning, numbers.tolist())]
    exact = np.array(exact, dtype=bool).reshape(numbers.shape) & there
    like, like_first, nearest = trigram_similarity(spelled, numbers, entities)
    words = word_similarity(kb, spelled, numbers, entities) if by_words else []
    elsewhere = _told_elsewhere(mentions, surfaces, numbers, exact & is_sole[:, None])
    of_entities = {n: (log(len(e.names)), float(bool(e.types))) for n, e in entities.items()}
    of_record = [of_entities.get(n, (0.0, 0.0)) for n in numbers.ravel().tolist()]
    of_record = np.array(of_record).reshape(*numbers.shape, 2)
    # How often texts define a mention as a candidate, as the log of a share; 0 where none defines it.
    # An owner counts as defined half a time more.
    defined, n_texts = np.zeros(numbers.shape), np.zeros(len(mentions))
    texts = np.zeros((2, *numbers.shape), dtype=int)
    for place, (mention, row) in enumerate(zip(mentions, numbers.tolist())):
        if counts := kb.definitions(mention.surface):
            texts[0, place] = [counts.get(number, 0) for number in row]
            texts[1, place] = sum(counts.values())
            total = sum(counts.values()) + len(owners[mention.surface]) / 2
            defined[place] = [log((counts.get(number, 0) + 0.5) / total) for number in row]
            n_texts[place] = log1p(sum(counts.values()))
    # By canonical names alone: senses of an acronym may have one vector by this name, and have others
    # by their own names.
    by_first = np.zeros(numbers.shape, np.float32)
    if found.vectors is not None:
        lines, _ = np.nonzero(there)
        own = kb.vectors.name_scores(found.vectors, lines, numbers[there], first=True)
        by_first[there] = np.where(np.isfinite(own), own, 0.0)
    again = np.full(numbers.shape, np.nan)
    if found.rerank_scores is not None:
        again = found.rerank_scores[:, :TOP]
    read = np.isfinite(again)
    ranks = np.broadcast_to(np.log1p(np.arange(numbers.shape[1])), numbers.shape)
    candidates = [
        scores,
        scores.max(axis=1, keepdims=True) - scores,
        ranks,
        like,
        like.max(axis=1, keepdims=True) - like,
        like_first,
        exact,
        exact & is_sole[:, None],
        exact * n_owners[:, None],
        exact & (like_first > 0.999),
        elsewhere > 0,
        elsewhere,
        *np.moveaxis(of_record, -1, 0),
        np.where(read, again, 0.0),
        read,
        np.minimum(defined, 0.0),
        by_first,
        by_first.max(axis=1, keepdims=True) - by_first,
        *words,
        *(own.max(axis=1, keepdims=True) - own for own in words),
    ]
    of_mentions = [
        scores[:, 0],
        scores[:, 0] - scores[:, 1],
        like.max(axis=1),
        [is_acronym(mention.surface) for mention in mentions],
        [log(len(mention.surface)) if mention.surface else 0.0 for mention in mentions],
        n_owners,
        is_sole,
        [len(surface.split()) / 4 for surface in surfaces],
        n_texts,
        *(own.max(axis=1) for own in words),
    ]
    features = Features(
        np.stack(candidates, axis=-1).astype(np.float32),
        np.array(of_mentions, dtype=np.float32).T.copy(),
        there,
        labels,
        [[entities[n].types if n >= 0 else () for n in row] for row in numbers.tolist()],
    )
    names = [
        [entities[n].names[place] if n >= 0 else "" for n, place in zip(*rows)]
        for rows in zip(numbers.tolist(), nearest.tolist())
    ]
    counts = np.array([len(owners[mention.surface]) for mention in mentions])[:, None]
    said = np.rint(elsewhere * _ELSEWHERE).astype(int)
    counts = np.broadcast_to(counts, numbers.shape)
    return features, Evidence(names, like, exact, counts, *texts, said)


def _told_elsewhere(
    mentions: Sequence[MentionInContext],
    surfaces: Sequence[str],
    numbers: np.ndarray,
    sole: np.ndarray,
) -> np.ndarray:
    """How many mentions with other words in the document seem to mean a candidate: [n, k], 0 to 1.

    A mention seems to mean the entity that alone has it as a name, or else its first candidate.
    """
    documents = [mention.document or mention.text for mention in mentions]
    said: dict[tuple, set[str]] = defaultdict(set)
    first = np.where(sole.any(axis=1), sole.argmax(axis=1), 0)
    for document, surface, row, place in zip(documents, surfaces, numbers.tolist(), first.tolist()):
        said[document, row[place]].add(surface)
    none: set[str] = set()
    counts = [
        len(said.get((document, number), none) - {surface})
        for document, surface, row in zip(documents, surfaces, numbers.tolist())
        for number in row
    ]
    return np.minimum(np.array(counts).reshape(numbers.shape), _ELSEWHERE) / _ELSEWHERE
