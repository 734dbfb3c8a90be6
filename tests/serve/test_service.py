"""When a server has too much to do, or a client too little."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient
from spacy.language import Language

from spacy_pel.errors import PelError
from spacy_pel.kb import build_kb
from spacy_pel.serve.limits import Limits
from spacy_pel.serve.middleware import BodyLimited
from spacy_pel.serve.service import LinkingService, Refused

from ..conftest import ENTITIES
from .conftest import LIMITS

BODY = {"documents": [{"text": "MS or RA?"}]}


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Linking waits until this is set."""
    event, linked = threading.Event(), LinkingService._linked

    def wait_and_link(self: LinkingService, *arguments: object) -> list:
        event.wait(20)
        return linked(self, *arguments)

    monkeypatch.setattr(LinkingService, "_linked", wait_and_link)
    return event


def test_one_request_too_many(make_app: Callable, held: threading.Event) -> None:
    app = make_app(replace(LIMITS, waiting=1))
    with TestClient(app) as client:
        statuses = []
        first = threading.Thread(
            target=lambda: statuses.append(client.post("/link", json=BODY).status_code)
        )
        first.start()
        while not app.state.service.waiting:
            time.sleep(0.01)
        answer = client.post("/link", json=BODY)
        assert answer.status_code == 503 and answer.headers["retry-after"] == "2"
        assert client.get("/search", params={"q": "kidney"}).status_code == 503
        assert client.get("/health").status_code == 200
        held.set()
        first.join()
        assert statuses == [200]
        assert client.post("/link", json=BODY).status_code == 200


def test_the_time_is_up(make_app: Callable, held: threading.Event) -> None:
    app = make_app(replace(LIMITS, seconds=0.3))
    with TestClient(app) as client:
        answer = client.post("/link", json=BODY)
        assert answer.status_code == 504
        assert answer.json() == {"detail": "no answer within 0.3 seconds"}
        assert app.state.service.waiting == 0
        # The KB is looked up meanwhile.
        assert client.get("/entity/C07").json()["name"] == "kidney"
        held.set()


def test_what_nobody_waits_for_is_not_linked_to_the_end(
    make_app: Callable, tiny_nlp: Language
) -> None:
    service = make_app(nlp=tiny_nlp).state.service
    documents = [{"text": "MS or RA?"}] * 4
    assert len(service._linked(documents, time.monotonic() + 60)) == 4
    with pytest.raises(asyncio.TimeoutError):
        service._linked(documents, time.monotonic())


def test_what_waits_is_dropped_at_the_end(make_app: Callable, held: threading.Event) -> None:
    service = make_app().state.service

    async def close_while_linking() -> list:
        requests = [asyncio.ensure_future(service.link(BODY["documents"])) for _ in range(3)]
        await asyncio.sleep(0.1)
        asyncio.get_running_loop().call_later(0.1, held.set)
        await asyncio.to_thread(service.close)
        return await asyncio.gather(*requests, return_exceptions=True)

    first, *others = asyncio.run(close_while_linking())
    assert len(first) == 1
    assert all(isinstance(other, asyncio.CancelledError) for other in others)


def sent_by(receive: Callable, limits: Limits) -> list[dict]:
    """What BodyLimited sends where the application would not answer."""
    sent: list[dict] = []

    async def app(scope: dict, receive: Callable, send: Callable) -> None:
        await send({"type": "passed on", "message": await receive()})

    async def send(message: dict) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/link", "headers": []}
    asyncio.run(BodyLimited(app, limits)(scope, receive, send))
    return sent


def test_a_body_that_does_not_come() -> None:
    async def receive() -> dict:
        await asyncio.sleep(60)
        return {}

    assert sent_by(receive, replace(LIMITS, seconds=0.1))[0]["status"] == 408


def test_a_client_that_has_gone() -> None:
    async def receive() -> dict:
        return {"type": "http.disconnect"}

    assert sent_by(receive, LIMITS) == []


def test_a_body_in_pieces_is_put_together() -> None:
    pieces = [b"a", b"", b"bc"]

    async def receive() -> dict:
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    (message,) = sent_by(receive, replace(LIMITS, body=3))
    assert message["message"]["body"] == b"abc"


def test_a_kb_that_does_not_fit_is_refused_at_the_start(tiny_nlp: Language, tmp_path) -> None:
    tiny_nlp.get_pipe("proxy_linker").set_kb(build_kb(ENTITIES, tmp_path / "kb").path)
    with pytest.raises(PelError, match="has no vectors"):
        LinkingService(tiny_nlp, limits=LIMITS)


def test_a_wrong_document_is_refused(make_app: Callable) -> None:
    service = make_app().state.service
    wrong = {"text": "MS", "mentions": [{"start": 0, "end": 3}]}
    with pytest.raises(Refused, match="document 1: the mention 0-3 is not in"):
        asyncio.run(service.link([{"text": "MS"}, wrong]))
