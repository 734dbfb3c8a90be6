"""Look-ups, the description of the API, metrics, and what a browser is told."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from spacy.language import Language

from spacy_pel.serve.app import PAGE
from spacy_pel.serve.metrics import ServerMetrics

OUTSIDE = re.compile(r"""(?:src|href|url|import|from)\s*[=(:]?\s*["']?\s*(?:https?:)?//""")


def test_an_entity(client: TestClient) -> None:
    record = client.get("/entity/C03").json()
    assert record == {
        "id": "C03",
        "name": "rheumatoid arthritis",
        "synonyms": ["RA"],
        "types": ["Disease"],
        "definition": "Of the joints.",
        "parents": [],
        "alternative_ids": ["X3"],
        "cross_references": [],
        "sources": record["sources"],
        "url": "https://example.org/C03",
    }
    assert client.get("/entity/X3").json() == record


@pytest.mark.parametrize("id", ["C99", "a/b", "..%2F..%2Fetc%2Fpasswd", "%00", "%FF", "🧠", " "])
def test_an_unknown_entity(client: TestClient, id: str) -> None:
    answer = client.get(f"/entity/{id}")
    assert answer.status_code == 404
    assert answer.json() == {"detail": "the knowledge base has no entity with this id"}


def test_search(client: TestClient) -> None:
    def found(**query: object) -> list[str]:
        return [e["id"] for e in client.get("/search", params=query).json()["entities"]]

    assert found(q="multiple SCLEROSIS") == ["C01"]
    assert set(found(q="ms")) == {"C01", "C02"}
    assert len(found(q="ms", limit=1)) == 1
    assert found(q="nothing of it") == found(q='"*') == []


@pytest.mark.parametrize("query", [{}, {"q": ""}, {"q": "a" * 201}, {"q": "a", "limit": 0},
                                   {"q": "a", "limit": 101}, {"q": "a", "limit": "x"}])  # fmt: skip
def test_a_wrong_search(client: TestClient, query: dict) -> None:
    answer = client.get("/search", params=query)
    assert answer.status_code == 422 and isinstance(answer.json()["detail"], str)


def test_other_addresses_and_methods(client: TestClient) -> None:
    for address in ("/nothing", "/page/../app.py", "/page/%2e%2e/app.py", "/page/nothing.js"):
        answer = client.get(address)
        assert (answer.status_code, answer.json()) == (404, {"detail": "Not Found"})
    assert client.get("/link").status_code == 405


NAMES = ["rebound.example.org:8000", "localhost.example.org", "", "[", "127.0.0.1.example.org"]


@pytest.mark.parametrize("host", NAMES)
def test_a_local_server_is_not_reached_by_a_name(
    make_app: Callable, client: TestClient, host: str
) -> None:
    answer = TestClient(make_app(local=True)).get("/health", headers={"host": host})
    assert answer.status_code == 421 and "Host: localhost" in answer.json()["detail"]
    assert client.get("/health", headers={"host": host}).status_code == 200  # one for others


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:8000", "[::1]:8000"])
def test_a_local_server_is_reached_by_its_addresses(make_app: Callable, host: str) -> None:
    answer = TestClient(make_app(local=True)).get("/health", headers={"host": host})
    assert answer.status_code == 200


def test_health(client: TestClient, make_app: Callable, tiny_nlp: Language) -> None:
    health = client.get("/health").json()
    assert health["status"] == "ok" and health["entities"] == 7 and health["finds_mentions"]
    answer = client.head("/health")
    assert (answer.status_code, answer.content) == (200, b"")
    tiny_nlp.remove_pipe("entity_ruler")
    alone = TestClient(make_app(nlp=tiny_nlp))
    assert not alone.get("/health").json()["finds_mentions"]


def test_metrics_count_answers_by_route(make_app: Callable) -> None:
    client = TestClient(make_app())
    client.post("/link", json={"documents": [{"text": "MS or RA?"}, {"text": "kidney"}]})
    client.post("/link", json={})
    for id in ("C01", "C02", "C99"):
        client.get(f"/entity/{id}")
    client.get("/nothing/at/all")
    lines = client.get("/metrics").text.splitlines()
    for line in (
        'pel_requests_total{route="/link",status="200"} 1.0',
        'pel_requests_total{route="/link",status="422"} 1.0',
        'pel_requests_total{route="/entity/{id:path}",status="200"} 2.0',
        'pel_requests_total{route="/entity/{id:path}",status="404"} 1.0',
        'pel_requests_total{route="other",status="404"} 1.0',
        'pel_request_seconds_count{route="/link"} 2.0',
        "pel_documents_total 2.0",
        "pel_mentions_total 3.0",
        "pel_requests_under_way 0.0",
    ):
        assert line in lines


def test_a_process_that_died_has_no_requests_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    died = subprocess.Popen([sys.executable, "-c", ""])
    died.wait()
    of_dead, of_live = (tmp_path / f"gauge_livesum_{pid}.db" for pid in (died.pid, os.getpid()))
    for path in (of_dead, of_live):
        path.touch()
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path))
    ServerMetrics(lambda: 0)
    assert of_live.exists() and not of_dead.exists()


def test_the_examples_of_the_description_work(client: TestClient) -> None:
    schemas = client.get("/openapi.json").json()["components"]["schemas"]
    examples = schemas["LinkRequest"]["properties"]["documents"]["examples"]
    assert examples
    for documents in examples:
        assert client.post("/link", json={"documents": documents}).status_code == 200
    assert "50,000 bytes" in client.get("/openapi.json").json()["info"]["description"]


def test_no_page_asks_anything_of_another_host(client: TestClient) -> None:
    assert OUTSIDE.search("<script src='https://example.org/a.js'>")
    for address in ("/", "/docs"):
        answer = client.get(address)
        assert answer.status_code == 200 and not OUTSIDE.search(answer.text)
    for file in PAGE.iterdir():
        if file.suffix != ".svg":  # has the name of its namespace
            assert not OUTSIDE.search(file.read_text("utf8")), file
        assert client.get(f"/page/{file.name}").status_code == 200


def test_a_browser_is_told_to_run_the_scripts_of_the_page_alone(client: TestClient) -> None:
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    for script in PAGE.glob("*.js"):
        assert not re.search("innerHTML|outerHTML|insertAdjacentHTML|eval|document.write",
                             script.read_text("utf8"))  # fmt: skip
    assert not re.search(r"<script(?![^>]*src=)|style=|\son\w+=", answer.text)
