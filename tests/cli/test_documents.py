"""Documents from text, JSONL and DocBin."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span

from spacy_pel.cli.documents import gives_mentions, read_documents
from spacy_pel.errors import PelError

NLP = spacy.blank("en")


def documents(path: Path, spans_key: str | None = None) -> list[Doc]:
    return list(read_documents(NLP, str(path), spans_key))


def jsonl(folder: Path, *records: object) -> Path:
    path = folder / "docs.jsonl"
    path.write_text("\n".join(map(json.dumps, records)), encoding="utf8")
    return path


@pytest.mark.parametrize("name", ["docs.txt", "docs.txt.gz"])
def test_text_is_a_document_a_line(tmp_path: Path, name: str) -> None:
    opener = gzip.open if name.endswith(".gz") else open
    with opener(tmp_path / name, "wt", encoding="utf8") as file:
        file.write("Été 🧬 \r\n\n  \nTwo\u2028lines.")
    assert [doc.text for doc in documents(tmp_path / name)] == ["Été 🧬 ", "Two\u2028lines."]


def test_jsonl_keeps_id_and_mentions(tmp_path: Path) -> None:
    mention = {"start": 0, "end": 2, "label": "D"}
    path = jsonl(tmp_path, {"text": "MS.", "id": 7, "mentions": [mention]}, {"text": "None."})
    first, second = documents(path)
    assert first.user_data["id"] == 7
    assert [(e.text, e.label_) for e in first.ents] == [("MS", "D")]
    assert gives_mentions(first, None) and not gives_mentions(second, None)
    assert "id" not in second.user_data


def test_no_mention_is_given_too(tmp_path: Path) -> None:
    path = jsonl(tmp_path, {"text": "MS.", "mentions": []})
    assert [gives_mentions(doc, key) for key in (None, "k") for doc in documents(path, key)] == [
        True,
        True,
    ]


def test_mentions_inside_tokens_and_with_white_space(tmp_path: Path) -> None:
    text = "non-MS  patients\u00a0now"
    bounds = [(4, 6), (6, 16), (16, 20)]
    path = jsonl(tmp_path, {"text": text, "mentions": [{"start": s, "end": e} for s, e in bounds]})
    (doc,) = documents(path)
    assert doc.text == text
    assert [(e.text, e.start_char) for e in doc.ents] == [("MS", 4), ("patients", 8), ("now", 17)]


def test_overlapping_mentions_need_a_spans_key(tmp_path: Path) -> None:
    mentions = [{"start": 0, "end": 4}, {"start": 0, "end": 2}, {"start": 0, "end": 2}]
    path = jsonl(tmp_path, {"text": "MS a", "mentions": mentions})
    with pytest.raises(PelError, match="line 1: mentions overlap; set --spans-key"):
        documents(path)
    (doc,) = documents(path, "all")
    assert [span.text for span in doc.spans["all"]] == ["MS a", "MS", "MS"]


@pytest.mark.parametrize(
    "line, message",
    [
        ("{", "bad JSON"),
        ("[" * 100_000, "bad JSON"),
        ("3", "not a JSON object"),
        ("{}", "'text' is missing or not a string"),
        ('{"text": "MS", "id": [1]}', "'id' is not a string or an integer"),
        ('{"text": "MS", "mentions": 1}', "'mentions' is not a list"),
        ('{"text": "MS", "mentions": [1]}', "the mention 1 is not an object"),
        ('{"text": "MS", "mentions": [{"start": 0}]}', "lacks an integer 'start' or 'end'"),
        ('{"text": "MS", "mentions": [{"start": 0, "end": 3}]}', "0-3 is not in the 2 characters"),
        ('{"text": "MS", "mentions": [{"start": -1, "end": 1}]}', "-1-1 is not in the 2"),
        ('{"text": "MS", "mentions": [{"start": 1, "end": 1}]}', "1-1 is not in the 2"),
        ('{"text": "M S", "mentions": [{"start": 1, "end": 2}]}', "the mention 1-2 is blank"),
        ('{"text": "\\ud800"}', "surrogates not allowed"),
        (json.dumps({"text": "x " * 500_001}), "exceeds maximum"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text(f'{{"text": "fine"}}\n\n{line}\n', encoding="utf8")
    with pytest.raises(PelError, match=f"{path}, line 3: .*{message}") as caught:
        documents(path)
    assert "\n" not in str(caught.value)


def test_docbin(tmp_path: Path) -> None:
    marked, bare = NLP("MS now"), NLP.make_doc("MS")
    marked.ents = [Span(marked, 0, 1, label="D")]
    marked.user_data["id"] = "d1"
    DocBin(docs=[marked, bare], store_user_data=True).to_disk(tmp_path / "docs.spacy")
    first, second = documents(tmp_path / "docs.spacy")
    assert (first.text, [e.text for e in first.ents]) == ("MS now", ["MS"])
    assert first.user_data["id"] == "d1"
    assert gives_mentions(first, None) and not gives_mentions(second, None)


def test_a_file_that_is_no_docbin(tmp_path: Path) -> None:
    (tmp_path / "docs.spacy").write_text("text")
    with pytest.raises(PelError, match="not a DocBin"):
        documents(tmp_path / "docs.spacy")


@pytest.mark.parametrize("name, message", [("no.txt", "no such file"), ("a.pdf", "unknown kind")])
def test_a_file_that_cannot_be_read_is_refused_at_once(
    tmp_path: Path, name: str, message: str
) -> None:
    (tmp_path / "a.pdf").touch()
    with pytest.raises(PelError, match=f"{name}: {message}.*; give a .txt, .jsonl or .spacy file"):
        read_documents(NLP, str(tmp_path / name))
