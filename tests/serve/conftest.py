"""A server over the tiny pipeline."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import spacy
import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient
from spacy.language import Language

from spacy_pel.batch.link_docs import Linking
from spacy_pel.serve import network
from spacy_pel.serve.app import create_app
from spacy_pel.serve.limits import Limits
from spacy_pel.serve.network import address, listen

LIMITS = Limits(body=50_000, documents=4, characters=300, mentions=5, seconds=20, in_flight=50)


@pytest.fixture
def make_app(tiny_folder: Path) -> Iterator[Callable[..., FastAPI]]:
    """Makes an application over a pipeline, ``tiny_nlp`` anew if none is given."""
    threads = []

    def make(limits: Limits = LIMITS, nlp: Language | None = None, **settings: bool) -> FastAPI:
        linking = Linking(nlp or spacy.load(tiny_folder))
        app = create_app(linking, limits, "https://example.org/{id}", **settings)
        threads.append(app.state.thread)
        return app

    yield make
    for thread in threads:
        thread.close()


@pytest.fixture(scope="module")
def client(tiny_folder: Path) -> Iterator[TestClient]:
    """A client for tests that leave the application as it is, over one event loop as in a server.

    An error of the server is an answer, as over a network.
    """
    app = create_app(Linking(spacy.load(tiny_folder)), LIMITS, "https://example.org/{id}")
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Serves an application over a network, as ``pel serve`` does; gives the address."""
    servers: list[uvicorn.Server] = []
    threads: list[threading.Thread] = []
    run = uvicorn.Server.run
    monkeypatch.setattr(
        uvicorn.Server, "run", lambda self, **kwargs: (servers.append(self), run(self, **kwargs))
    )

    def start(app: Callable, limits: Limits = LIMITS) -> str:
        listener = listen("127.0.0.1", 0)
        url = address(listener)
        threads.append(threading.Thread(target=network.run_app, args=(app, listener, limits)))
        threads[-1].start()
        while not (len(servers) == len(threads) and servers[-1].started):
            time.sleep(0.01)
        return url

    yield start
    for one, thread in zip(servers, threads):
        one.should_exit = True
        thread.join(20)
