"""Exact names: candidates that have the mention as one of their names.

A name is exact if it equals the mention, ignoring case, blanks and punctuation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..kb.knowledge_base import KnowledgeBase
from ..reading.mention import MentionInContext
from .reranking import Found, Ordered

# The largest number of letters of an acronym.
_ACRONYM = 5


class SoleOwnersFirst(NamedTuple):
    """An entity that alone has the mention as a name comes first, where nothing was fitted.

    Of mentions in abstracts that a knowledge base calls by one name alone, 97 to 98 % mean its
    owner. Of acronyms fewer do, so for these the context decides, as for names with several owners.
    """

    kb: KnowledgeBase

    def ordered(self, found: Found) -> Ordered:
        """The sole owner first, then the others as they were."""
        owns = sole_owners(self.kb, found.mentions, found.candidates.numbers)
        return Ordered(np.argsort(~owns, kind="stable"))


def sole_owners(
    kb: KnowledgeBase, mentions: Sequence[MentionInContext], numbers: np.ndarray
) -> np.ndarray:
    """Tell which candidates alone have the mention as a name. Each name is looked up once.

    Args:
        kb: Where the names are looked up.
        mentions: The n mentions.
        numbers: int64 [n, k], the entity numbers of their candidates; -1 for no candidate.

    Returns:
        Bool [n, k]; false where there is no candidate.
    """
    owners = {surface: sole_owner(kb, surface) for surface in {m.surface for m in mentions}}
    # No number equals None.
    matches = [row == owners[mention.surface] for mention, row in zip(mentions, numbers)]
    return np.array(matches, dtype=bool).reshape(numbers.shape)


def sole_owner(kb: KnowledgeBase, name: str) -> int | None:
    """The number of the one entity that has a name; None if none has it, or several have.

    An acronym has no sole owner: that the knowledge base knows one meaning does not make it right.
    """
    owners = [] if is_acronym(name) else kb.numbers_named(name)
    return int(owners[0]) if len(owners) == 1 else None


def is_acronym(text: str) -> bool:
    """Whether a text is one word of at most five letters, two of them capitals at least."""
    letters = [character for character in text if character.isalpha()]
    return (
        len(letters) <= _ACRONYM and sum(map(str.isupper, letters)) >= 2 and len(text.split()) == 1
    )
