from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from spacy.language import Language

from spacy_pel.serve.linking_thread import LinkingThread

TEXT = "Aspirin relieves headache. The patient has MS."


def link(client: TestClient, *documents: dict[str, Any]) -> list[dict[str, Any]]:
    answer = client.post("/link", json={"documents": documents})
    assert answer.status_code == 200, answer.text
    return answer.json()["documents"]


def problem(answer: Any, status: int) -> str:
    """The reason given for a refusal: one sentence, with nothing of the inside of the server."""
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["detail"]
    detail = answer.json()["detail"]
    assert isinstance(detail, str) and 5 < len(detail) < 500 and "\n" not in detail
    assert "Traceback" not in detail and "/" not in detail and ".py" not in detail
    return detail


def test_an_answer_is_what_the_pipeline_says(client: TestClient, tiny_nlp: Language) -> None:
    records = link(client, {"text": TEXT, "id": "d1"}, {"text": "Nothing."}, {"text": "", "id": 2})
    assert [(r.get("id"), r["text"], len(r["mentions"])) for r in records] == [
        ("d1", TEXT, 2), (None, "Nothing.", 0), (2, "", 0)
    ]  # fmt: skip
    for ent, mention in zip(tiny_nlp(TEXT).ents, records[0]["mentions"], strict=True):
        assert (mention["start"], mention["end"]) == (ent.start_char, ent.end_char)
        assert mention["text"] == ent.text and mention["label"] == "TERM"
        assert mention["id"] == ent._.kb_id and mention["probability"] is None
        assert mention["score"] == pytest.approx(ent._.kb_score, abs=1e-5)
        assert mention["name"] == ent._.kb_candidates[0]["name"]
        assert [c["id"] for c in mention["candidates"]] == [c["id"] for c in ent._.kb_candidates]
        assert all("rerank_score" not in candidate for candidate in mention["candidates"])


def test_given_mentions_are_the_only_ones_and_count_code_points(client: TestClient) -> None:
    text = "😀🧠 MS and 𝒳-kidney, kidney"
    start = text.index("𝒳")
    given = [{"start": start + 2, "end": start + 8, "label": "Organ"}]
    first, none, blanks = link(
        client,
        {"text": text, "mentions": given},
        {"text": text, "mentions": []},
        {"text": text, "mentions": [{"start": 2, "end": 6}]},
    )
    (mention,) = first["mentions"]
    assert (mention["start"], mention["text"], mention["label"]) == (start + 2, "kidney", "Organ")
    assert none["mentions"] == []
    assert [(m["start"], m["end"], m["label"]) for m in blanks["mentions"]] == [(3, 5, "MENTION")]


DOCUMENT = {"text": "MS or RA?"}
MENTION = {"start": 0, "end": 2}


@pytest.mark.parametrize(
    ("documents", "reason"),
    [
        ([], "at least 1"),
        ([DOCUMENT] * 5, "5 documents; send at most 4"),
        ([DOCUMENT, {"text": "a" * 301}], "document 1: 301 characters of text; send at most 300"),
        ([{**DOCUMENT, "mentions": [MENTION] * 6}], "document 0: 6 mentions; send at most 5"),
        (
            [{**DOCUMENT, "mentions": [MENTION, {"start": 1, "end": 4}]}],
            "document 0: mentions overlap; set a spans key (--spans-key), or give each in a",
        ),
        ([{**DOCUMENT, "mentions": [{"start": 8, "end": 10}]}], "not in the 9 characters"),
        ([{**DOCUMENT, "mentions": [{"start": 2, "end": 3}]}], "blank"),
        ([{**DOCUMENT, "mentions": [{"start": -1, "end": 2}]}], "mentions[0].start"),
        ([{**DOCUMENT, "mention": []}], "documents[0].mention"),
        ([{"text": 3}, {}], "documents[0].text: Input should be a valid string (and 1 more)"),
        (None, "documents"),
    ],
)
def test_a_wrong_request(client: TestClient, documents: Any, reason: str) -> None:
    assert reason in problem(client.post("/link", json={"documents": documents}), 422)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 400),
        (b"[" * 40_000, 400),
        (b'{"documents": [{"text": "\\ud800"}]}', 422),
        (b'{"documents": [{"text": "MS", "id": NaN}]}', 422),
        (b'{"documents": [{"text": "MS", "mentions": [{"start": ' + b"9" * 5000 + b"}]}]}", 400),
        (b" " * 50_001, 413),
    ],
)
def test_a_body_that_is_no_request(client: TestClient, body: bytes, status: int) -> None:
    answer = client.post("/link", content=body, headers={"content-type": "application/json"})
    problem(answer, status)


def test_a_body_in_pieces_is_limited_too(client: TestClient) -> None:
    pieces = (b" " * 10_000 for _ in range(6))  # no content-length
    answer = client.post("/link", content=pieces, headers={"content-type": "application/json"})
    assert problem(answer, 413) == "the request is larger than 50,000 bytes"


def test_new_words_are_forgotten(make_app: Callable, tiny_nlp: Language) -> None:
    client = TestClient(make_app(nlp=tiny_nlp))
    link(client, {"text": TEXT})
    before = len(tiny_nlp.vocab.strings)
    for n in range(20):
        link(client, {"text": f"word{n}x{n} and kidney"})
        client.post("/link", json={"documents": [{"text": f"bad{n}", "mentions": [MENTION] * 2}]})
    assert len(tiny_nlp.vocab.strings) == before


def test_a_bug_says_nothing_of_the_inside(make_app: Callable, monkeypatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("/home/someone/secret.py")

    client = TestClient(make_app(), raise_server_exceptions=False)
    monkeypatch.setattr(LinkingThread, "_link", fail)
    answer = client.post("/link", json={"documents": [DOCUMENT]})
    assert problem(answer, 500) == "internal error; the server's log says more"
    assert client.get("/health").status_code == 200
