"""What a server takes on, and no more."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The most that a request may ask for, and that may be asked for at once.

    body: bytes of a request's body.
    documents: of a request. characters: of a document's text. mentions: given for a document.
    seconds: until a request is given up; also, for its body to arrive.
    waiting: requests that may be under way, those that wait for the model among them.
    """

    body: int = 1_048_576
    documents: int = 64
    characters: int = 20_000
    mentions: int = 500
    seconds: float = 30.0
    waiting: int = 64
