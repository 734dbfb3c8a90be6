"""Mentions that are read from the states that another component gave the tokens of a document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..errors import PelError
from .mention import DocumentContext, MentionInContext, TokenStates


class DocumentSpans(NamedTuple):
    """The mentions of a document as spans of its tokens."""

    tokens: TokenStates  # the states of the document's tokens
    mentions: np.ndarray  # int64 [m], the places of the mentions among those that were given
    spans: np.ndarray  # int64 [m, 2], the tokens of each: its first one and the one after its last


class StatesInputs(NamedTuple):
    """What a tower that pools states reads."""

    documents: Sequence[DocumentSpans]


class SharedStatesReader:
    """Reads mentions from the states that their documents carry (``DocumentContext.token_states``)."""

    reads_documents = True

    def inputs(self, mentions: Sequence[MentionInContext]) -> StatesInputs:
        """The mentions of each document, each with all tokens that it touches.

        Raises:
            PelError: No component gave the tokens of a document any states.
        """
        members: dict[DocumentContext | None, list[int]] = {}
        for place, mention in enumerate(mentions):
            members.setdefault(mention.document, []).append(place)
        documents = []
        for document, places in members.items():
            if document is None or document.token_states is None:
                raise PelError(
                    "the linker shares what a component before it has read, and is without it here",
                    "load the whole pipeline, spacy.load(FOLDER)",
                )
            tokens = document.token_states
            spans = _token_spans(tokens.offsets, [mentions[i] for i in places])
            documents.append(DocumentSpans(tokens, np.array(places), spans))
        return StatesInputs(documents)


def _token_spans(offsets: np.ndarray, mentions: Sequence[MentionInContext]) -> np.ndarray:
    """The tokens of the mentions, int64 [m, 2]; the nearest one if a mention touches none."""
    starts, ends = offsets.T
    first = np.searchsorted(ends, [mention.start for mention in mentions], side="right")
    last = np.searchsorted(starts, [mention.end for mention in mentions], side="left")
    first = np.minimum(first, len(offsets) - 1)
    return np.stack([first, np.maximum(last, first + 1)], axis=1)
