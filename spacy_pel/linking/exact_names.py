"""Exact names: candidates that have the mention as one of their names.

A name is exact if it equals the mention, ignoring case, blanks and punctuation.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..kb.knowledge_base import KnowledgeBase
from ..reading.mention import MentionInContext
from .reranking import Found, Ordered

# The largest number of letters of an acronym.
_ACRONYM = 5


def sole_owners_first(kb: KnowledgeBase, found: Found) -> Ordered:
    """The entity that alone has the mention as a name first, then the others as they were.

    It orders candidates where nothing was fitted. Of mentions in abstracts that a knowledge base calls
    by one name alone, 97 to 98 % mean its owner. Of acronyms fewer do, so for these the context
    decides, as for names with several owners.
    """
    owns = sole_owners(kb, found.mentions, found.candidates.numbers)
    return Ordered(np.argsort(~owns, kind="stable"))


def sole_owners(
    kb: KnowledgeBase, mentions: Sequence[MentionInContext], numbers: np.ndarray
) -> np.ndarray:
    """Tell which candidates of n mentions alone have the mention as a name, bool [n, k].

    ``numbers``, int64 [n, k], are those of the candidates in the KB; -1 for no candidate. Each name
    is looked up once.
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
