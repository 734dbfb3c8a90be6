"""A server over the tiny pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import spacy
from fastapi import FastAPI
from fastapi.testclient import TestClient

from spacy_pel.serve.app import create_app
from spacy_pel.serve.limits import Limits
from spacy_pel.serve.service import LinkingService

LIMITS = Limits(body=50_000, documents=4, characters=300, mentions=5, seconds=20, waiting=50)


@pytest.fixture
def make_app(tiny_folder: Path) -> Iterator[Callable[..., FastAPI]]:
    """Makes an application over a pipeline, ``tiny_nlp`` anew if none is given."""
    services = []

    def make(
        limits: Limits = LIMITS, nlp: spacy.Language | None = None, **settings: bool
    ) -> FastAPI:
        services.append(LinkingService(nlp or spacy.load(tiny_folder), limits=limits))
        return create_app(services[-1], "https://example.org/{id}", **settings)

    yield make
    for service in services:
        service.close()


@pytest.fixture(scope="module")
def client(tiny_folder: Path) -> Iterator[TestClient]:
    """A client for tests that leave the application as it is, over one event loop as in a server.

    An error of the server is an answer, as over a network.
    """
    app = create_app(
        LinkingService(spacy.load(tiny_folder), limits=LIMITS), "https://example.org/{id}"
    )
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client
