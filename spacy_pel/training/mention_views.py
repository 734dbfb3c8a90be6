"""Masked and replaced mentions, so that an encoder does not learn string matching alone."""

# No "from __future__ import annotations": the registry reads the types of the arguments.

from collections.abc import Sequence

import numpy as np

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..kb.records.names import normalised
from ..text.mention_inputs import GoldMention, MentionInContext


class MaskAndReplace:
    """Mask some mentions, and replace others by a synonym (KRISSBERT, section 3.3).

    Args:
        mask: The probability of replacing a mention by [MASK].
        replace: The probability of replacing it by another name of its entity, if there is one.

    Raises:
        PelError: A probability is negative, or their sum is above 1.
    """

    def __init__(self, mask: float = 0.2, replace: float = 0.2):
        if min(mask, replace) < 0 or mask + replace > 1:
            raise PelError(
                f"mentions are masked with probability {mask} and replaced with {replace}",
                "give two numbers of 0 or more with a sum of at most 1",
            )
        self.mask = mask
        self.replace = replace

    def __call__(
        self, mentions: Sequence[GoldMention], kb: KnowledgeBase, rng: np.random.Generator
    ) -> list[MentionInContext]:
        """Return a view of each mention, in the same order."""
        entities = kb.entities([mention.golds[0] for mention in mentions])
        views = []
        for mention, entity, draw in zip(mentions, entities, rng.random(len(mentions))):
            view = mention.context
            if draw < self.mask:
                view = view._replace(is_masked=True)
            elif draw < self.mask + self.replace:
                surface = normalised(view.surface)
                others = [name for name in entity.names if normalised(name) != surface]
                if others:
                    name = others[rng.integers(len(others))]
                    text = f"{view.text[: view.start]}{name}{view.text[view.end :]}"
                    view = view._replace(text=text, end=view.start + len(name))
            views.append(view)
        return views
