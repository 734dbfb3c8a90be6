"""Other views of mentions, so that an encoder does not learn to compare strings alone."""

# No "from __future__ import annotations": the registry reads the types of the arguments.

from collections.abc import Sequence

import numpy as np

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..kb.records.names import normalised
from ..text.mention_inputs import GoldMention, MentionInContext


class MaskAndReplace:
    """Masks some mentions, and puts a synonym in the place of others (KRISSBERT, section 3.3).

    Args:
        mask: The probability that a mention is read as [MASK].
        replace: The probability that it is read as another name of its entity, where there is one.

    Raises:
        PelError: The probabilities are negative, or their sum is above 1.
    """

    def __init__(self, mask: float = 0.2, replace: float = 0.2):
        if min(mask, replace) < 0 or mask + replace > 1:
            raise PelError(
                f"mentions are masked with probability {mask} and replaced with {replace}",
                "give two numbers that are not negative, with a sum of at most 1",
            )
        self.mask = mask
        self.replace = replace

    def __call__(
        self, mentions: Sequence[GoldMention], kb: KnowledgeBase, rng: np.random.Generator
    ) -> list[MentionInContext]:
        """The mentions as they are read, in their order."""
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
