"""The limits of a server."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The most that a request may ask for, and the most requests at once.

    Attributes:
        body: The bytes of a request's body.
        documents: The documents of a request.
        characters: The characters of a document's text.
        mentions: The mentions that are given for a document.
        seconds: The time in which the body must arrive, and then the time for the answer.
        waiting: The requests under way, including those that wait for the model.
    """

    body: int = 1_048_576
    documents: int = 64
    characters: int = 20_000
    mentions: int = 500
    seconds: float = 30.0
    waiting: int = 128
