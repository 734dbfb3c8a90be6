"""When a server has too much to do, or a client too little; and who is next."""

import asyncio
import json
import threading
from collections.abc import Callable, Sequence

import httpx
import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st
from starlette.exceptions import HTTPException

from spacy_pel.corpora.document import Document, Mention
from spacy_pel.serve import service as service_module
from spacy_pel.serve.service import LinkingService, Turns, client_at

from .conftest import LIMITS

BODY = {"documents": [{"text": "MS or RA?"}]}
DOCUMENT = Document("MS or RA?")


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The texts of each batch that is linked."""
    batches: list[list[str]] = []
    linked = LinkingService._linked

    def noted(self: LinkingService, numbered: list) -> list:
        batches.append([document.text for _, document in numbered])
        return linked(self, numbered)

    monkeypatch.setattr(LinkingService, "_linked", noted)
    return batches


@pytest.fixture
def held(make_app: Callable, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Linking waits until this is set, but for the first use when an application is made."""
    event, linked = threading.Event(), LinkingService._linked_or_refused

    def wait_and_link(self: LinkingService, numbered: list) -> list:
        event.wait(20)
        return linked(self, numbered)

    monkeypatch.setattr(LinkingService, "_linked_or_refused", wait_and_link)
    return event


def test_an_address_is_a_client_and_of_ipv6_its_network() -> None:
    hosts = "192.0.2.7", "2001:db8:1:2:3:4:5:6", "a name"
    names = ["192.0.2.7", "2001:db8:1:2::/64", "a name"]
    assert [client_at((host, 5000)) for host in hosts] == names
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
    monkeypatch.setattr(service_module, "TOGETHER", 10)
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
    monkeypatch.setattr(service_module, "TOGETHER", 10)
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


def test_what_waits_is_linked_together_and_what_is_wrong_alone(
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
        assert ids_in(together) == ids_in(expected)


def ids_in(linked: list[tuple[bytes, int]]) -> list[list[str]]:
    return [[mention["id"] for mention in json.loads(text)["mentions"]] for text, _ in linked]


def taken(items: Sequence[tuple[str, int]], together: int = 0) -> tuple[list[list[int]], list]:
    """Items (client, size) that wait for one thread: their numbers as they are called, and the answers.

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
        turns = Turns(work, together)
        held = turns.add("another", 1, -1)
        await asyncio.to_thread(begun.wait, 5)
        waiting = [turns.add(client, size, n) for n, (client, size) in enumerate(items)]
        go.set()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        await held
        turns.close()
        return answers

    return calls, asyncio.run(ask())


@given(
    st.integers(0, 9000),
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9000)), max_size=12),
)
def test_clients_that_wait_get_the_same(together: int, items: list) -> None:
    """The independent measure: what each has had while all of them were waiting."""
    calls, answers = taken(items, together)
    order = [number for call in calls for number in call]
    assert sorted(order) == list(range(len(items)))
    for number, answer in enumerate(answers):
        is_error = isinstance(answer, ValueError) and answer.args == (number,)
        assert is_error if number % 2 else answer == 10 * number
    for call in calls:
        assert len(call) == 1 or sum(items[number][1] for number in call) <= together
    had = dict.fromkeys("abc", 0)
    left = [client for client, _ in items]
    for number in order:
        client, size = items[number]
        left.remove(client)
        had[client] += size
        # At the start of its item no client had more than another that waits, by what that has next.
        assert all(had[client] - size - had[other] <= 9000 for other in left)
