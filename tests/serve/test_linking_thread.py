"""When a server has too much to do."""

import asyncio
import threading
from collections.abc import Callable

import httpx
import pytest
from fastapi.testclient import TestClient

from spacy_pel.corpora.document import Document
from spacy_pel.serve.limits import client_at
from spacy_pel.serve.linking_thread import LinkingThread

from .conftest import LIMITS

BODY = {"documents": [{"text": "MS or RA?"}]}
DOCUMENT = Document("MS or RA?")


@pytest.fixture
def held(make_app: Callable, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Linking waits until this is set, but for the first use when an application is made."""
    event, link = threading.Event(), LinkingThread._link

    def wait_and_link(self: LinkingThread, documents: list) -> list:
        if threading.current_thread() is not threading.main_thread():
            event.wait(20)
        return link(self, documents)

    monkeypatch.setattr(LinkingThread, "_link", wait_and_link)
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


def test_what_nobody_waits_for_is_not_linked(make_app, held: threading.Event) -> None:
    thread = make_app().state.thread

    async def ask() -> int:
        first, second, third = [asyncio.ensure_future(thread.link([DOCUMENT])) for _ in range(3)]
        await asyncio.sleep(0)  # the three requests begin
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second  # the thread must know of it before it goes on
        held.set()
        await asyncio.gather(first, third)
        return thread._documents_in_memory

    assert asyncio.run(ask()) == 4  # two of the first use
