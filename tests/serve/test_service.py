"""When a server has too much to do, or a client too little."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.language import Language

from spacy_pel.documents.document import Document
from spacy_pel.errors import PelError
from spacy_pel.kb import build_kb
from spacy_pel.serve import link_route
from spacy_pel.serve import service as service_module
from spacy_pel.serve.limits import Limits
from spacy_pel.serve.messages import GivenDocument, GivenMention, LinkRequest
from spacy_pel.serve.middleware import BodyLimited
from spacy_pel.serve.refused import Refused
from spacy_pel.serve.service import LinkedJSON, LinkingService, Piece
from spacy_pel.serve.waiting_room import WaitingRoom

from ..conftest import ENTITIES
from .conftest import LIMITS

JSON = {"content-type": "application/json"}
BODY = {"documents": [{"text": "MS or RA?"}]}
DOCUMENT = GivenDocument(text="MS or RA?")


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Linking waits until this is set."""
    event, linked = threading.Event(), LinkingService._linked

    def wait_and_link(self: LinkingService, *arguments: object) -> list[LinkedJSON]:
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
        while not app.state.service.room.under_way:
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
        assert app.state.service.room.under_way == 0
        # The KB is looked up meanwhile.
        assert client.get("/entity/C07").json()["name"] == "kidney"
        held.set()


def test_what_nobody_waits_for_is_not_linked_to_the_end(
    make_app: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked = LinkingService._linked

    def slowly_linked(self: LinkingService, pieces: list[Piece]) -> list[LinkedJSON]:
        numbers.append([piece.first for piece in pieces])
        time.sleep(0.2)
        return linked(self, pieces)

    numbers: list[list[int]] = []
    monkeypatch.setattr(LinkingService, "_linked", slowly_linked)
    monkeypatch.setattr(service_module, "TURN_CHARACTERS", 10)
    monkeypatch.setattr(service_module, "BATCH_CHARACTERS", 20)
    service = make_app(replace(LIMITS, seconds=0.3)).state.service

    async def ask() -> None:
        with pytest.raises(Refused, match="no answer within"):
            await service.link("a client", [DOCUMENT] * 6)
        await asyncio.sleep(0.5)

    asyncio.run(ask())
    assert numbers[0] == [0, 1] and len(numbers) < 3


def test_others_are_let_in_between_the_documents_of_a_large_request(
    make_app: Callable, held: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "TURN_CHARACTERS", 10)
    monkeypatch.setattr(service_module, "BATCH_CHARACTERS", 20)
    service = make_app().state.service
    ended = []

    async def ask(client: str, documents: int) -> None:
        await service.link(client, [DOCUMENT] * documents)
        ended.append(client)

    async def ask_at_once() -> None:
        large = asyncio.ensure_future(ask("large", 20))
        await asyncio.sleep(0.05)
        small = [asyncio.ensure_future(ask(f"small {n}", 1)) for n in range(3)]
        await asyncio.sleep(0.05)
        held.set()
        await asyncio.gather(large, *small)

    asyncio.run(ask_at_once())
    assert ended[-1] == "large"


@settings(max_examples=50)
@given(st.lists(st.integers(0, 3000), max_size=12))
def test_a_turn_has_documents_in_order_and_is_short(lengths: list[int]) -> None:
    documents = [Document("a" * length, id=n) for n, length in enumerate(lengths)]
    cut = list(service_module._pieces(documents))
    pieces = [piece.documents for piece in cut]
    assert [piece.first for piece in cut] == [piece.documents[0].id for piece in cut]
    assert [document.id for piece in pieces for document in piece] == list(range(len(lengths)))
    sizes = [sum(len(document.text) for document in piece) for piece in pieces]
    for piece, following, size in zip(pieces, pieces[1:], sizes):
        assert size <= service_module.TURN_CHARACTERS or len(piece) == 1
        assert size + len(following[0].text) > service_module.TURN_CHARACTERS


def test_requests_that_wait_are_linked_together_and_a_wrong_one_alone(
    make_app: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked, batches = LinkingService._linked, []

    def noted(self: LinkingService, pieces: list[Piece]) -> list[LinkedJSON]:
        batches.append([document.text for piece in pieces for document in piece.documents])
        return linked(self, pieces)

    monkeypatch.setattr(LinkingService, "_linked", noted)
    service = make_app().state.service
    wrong = GivenDocument(text="MS", mentions=[GivenMention(start=0, end=2)] * 2)
    given = [[GivenDocument(text="MS")], [wrong], [GivenDocument(text="RA"), DOCUMENT]]

    async def ask() -> list:
        held, thread = threading.Event(), service._model_thread
        first = asyncio.ensure_future(thread.run("another", 0, held.wait, 20))
        requests = [
            asyncio.ensure_future(service.link(f"client {n}", one)) for n, one in enumerate(given)
        ]
        while len(thread._queue._turns) < len(given):
            await asyncio.sleep(0.01)
        held.set()
        await first
        return await asyncio.gather(*requests, return_exceptions=True)

    first, refused, last = asyncio.run(ask())
    assert isinstance(refused, Refused) and "overlap" in str(refused)
    alone = [
        [json.loads(one.text) for one in asyncio.run(service.link("a", r))] for r in given[::2]
    ]
    assert [[json.loads(one.text) for one in answer] for answer in (first, last)] == alone
    assert sorted(batches[0]) == ["MS", "MS", "MS or RA?", "RA"]


def test_a_client_with_many_requests_does_not_keep_others_out(
    make_app: Callable, held: threading.Event
) -> None:
    service = make_app(replace(LIMITS, waiting=5)).state.service

    async def ask() -> list:
        flood = [asyncio.ensure_future(service.link("flood", [DOCUMENT])) for _ in range(9)]
        await asyncio.sleep(0.05)
        other = asyncio.ensure_future(service.link("other", [DOCUMENT]))
        await asyncio.sleep(0.05)
        held.set()
        return await asyncio.gather(*flood, other, return_exceptions=True)

    *flood, other = asyncio.run(ask())
    assert len(other) == 1
    assert [isinstance(answer, Refused) for answer in flood] == [False] * 4 + [True] * 5


def test_bodies_are_read_in_turns_of_their_own(
    make_app: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To read a large one takes long; it must hold up neither the event loop nor the model."""
    threads = []
    read = link_route._link_request

    def read_and_note(body: bytes) -> LinkRequest:
        threads.append(threading.current_thread().name)
        return read(body)

    monkeypatch.setattr(link_route, "_link_request", read_and_note)
    with TestClient(make_app()) as client:
        assert client.post("/link", json=BODY).status_code == 200
        assert client.post("/link", json={"documents": [{"text": 3}]}).status_code == 422
        assert client.post("/link", content="{", headers=JSON).status_code == 400
    assert [name.rpartition("_")[0] for name in threads] == ["reading"] * 3


def test_what_waits_is_dropped_at_the_end(make_app: Callable, held: threading.Event) -> None:
    service = make_app().state.service

    async def close_while_linking() -> list:
        requests = [asyncio.ensure_future(service.link("a", [DOCUMENT])) for _ in range(3)]
        await asyncio.sleep(0.1)
        asyncio.get_running_loop().call_later(0.1, held.set)
        await asyncio.to_thread(service.close)
        return await asyncio.gather(*requests, return_exceptions=True)

    first, *others = asyncio.run(close_while_linking())
    assert len(first) == 1
    assert all(isinstance(other, Refused) for other in others)


def sent_by(receive: Callable, limits: Limits, room: WaitingRoom | None = None) -> list[dict]:
    """What BodyLimited sends where the application would not answer."""
    sent: list[dict] = []

    async def app(scope: dict, receive: Callable, send: Callable) -> None:
        await send({"type": "passed on", "message": await receive()})

    async def send(message: dict) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/link", "headers": []}
    asyncio.run(BodyLimited(app, limits, room or WaitingRoom(limits))(scope, receive, send))
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


def test_a_body_for_which_there_is_no_room_is_not_read() -> None:
    async def receive() -> dict:
        raise AssertionError("the body is read")

    sent = sent_by(receive, LIMITS, WaitingRoom(replace(LIMITS, waiting=0)))
    assert sent[0]["status"] == 503 and (b"retry-after", b"2") in sent[0]["headers"]


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
    wrong = GivenDocument(text="MS", mentions=[GivenMention(start=0, end=3)])
    with pytest.raises(Refused, match="document 1: the mention 0-3 is not in"):
        asyncio.run(service.link("a client", [DOCUMENT, wrong]))
