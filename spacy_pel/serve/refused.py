"""Requests that get no answer: the status and the sentence that they get instead."""

from __future__ import annotations

from starlette.responses import JSONResponse

_HEADERS = {408: {"connection": "close"}, 503: {"retry-after": "2"}}


class Refused(Exception):
    """A request that gets no answer.

    Args:
        status: The HTTP status to send.
        reason: The reason, as a sentence.
    """

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def refusal(refused: Refused) -> JSONResponse:
    """Give the response that says why a request is refused."""
    headers = _HEADERS.get(refused.status)
    return JSONResponse({"detail": refused.reason}, refused.status, headers)
