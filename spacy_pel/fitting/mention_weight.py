"""How much learnt mentions count beside names, fitted to mentions whose entities are known.

These are mentions of other documents, or the learnt ones themselves. A learnt mention is searched
among the learnt mentions of all other documents, as a mention of a new document would be. A
conditional logistic regression then says how names and mentions together tell its entity
(``evaluation.feature_weight``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..evaluation.feature_weight import feature_weights
from ..kb.knowledge_base import KnowledgeBase
from ..kb.mention_changes import MentionEncoder
from ..kb.mentions import (
    NEAREST,
    MentionPassage,
    MentionWeight,
    NearMentions,
    scored_pairs,
)

_FITTED = 1500  # mentions of a source that the weight is fitted to
_NAMES = 64  # entities found by their names
_OWN = 256  # mentions of its own document that may be among those nearest to a mention
_SEED = 0


class Queries(NamedTuple):
    """Mentions whose entities are known, and what is near them.

    Attributes:
        vectors: float32 [n, dim].
        golds: The numbers of their entities, int64 [n].
        near: The learnt mentions near them.
    """

    vectors: np.ndarray
    golds: np.ndarray
    near: NearMentions


def queries_of_passages(
    kb: KnowledgeBase, encoder: MentionEncoder, passages: Sequence[MentionPassage]
) -> Queries:
    """The mentions of documents that the KB has not learnt."""
    vectors = encoder.mention_vectors(passages)
    golds = [kb.number(mention.id) for passage in passages for mention in passage.mentions]
    return Queries(vectors, np.array(golds), kb.mentions.nearest(vectors, NEAREST))


def queries_of_source(kb: KnowledgeBase, source: str) -> Queries:
    """Some of the mentions that were learnt from a source, each without those of its document."""
    mentions = kb.mentions
    place = list(mentions.sources).index(source)
    own = np.flatnonzero(mentions.sources_of_rows() == place)
    rows = own[np.random.default_rng(_SEED).permutation(len(own))[:_FITTED]]
    near = mentions.nearest(mentions.vectors(rows), NEAREST + _OWN)
    found = _of_other_documents(mentions.documents(), rows, near)
    return Queries(mentions.vectors(rows), mentions.numbers[rows], found)


def fitted_weight(kb: KnowledgeBase, queries: Sequence[Queries]) -> MentionWeight | None:
    """How much mentions count, fitted to these.

    Returns:
        The weight; None if the queries do not tell, because there are too few.
    """
    tables = [_tables(kb, each) for each in queries]
    width = max(table[0].shape[1] for table in tables)
    by_name, closeness, right = (
        np.concatenate([_widened(table[i], width) for table in tables]) for i in range(3)
    )
    near = np.isfinite(closeness)
    weights = feature_weights(by_name, [near, np.where(near, closeness, 0.0)], right)
    if weights is None or weights[1] <= 0:
        return None
    bonus, weight = weights
    return MentionWeight(float(weight), float(-bonus / weight))


def _tables(kb: KnowledgeBase, queries: Queries) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each query the scores of candidates by name, their closeness, and the right ones.

    Each is [n, k]; -inf for no candidate, and for one without mentions near.
    """
    names = kb.search_names(queries.vectors, _NAMES)
    found = scored_pairs(kb.vectors, queries.vectors, names, queries.near)
    lines, numbers, by_name, closeness = found
    ranks = np.arange(len(lines)) - np.searchsorted(lines, lines)
    shape = (len(queries.golds), ranks.max(initial=0) + 1)
    tables = np.full(shape, -np.inf), np.full(shape, -np.inf), np.zeros(shape, dtype=bool)
    for table, values in zip(tables, (by_name, closeness, numbers == queries.golds[lines])):
        table[lines, ranks] = values
    return tables


def _of_other_documents(
    documents: np.ndarray, rows: np.ndarray, near: NearMentions
) -> NearMentions:
    """The nearest mentions that are not of the document of the mention with this row."""
    theirs = np.where(near.rows >= 0, documents[near.rows], -1)
    gone = theirs == documents[rows][:, None]
    order = np.argsort(gone, axis=1, kind="stable")[:, :NEAREST]
    numbers = np.where(gone, -1, near.numbers)
    return NearMentions(
        *(np.take_along_axis(x, order, axis=1) for x in (near.scores, numbers, near.rows))
    )


def _widened(table: np.ndarray, width: int) -> np.ndarray:
    """A table with more columns, which stand for no candidate."""
    none = False if table.dtype == bool else -np.inf
    return np.pad(table, ((0, 0), (0, width - table.shape[1])), constant_values=none)
