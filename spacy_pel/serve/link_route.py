"""How the body of ``POST /link`` is read: in a thread, in which clients take turns.

To parse and check 1 MB takes up to a tenth of a second. In the event loop it would hold up all
clients, however fair the turns after it are.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import HTTPException
from fastapi.routing import APIRoute
from pydantic import ValidationError

from .clients import client_at
from .messages import LinkRequest


class LinkRoute(APIRoute):
    """A route whose body is a ``LinkRequest``."""

    def get_route_handler(self) -> Callable:
        """Give FastAPI's handler, for a request that reads its JSON in a turn."""
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await handler(_ReadInTurn(request.scope, request.receive))

        return handle


class _ReadInTurn(Request):
    async def json(self) -> LinkRequest:
        """The body, checked; FastAPI takes what is a LinkRequest as it is."""
        body = await self.body()
        thread = self.app.state.service.reading_thread
        return await thread.run(client_at(self.client), len(body), _link_request, body)


def _link_request(body: bytes) -> LinkRequest:
    parsed = json.loads(body)
    try:
        return LinkRequest.model_validate(parsed, from_attributes=True)  # as FastAPI does
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        raise HTTPException(422, first_fault(faults)) from None


def first_fault(faults: list[dict[str, Any]]) -> str:
    """Say the first of pydantic's errors and the number of others, without repeating what was sent.

    Args:
        faults: Errors whose places are within a body.
    """
    first, *others = faults
    more = f" (and {len(others):,} more)" if others else ""
    reason = f"{_place(first['loc'])}: {first['msg']}{more}"
    return reason.encode("utf8", "replace").decode("utf8")


def _place(location: tuple) -> str:
    """("documents", 0, "text") as "documents[0].text"."""
    named = [part for part in location if isinstance(part, int) or part.isidentifier()]
    parts = [f"[{part}]" if isinstance(part, int) else f".{part[:80]}" for part in named]
    return "".join(parts).lstrip(".") or "the body"
