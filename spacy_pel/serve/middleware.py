"""What is done for every request: limit its body, count its answer, set headers."""

from __future__ import annotations

import asyncio
import ipaddress
import time
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .clients import client_at
from .limits import Limits
from .refused import Refused, refusal
from .server_metrics import ServerMetrics
from .waiting_room import WaitingRoom

# The page loads nothing from other hosts, and no scripts apart from its own files.
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# The page of the API has a script in the page itself, and shows no text of users.
_DOCS_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; frame-ancestors 'none'"
)


class LocalOnly:
    """Refuses a request that was sent to a host name other than localhost, with 421.

    A page of another host may let its own name stand for this computer's address (DNS rebinding). A
    browser would then let the page read the answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _is_local(Headers(scope=scope).get("host", "")):
            await self.app(scope, receive, send)
            return
        reason = (
            "this server answers to localhost and to addresses, not to names; let a proxy send "
            '"Host: localhost", or serve at another --host'
        )
        await JSONResponse({"detail": reason}, 421)(scope, receive, send)


class BodyLimited:
    """Reads the body first. Answers 413 if it is too large, 408 if it does not arrive in time.

    If there is no room for the request, it is refused before its body is read.
    """

    def __init__(self, app: ASGIApp, limits: Limits, room: WaitingRoom) -> None:
        self.app = app
        self.limits = limits
        self.room = room

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            if scope["method"] == "POST":
                self.room.check_room(client_at(scope.get("client")))
            reading = self._whole_body(Headers(scope=scope), receive)
            body = await asyncio.wait_for(reading, self.limits.seconds)
        except Refused as refused:
            await refusal(refused)(scope, receive, send)
        except asyncio.TimeoutError:
            reason = f"the request did not arrive within {self.limits.seconds:g} seconds"
            await refusal(Refused(408, reason))(scope, receive, send)
        except _Disconnected:
            pass
        else:
            await self.app(scope, _again(body, receive), send)

    async def _whole_body(self, headers: Headers, receive: Receive) -> bytes:
        declared = headers.get("content-length", "")
        if declared.isdecimal() and int(declared[:20]) > self.limits.body:
            raise self._too_large()
        chunks, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise _Disconnected
            chunk, more = message.get("body", b""), message.get("more_body", False)
            size += len(chunk)
            if size > self.limits.body:
                raise self._too_large()
            chunks.append(chunk)
        return b"".join(chunks)

    def _too_large(self) -> Refused:
        return Refused(413, f"the request is larger than {self.limits.body:,} bytes")


class AnswersCounted:
    """Counts answers, and sets headers that restrict what a browser does with them."""

    def __init__(self, app: ASGIApp, metrics: ServerMetrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, began = 500, time.perf_counter()  # 500 if there is an error instead of an answer

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                of_docs = scope["path"] == "/docs"
                headers["content-security-policy"] = _DOCS_POLICY if of_docs else _PAGE_POLICY
                headers["x-content-type-options"] = "nosniff"
                headers["referrer-policy"] = "no-referrer"
                headers.setdefault("cache-control", "no-cache")
            await send(message)

        try:
            await self.app(scope, receive, send_with_headers)
        finally:
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.note(route, status, time.perf_counter() - began)


class _Disconnected(Exception):
    pass


def _is_local(host: str) -> bool:
    """Whether a Host header has localhost or an IP address, which no other name can stand for."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def _again(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that gives the body again, and then what comes after it."""
    is_given = False

    async def receive_again() -> Message:
        nonlocal is_given
        if is_given:
            return await receive()
        is_given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again
