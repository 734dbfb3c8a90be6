"""When a server has too much to do, or a client too little; and who has the next turn."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Sequence

import httpx
import pytest
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.language import Language
from starlette.exceptions import HTTPException

from spacy_pel.documents.document import Document, Mention
from spacy_pel.errors import PelError
from spacy_pel.kb import build_kb
from spacy_pel.serve import service as service_module
from spacy_pel.serve.messages import LinkRequest
from spacy_pel.serve.service import FairThread, LinkedJSON, LinkingService, Piece, client_at

from ..conftest import ENTITIES
from .conftest import LIMITS

BODY = {"documents": [{"text": "MS or RA?"}]}
DOCUMENT = Document("MS or RA?")


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The texts of each batch that is linked."""
    batches: list[list[str]] = []
    linked = LinkingService._linked

    def noted(self: LinkingService, pieces: list[Piece]) -> list[LinkedJSON]:
        batches.append([document.text for piece in pieces for _, document in piece])
        return linked(self, pieces)

    monkeypatch.setattr(LinkingService, "_linked", noted)
    return batches


@pytest.fixture
def held(make_app: Callable, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Linking waits until this is set, but for the first use when an application is made."""
    event, linked = threading.Event(), LinkingService._linked_together

    def wait_and_link(self: LinkingService, pieces: list[Piece]) -> list:
        event.wait(20)
        return linked(self, pieces)

    monkeypatch.setattr(LinkingService, "_linked_together", wait_and_link)
    return event


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:3::9", "2001:db8:1:3::/64"),
        ("a name", "a name"),
    ],
)
def test_an_address_is_a_client_and_of_ipv6_its_network(host: str, name: str) -> None:
    assert client_at((host, 5000)) == client_at((host, 5001)) == name
    assert client_at(None) == ""


def test_one_request_too_many(make_app: Callable, held: threading.Event) -> None:
    app = make_app(LIMITS._replace(waiting=4))

    def client_of(number: int) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(app, client=(f"192.0.2.{number}", 1))
        return httpx.AsyncClient(transport=transport, base_url="http://localhost")

    async def ask() -> list[httpx.Response]:
        first, second, third = map(client_of, range(3))
        asked = [
            asyncio.ensure_future(client.post("/link", json=BODY))
            for client in (first, first, first, second, second)
        ]
        while app.state.service.under_way.total() < 4:
            await asyncio.sleep(0.01)
        # A client with half of all gets no more, and keeps nobody else out.
        refused = [await third.get("/search", params={"q": "kidney"})]
        assert (await third.get("/health")).status_code == 200
        held.set()
        return refused + await asyncio.gather(*asked)

    answers = asyncio.run(ask())
    assert [answer.status_code for answer in answers] == [503, 200, 200, 429, 200, 200]
    assert all(answers[n].headers["retry-after"] == "2" for n in (0, 3))
    assert not app.state.service.under_way


def test_the_time_is_up(make_app: Callable, held: threading.Event) -> None:
    app = make_app(LIMITS._replace(seconds=0.3))
    with TestClient(app) as client:
        answer = client.post("/link", json=BODY)
        assert answer.status_code == 504
        assert answer.json() == {"detail": "no answer within 0.3 seconds"}
        assert not app.state.service.under_way
        # The KB is looked up meanwhile.
        assert client.get("/entity/C07").json()["name"] == "kidney"
        held.set()


def test_what_nobody_waits_for_is_not_linked_to_the_end(
    make_app: Callable, batches: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "TURN_CHARACTERS", 10)
    service = make_app().state.service
    batches.clear()

    async def ask() -> None:
        asking = asyncio.ensure_future(service.link("a client", [DOCUMENT] * 4000))
        while not batches:
            await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.sleep(0.5)

    asyncio.run(ask())
    assert 0 < sum(map(len, batches)) < 4000


def test_others_are_let_in_between_the_documents_of_a_large_request(
    make_app: Callable, held: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service_module, "TURN_CHARACTERS", 10)
    service = make_app().state.service
    ended = []

    async def ask(client: str, documents: int) -> None:
        await service.link(client, [DOCUMENT] * documents)
        ended.append(documents)

    async def ask_at_once() -> None:
        large = asyncio.ensure_future(ask("a client", 20))
        await asyncio.sleep(0.05)
        # Also one of the same client, as behind a proxy.
        small = [asyncio.ensure_future(ask(name, 1)) for name in ("another", "a client")]
        await asyncio.sleep(0.05)
        held.set()
        await asyncio.gather(large, *small)

    asyncio.run(ask_at_once())
    assert ended == [1, 1, 20]


@settings(max_examples=50)
@given(st.lists(st.integers(0, 6000), max_size=12))
def test_a_turn_has_documents_in_order_and_is_short(lengths: list[int]) -> None:
    documents = [Document("a" * length, id=n) for n, length in enumerate(lengths)]
    pieces = list(service_module._pieces(documents))
    assert [numbered for piece in pieces for numbered in piece] == list(enumerate(documents))
    sizes = [sum(len(document.text) for _, document in piece) for piece in pieces]
    for piece, following, size in zip(pieces, pieces[1:], sizes):
        assert size <= service_module.TURN_CHARACTERS or len(piece) == 1
        assert size + len(following[0][1].text) > service_module.TURN_CHARACTERS


def test_requests_that_wait_are_linked_together_and_a_wrong_one_alone(
    make_app: Callable, batches: list
) -> None:
    service = make_app().state.service
    wrong = Document("MS", mentions=(Mention(0, 2, "MS"),) * 2)
    given = [[Document("MS")], [wrong], [Document("RA"), DOCUMENT]]
    batches.clear()

    async def ask() -> list:
        return await asyncio.gather(
            *(service.link(f"client {n}", one) for n, one in enumerate(given)),
            return_exceptions=True,
        )

    first, refused, last = asyncio.run(ask())
    assert isinstance(refused, HTTPException) and "overlap" in refused.detail
    assert sorted(batches[0]) == ["MS", "MS", "MS or RA?", "RA"]
    alone = [asyncio.run(service.link("a", documents)) for documents in given[::2]]
    for together, expected in zip((first, last), alone):
        assert [json.loads(d.text) for d in together] == [json.loads(d.text) for d in expected]


def test_bodies_are_read_in_a_thread_of_their_own(
    make_app: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To read a large one takes long; it must hold up neither the event loop nor the model."""
    threads, read = [], LinkRequest.read

    def read_and_note(*arguments: object) -> LinkRequest:
        threads.append(threading.current_thread().name)
        return read(*arguments)

    monkeypatch.setattr(LinkRequest, "read", read_and_note)
    with TestClient(make_app()) as client:
        assert client.post("/link", json=BODY).status_code == 200
        assert client.post("/link", json={"documents": [{"text": 3}]}).status_code == 422
    assert [name.rpartition("_")[0] for name in threads] == ["reading"] * 2


def test_a_kb_that_does_not_fit_is_refused_at_the_start(tiny_nlp: Language, tmp_path) -> None:
    tiny_nlp.get_pipe("proxy_linker").set_kb(build_kb(ENTITIES, tmp_path / "kb").path)
    with pytest.raises(PelError, match="has no vectors"):
        LinkingService(tiny_nlp, limits=LIMITS)


def taken(turns: Sequence[tuple[str, int]], together: int = 0) -> tuple[list[list[int]], list]:
    """Turns (client, size) that wait for one thread: their numbers as they are called, and the answers.

    An even number is answered with ten times it, an odd one with an error.
    """
    calls: list[list[int]] = []
    begun, go = threading.Event(), threading.Event()

    def work(items: list[int]) -> list[int | Exception]:
        if items == [-1]:
            begun.set()
            go.wait(5)
            return [0]
        calls.append(items)
        return [ValueError(item) if item % 2 else 10 * item for item in items]

    async def ask() -> list:
        thread = FairThread("test", work, together)
        held = asyncio.ensure_future(thread.run("another", 0, -1))
        await asyncio.to_thread(begun.wait, 5)
        waiting = [
            asyncio.ensure_future(thread.run(client, size, number))
            for number, (client, size) in enumerate(turns)
        ]
        await asyncio.sleep(0)
        go.set()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        await held
        thread.close()
        return answers

    return calls, asyncio.run(ask())


def test_a_client_with_many_turns_does_not_fill_a_batch_alone() -> None:
    turns = [*[("many", 1)] * 6, ("one", 1), ("two", 1)]
    assert taken(turns, 4)[0] == [[0, 6, 7, 1], [2, 3, 4, 5]]


def test_who_comes_during_a_turn_goes_before_the_next_of_its_client() -> None:
    assert taken([("another", 1), ("new", 1)])[0] == [[1], [0]]  # "another" has the thread


@settings(max_examples=50, deadline=None)
@given(
    st.integers(0, 9000),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9000)), max_size=12),
)
def test_no_client_that_waits_falls_back_by_more_than_a_turn(together: int, turns: list) -> None:
    """The independent measure: what each has had while all of them were waiting."""
    calls, answers = taken(turns, together)
    order = [number for call in calls for number in call]
    assert sorted(order) == list(range(len(turns)))
    for number, answer in enumerate(answers):
        is_error = isinstance(answer, ValueError) and answer.args == (number,)
        assert is_error if number % 2 else answer == 10 * number
    for call in calls:
        assert len(call) == 1 or sum(turns[number][1] for number in call) <= together
    had = dict.fromkeys("abc", 0)
    left = [client for client, _ in turns]
    for number in order:
        client, _ = turns[number]
        had[client] += 1
        left.remove(client)
        assert all(had[client] - had[other] <= 1 for other in left)


def test_what_is_cancelled_before_its_turn_is_never_called() -> None:
    calls: list[int] = []

    async def ask() -> None:
        thread = FairThread("test", lambda items: calls.extend(items) or items)
        turn = asyncio.ensure_future(thread.run("a", 0, 1))
        await asyncio.sleep(0)
        turn.cancel()
        await thread.run("b", 0, 2)
        thread.close()

    asyncio.run(ask())
    assert calls == [2]
