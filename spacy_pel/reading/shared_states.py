"""Documents that a component before the linker has read: the states of their tokens, to be shared.

Knows numpy, as ``windows`` does; nothing of spaCy or torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..errors import PelError
from .inputs import InputBuilder, MentionInContext


class ReadText(str):
    """The text of a document, and what is known of its tokens.

    states: float32 [t, w]. offsets: int64 [t, 2], the characters of each, ascending. gradient:
    float32 [t, w], to which training adds the gradient with respect to the states.
    """

    states: np.ndarray
    offsets: np.ndarray
    gradient: np.ndarray

    @classmethod
    def of(cls, text: str, states: np.ndarray, offsets: np.ndarray) -> ReadText:
        read = cls(text)
        read.states, read.offsets, read.gradient = states, offsets, np.zeros_like(states)
        return read


class ReadMentions(NamedTuple):
    """The mentions of a document in its tokens.

    text: the document. mentions: int64 [m], which of the mentions given these are. spans: int64
    [m, 2], the tokens of each: its first one and the one behind its last.
    """

    text: ReadText
    mentions: np.ndarray
    spans: np.ndarray


class StatesBuilder(InputBuilder):
    """An ``InputBuilder`` whose mentions are places in texts that were read."""

    def mentions(  # type: ignore[override]
        self, mentions: Sequence[MentionInContext]
    ) -> list[ReadMentions]:
        """The mentions of each document, with every token that they touch.

        Raises PelError if a mention's text was not read.
        """
        texts = {id(mention.text): mention.text for mention in mentions}
        members: dict[int, list[int]] = {key: [] for key in texts}
        for place, mention in enumerate(mentions):
            members[id(mention.text)].append(place)
        return [
            ReadMentions(text, np.array(places), _spans(text, [mentions[i] for i in places]))
            for text, places in zip(texts.values(), members.values())
        ]


def _spans(text: str, mentions: Sequence[MentionInContext]) -> np.ndarray:
    """The tokens of mentions of a text: int64 [m, 2], none without one."""
    if not isinstance(text, ReadText):
        raise PelError(
            "the linker shares what a component before it has read, and is without it here",
            "load the whole pipeline, spacy.load(FOLDER)",
        )
    starts, ends = text.offsets.T
    first = np.searchsorted(ends, [mention.start for mention in mentions], side="right")
    last = np.searchsorted(starts, [mention.end for mention in mentions], side="left")
    first = np.minimum(first, len(text.offsets) - 1)
    return np.stack([first, np.maximum(last, first + 1)], axis=1)
