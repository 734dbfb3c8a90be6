"""POST /corrections: what a person decided counts from the next request on, if the server allows it."""

from pathlib import Path
from typing import Any

import pytest
import spacy
from fastapi.testclient import TestClient
from spacy.language import Language

TEXT = "🧠 The MS was measured."
START = TEXT.index("MS")


def ids(client: TestClient, text: str = TEXT) -> list[str]:
    answer = client.post("/link", json={"documents": [{"text": text}]})
    return [mention["id"] for mention in answer.json()["documents"][0]["mentions"]]


def correction(**changed: Any) -> dict[str, Any]:
    given = {"text": TEXT, "start": START, "end": START + 2, "id": "C01", **changed}
    return {"corrections": [given]}


@pytest.mark.parametrize("right", ["C01", "C02", "NIL"])
def test_the_next_request_is_corrected(make_app, own_nlp, tiny_folder: Path, right: str) -> None:
    client = TestClient(make_app(nlp=own_nlp, allow_fix=True))
    assert client.get("/health").json()["stores_corrections"]
    other = ids(client, "kidney")
    answer = client.post("/corrections", json=correction(id=right, scope="always"))
    assert answer.status_code == 200, answer.text
    stored = {"number": 1, "name": "MS", "id": right, "scope": "always"}
    assert answer.json() == {"stored": [stored]}
    assert ids(client) == [right] and ids(client, "kidney") == other
    again = spacy.load(tiny_folder)
    again.get_pipe("proxy_linker").set_kb(own_nlp.get_pipe("proxy_linker").kb.path)
    assert [ent.kb_id_ for ent in again(TEXT).ents] == [right]


def test_a_server_that_was_not_told_so_stores_nothing(make_app, own_nlp: Language) -> None:
    client = TestClient(make_app(nlp=own_nlp))
    before = ids(client)
    assert not client.get("/health").json()["stores_corrections"]
    for id in ("C01", "C02"):
        answer = client.post("/corrections", json=correction(id=id, scope="always"))
        assert answer.status_code == 403 and "pel serve --allow-fix" in answer.json()["detail"]
    assert ids(client) == before


@pytest.mark.parametrize("type", ["text/plain", "", "application/x-www-form-urlencoded"])
def test_a_page_of_another_host_stores_nothing(make_app, own_nlp: Language, type: str) -> None:
    client = TestClient(make_app(nlp=own_nlp, allow_fix=True))
    body = client.build_request("POST", "/corrections", json=correction()).content
    headers = {"content-type": type} if type else {}
    answer = client.post("/corrections", content=body, headers=headers)
    assert answer.status_code in (415, 422)
    answer = client.options(
        "/corrections",
        headers={"origin": "https://example.org", "access-control-request-method": "POST"},
    )
    assert "access-control-allow-origin" not in answer.headers
    assert not own_nlp.get_pipe("proxy_linker").kb.corrections


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"id": "C99"}, "correction 0: the knowledge base has no such id"),
        ({"id": ""}, "corrections[0].id"),
        ({"end": 100}, "correction 0: the mention 6-100 is not in the 22 characters"),
        ({"start": 1, "end": 2}, "blank"),
        ({"scope": "label"}, "no label is given"),
        ({"scope": "everywhere"}, "corrections[0].scope"),
        ({"text": "a" * 301}, "301 characters of text; send at most 300"),
    ],
)
def test_a_wrong_correction(make_app, own_nlp: Language, changed: dict, reason: str) -> None:
    client = TestClient(make_app(nlp=own_nlp, allow_fix=True))
    answer = client.post("/corrections", json=correction(**changed))
    assert answer.status_code == 422 and reason in answer.json()["detail"], answer.text
    assert not own_nlp.get_pipe("proxy_linker").kb.corrections
