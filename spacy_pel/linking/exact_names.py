"""Exact names: a candidate that has the mention as one of its names may get a bonus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..kb.knowledge_base import KnowledgeBase
from ..reading.mention import MentionInContext


class ExactNameBonus(NamedTuple):
    """What an exact name adds to the score that orders the candidates.

    A name is exact if it equals the mention, ignoring case, blanks and punctuation.

    Attributes:
        kb: Where the names are looked up.
        weight: The bonus, in units of the score.
    """

    kb: KnowledgeBase
    weight: float


def exact_name_matches(
    kb: KnowledgeBase, mentions: Sequence[MentionInContext], numbers: np.ndarray
) -> np.ndarray:
    """Tell which candidates have the mention as one of their names.

    Each distinct mention is looked up once.

    Args:
        kb: Where the names are looked up.
        mentions: The n mentions.
        numbers: int64 [n, k], the entity numbers of their candidates; -1 for no candidate.

    Returns:
        Bool [n, k]; false where there is no candidate.
    """
    surfaces = [mention.surface for mention in mentions]
    entities = {surface: kb.numbers_named(surface) for surface in dict.fromkeys(surfaces)}
    matches = [np.isin(row, entities[surface]) for surface, row in zip(surfaces, numbers)]
    return np.array(matches).reshape(numbers.shape)
