"""When a server has too much to do; and who is next."""

import asyncio
import json
import threading
from collections.abc import Callable

import httpx
import pytest
from fastapi.testclient import TestClient
from starlette.exceptions import HTTPException

from spacy_pel.corpora.document import Document, Mention
from spacy_pel.serve import linking_queue
from spacy_pel.serve.limits import client_at
from spacy_pel.serve.linking_queue import LinkingQueue

from .conftest import LIMITS

BODY = {"documents": [{"text": "MS or RA?"}]}
DOCUMENT = Document("MS or RA?")


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The texts of each batch that is linked."""
    batches: list[list[str]] = []
    link = LinkingQueue._link

    def noted(self: LinkingQueue, part: list) -> list:
        batches.append([document.text for _, document in part])
        return link(self, part)

    monkeypatch.setattr(LinkingQueue, "_link", noted)
    return batches


@pytest.fixture
def held(make_app: Callable, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Linking waits until this is set, but for the first use when an application is made."""
    event, link = threading.Event(), LinkingQueue._link_parts

    def wait_and_link(self: LinkingQueue, parts: list) -> list:
        event.wait(20)
        return link(self, parts)

    monkeypatch.setattr(LinkingQueue, "_link_parts", wait_and_link)
    return event


def test_an_address_is_a_client_and_of_ipv6_its_network() -> None:
    hosts = "192.0.2.7", "2001:db8:1:2:3:4:5:6", "a name"
    names = ["192.0.2.7", "2001:db8:1:2::/64", "a name"]
    assert [client_at((host, 5000)) for host in hosts] == names
    assert client_at(None) == ""


def test_one_request_too_many(make_app: Callable, held: threading.Event) -> None:
    app = make_app(LIMITS._replace(in_flight=4, per_client=2))

    def client_of(number: int) -> httpx.AsyncClient:
        transport = httpx.ASGITransport(app, client=(f"192.0.2.{number}", 1))
        return httpx.AsyncClient(transport=transport, base_url="http://localhost")

    async def ask() -> list[httpx.Response]:
        first, second, third = map(client_of, range(3))
        asked = [
            asyncio.ensure_future(client.post("/link", json=BODY))
            for client in (first, first, first, second, second)
        ]
        while app.state.in_flight.counts.total() < 4:
            await asyncio.sleep(0.01)
        refused = [await third.get("/search", params={"q": "kidney"})]
        assert (await third.get("/health")).status_code == 200
        held.set()
        return refused + await asyncio.gather(*asked)

    answers = asyncio.run(ask())
    assert [answer.status_code for answer in answers] == [503, 200, 200, 429, 200, 200]
    assert all(answers[n].headers["retry-after"] == "2" for n in (0, 3))
    assert not app.state.in_flight.counts


def test_the_time_is_up(make_app: Callable, held: threading.Event) -> None:
    app = make_app(LIMITS._replace(seconds=0.3))
    with TestClient(app) as client:
        answer = client.post("/link", json=BODY)
        assert answer.status_code == 504
        assert answer.json() == {"detail": "no answer within 0.3 seconds"}
        assert not app.state.in_flight.counts
        # The KB is looked up meanwhile.
        assert client.get("/entity/C07").json()["name"] == "kidney"
        held.set()


def test_what_nobody_waits_for_is_not_linked(make_app, batches: list, monkeypatch) -> None:
    monkeypatch.setattr(linking_queue, "MAX_BATCH_CHARACTERS", 10)
    queue = make_app().state.queue
    batches.clear()

    async def ask() -> None:
        asking = asyncio.ensure_future(queue.link([DOCUMENT] * 4000))
        while not batches:
            await asyncio.sleep(0.01)
        asking.cancel()
        await asyncio.sleep(0.5)

    asyncio.run(ask())
    assert 0 < sum(map(len, batches)) < 4000


def test_others_are_let_in_between_documents(make_app, held: threading.Event, monkeypatch) -> None:
    monkeypatch.setattr(linking_queue, "PART_CHARACTERS", 10)
    monkeypatch.setattr(linking_queue, "MAX_BATCH_CHARACTERS", 10)
    queue = make_app().state.queue
    ended = []

    async def ask(documents: int) -> None:
        await queue.link([DOCUMENT] * documents)
        ended.append(documents)

    async def ask_at_once() -> None:
        large = asyncio.ensure_future(ask(20))
        await asyncio.sleep(0.05)
        small = [asyncio.ensure_future(ask(1)) for _ in range(2)]
        await asyncio.sleep(0.05)
        held.set()
        await asyncio.gather(large, *small)

    asyncio.run(ask_at_once())
    assert ended == [1, 1, 20]


def test_what_waits_is_linked_together_and_what_is_wrong_alone(make_app, batches: list) -> None:
    queue = make_app().state.queue
    wrong = Document("MS", mentions=(Mention(0, 2, "MS"),) * 2)
    given = [[Document("MS")], [wrong], [Document("RA"), DOCUMENT]]
    batches.clear()

    async def ask() -> list:
        return await asyncio.gather(*map(queue.link, given), return_exceptions=True)

    first, refused, last = asyncio.run(ask())
    assert isinstance(refused, HTTPException) and "overlap" in refused.detail
    assert sorted(batches[0]) == ["MS", "MS", "MS or RA?", "RA"]
    alone = [asyncio.run(queue.link(documents)) for documents in given[::2]]
    for together, expected in zip((first, last), alone):
        assert ids_in(together) == ids_in(expected)


def ids_in(linked: list[tuple[bytes, int]]) -> list[list[str]]:
    return [[mention["id"] for mention in json.loads(text)["mentions"]] for text, _ in linked]
