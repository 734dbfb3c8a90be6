"""Tasks of Prodigy, in the form that its documentation gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spacy_pel.documents import open_documents
from spacy_pel.errors import PelError

from .examples import linked, written

MS = {"start": 0, "end": 2, "label": "Disease"}
TEXT = "MS hurts"


def documents(path: Path, *tasks: dict | str):
    lines = (task if isinstance(task, str) else json.dumps(task) for task in tasks)
    path.write_text("\n".join(lines) + "\n", encoding="utf8")
    return [raw.document() for raw in open_documents(str(path))]


@pytest.fixture(params=["tasks.jsonl", "tasks.prodigy.jsonl"])
def path(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return tmp_path / request.param


def test_only_accepted_tasks_count(path: Path) -> None:
    answers = ["accept", "reject", "ignore", None]
    tasks = [
        {"text": f"{n}", **({"answer": answer} if answer else {})}
        for n, answer in enumerate(answers)
    ]
    assert [document.text for document in documents(path, *tasks)] == ["0", "3"]


def test_the_option_that_was_chosen_is_the_id_of_the_only_span(path: Path) -> None:
    options = [{"id": "C1"}, {"id": "C2"}]
    task = {"text": TEXT, "spans": [MS], "options": options, "accept": ["C2"], "answer": "accept"}
    other = {**task, "spans": [MS, {"start": 3, "end": 8, "label": "X"}]}
    own = {**task, "spans": [{**MS, "kb_id": "C1"}]}
    chosen = [[m.ids for m in document.mentions] for document in documents(path, task, other, own)]
    assert chosen == [[("C2",)], [(), ()], [("C1",)]]


def test_without_spans_the_mentions_are_still_to_be_found(tmp_path: Path) -> None:
    (document,) = documents(tmp_path / "a.prodigy.jsonl", {"text": TEXT, "meta": {"source": "x"}})
    assert document.mentions is None and document.id is None


@pytest.mark.parametrize(
    "task, message",
    [
        ({"text": TEXT, "spans": 3}, "line 1: 'spans' is not a list; correct the task"),
        ({"text": TEXT, "spans": [3]}, "line 1: the span 3 lacks an integer 'start' or 'end'"),
        ({"text": TEXT, "spans": [{"start": "0", "end": 2}]}, "lacks an integer 'start'"),
        ({"html": TEXT, "spans": []}, "line 1: 'text' is missing or not a string"),
        ({"text": TEXT, "spans": [{"start": 0, "end": 99}]}, "the mention 0-99 is not in the 8"),
        ('{"text": "x", "answer":', "line 1: bad JSON"),
    ],
)
def test_bad_tasks(path: Path, task: dict | str, message: str) -> None:
    with pytest.raises(PelError, match=message):
        documents(path, task)


def test_what_is_written_is_a_task(tmp_path: Path) -> None:
    doc = linked("MS, RA or x", (0, 2, "Disease"), (4, 6, "Disease"), (10, 11, "X"), id="n1")
    path = written([doc], tmp_path / "a.prodigy.jsonl", "prodigy")
    (task,) = map(json.loads, path.read_text("utf8").splitlines())
    assert (task["text"], task["meta"]) == ("MS, RA or x", {"id": "n1"})
    kept = [
        {key: span[key] for key in ("start", "end", "label", "kb_id")} for span in task["spans"]
    ]
    assert kept == [
        {**MS, "kb_id": "E0"},
        {"start": 4, "end": 6, "label": "Disease", "kb_id": "E1"},
        {"start": 10, "end": 11, "label": "X", "kb_id": "NIL"},
    ]
