import re
from collections.abc import Callable

import numpy as np
import pytest
from fastapi.testclient import TestClient
from spacy.language import Language

from spacy_pel.serve.app import PAGE

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


@pytest.mark.parametrize("id", ["a/b", "..%2F..%2Fetc%2Fpasswd", "%00", "%FF", "🧠", " "])
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


def test_a_local_server_is_reached_by_its_addresses_alone(make_app, client: TestClient) -> None:
    local = TestClient(make_app(local=True))
    for host, status in {
        **dict.fromkeys(("LOCALHOST:80", "127.0.0.1:8000", "[::1]:8000"), 200),
        **dict.fromkeys(("rebound.example.org:8000", "localhost.example.org", "", "["), 400),
        "127.0.0.1.example.org": 400,
    }.items():
        assert local.get("/health", headers={"host": host}).status_code == status, host
        assert client.get("/health", headers={"host": host}).status_code == 200  # one for others


def test_health(client: TestClient, make_app: Callable, tiny_nlp: Language) -> None:
    health = client.get("/health").json()
    assert health["status"] == "ok" and health["entities"] == 7 and health["finds_mentions"]
    assert client.head("/health").status_code == 200
    tiny_nlp.remove_pipe("entity_ruler")
    alone = TestClient(make_app(nlp=tiny_nlp))
    assert not alone.get("/health").json()["finds_mentions"]


def test_metrics_count_answers_by_route(make_app: Callable) -> None:
    client = TestClient(make_app())

    def counts() -> dict[str, float]:
        lines = (line.split() for line in client.get("/metrics").text.splitlines())
        return {name: float(count) for name, count in (line for line in lines if len(line) == 2)}

    before = counts()
    client.post("/link", json={"documents": [{"text": "MS or RA?"}, {"text": "kidney"}]})
    client.post("/link", json={})
    for address in ("entity/C01", "entity/C02", "entity/C99", "nothing/at/all"):
        client.get(f"/{address}")
    after = counts()
    for name, count in {
        'pel_request_seconds_count{route="/link",status="200"}': 1,
        'pel_request_seconds_count{route="/link",status="422"}': 1,
        'pel_request_seconds_count{route="/entity/{id:path}",status="200"}': 2,
        'pel_request_seconds_count{route="/entity/{id:path}",status="404"}': 1,
        'pel_request_seconds_count{route="other",status="404"}': 1,
        "pel_documents_total": 2,
        "pel_mentions_total": 3,
    }.items():
        assert after[name] - before.get(name, 0) == count, name


def test_the_examples_of_the_description_work(client: TestClient) -> None:
    description = client.get("/openapi.json").json()
    schema = description["components"]["schemas"]["LinkRequest"]["properties"]["documents"]
    for documents in schema["examples"]:
        assert client.post("/link", json={"documents": documents}).status_code == 200
    assert "50,000 bytes" in description["info"]["description"]


def test_a_browser_asks_no_other_host_and_runs_the_page_s_scripts_alone(client: TestClient) -> None:
    assert OUTSIDE.search("<script src='https://example.org/a.js'>")
    for address in ("/", "/docs"):
        answer = client.get(address)
        assert answer.status_code == 200 and not OUTSIDE.search(answer.text)
    for file in PAGE.iterdir():
        if file.suffix != ".svg":  # has the name of its namespace
            assert not OUTSIDE.search(file.read_text("utf8")), file
        assert client.get(f"/page/{file.name}").status_code == 200
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    for script in PAGE.glob("*.js"):
        assert not re.search("innerHTML|outerHTML|insertAdjacentHTML|eval|document.write",
                             script.read_text("utf8"))  # fmt: skip
    assert not re.search(r"<script(?![^>]*src=)|style=|\son\w+=", answer.text)


def luminance(colour: str) -> float:
    """The relative luminance of "#rrggbb", as WCAG 2.2 defines it."""
    values = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def test_words_stand_out_from_every_colour() -> None:
    for scheme in (PAGE / "page.css").read_text("utf8").split("prefers-color-scheme: dark"):
        colours = {k: luminance(c) for k, c in re.findall(r"--([\w-]+): (#\w{6})", scheme)}
        for ground in (*(f"hue-{n}" for n in range(6)), "nil"):
            for word in ("ink", "nil-line" if ground == "nil" else "quiet"):
                dark, light = sorted((colours[ground], colours[word]))
                assert (light + 0.05) / (dark + 0.05) > 4.5, (ground, word)
