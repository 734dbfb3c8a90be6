"""Documents in JSON: files as streams, tasks of Label Studio and of Prodigy.

That what is written for Label Studio is valid was checked with its SDK's LabelInterface.
"""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.corpora import Document, open_documents
from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.corpora.formats.base import BoundedFile
from spacy_pel.corpora.formats.json_formats import FILE
from spacy_pel.errors import PelError

from ...conftest import write_text
from .examples import QUICK, linked, written

NUMBERS = st.integers(1 - 2**63, 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=20,
)


def records(text: str) -> list:
    file = BoundedFile(io.BytesIO(text.encode("utf8", "surrogatepass")), "x")
    return [record for _, record in FILE.split(file)]


OTHERS = st.dictionaries(st.text(), VALUES, max_size=3)


@QUICK
@given(st.lists(VALUES, max_size=5), OTHERS, st.sampled_from([None, 1]), st.booleans())
def test_a_file_is_read_as_json_reads_it(documents, others, indent, is_ascii) -> None:
    others.pop("documents", None)
    for whole, expected in (
        ({**others, "documents": documents, "key": 12}, documents),
        (documents, documents),
        (others, [others]),
    ):
        text = json.dumps(whole, indent=indent, ensure_ascii=is_ascii)
        assert records("\ufeff" + text + "\n") == expected


TEXT = "🧠 MS hurts"  # offsets count code points


def result(type: str = "labels", region: str = "r", name: str = "label", **value: Any) -> dict:
    place = {"start": 2, "end": 4, "text": "MS"}
    return {"id": region, "from_name": name, "to_name": "t", "type": type, "value": place | value}


def answer(*ids: Any, type: str = "textarea", name: str = "kb_id", region: str = "r") -> dict:
    key = {"textarea": "text"}.get(type, type)
    return result(type, region, name, **{key: list(ids)})


LABEL = result(labels=["Disease"])


def task(*results: dict, **more: Any) -> dict:
    return {"id": 5, "data": {"text": TEXT}, "annotations": [{"result": list(results)}], **more}


def documents(folder: Path, *tasks: Any) -> list[Document]:
    path = write_text(folder / "project-1-at-2026-11-23.json", json.dumps(tasks))
    return [raw.document() for raw in open_documents(str(path))]


@pytest.mark.parametrize(
    "results, ids",
    [
        ([], ()),
        ([answer("C1|C2", " C3 ")], ("C1", "C2", "C3")),
        ([answer("NIL")], ()),
        ([answer("C1", type="choices", name="entity")], ("C1",)),
        ([answer(["Diseases", "C1"], type="taxonomy", name="entity")], ("C1",)),
        ([answer("C1"), answer("my note", name="note")], ("C1",)),
        ([answer("C1", region="another")], ()),
    ],
)
def test_ids_stand_in_another_result_of_the_region(tmp_path: Path, results, ids) -> None:
    (document,) = documents(tmp_path, task(*results, LABEL))
    assert (document.text, document.id) == (TEXT, 5)
    assert document.mentions == ((2, 4, "MS", "Disease", ids),)


def test_the_annotation_that_counts(tmp_path: Path) -> None:
    one, two = ({"result": [LABEL, answer(id)]} for id in ("C1", "C2"))
    made = documents(
        tmp_path,
        task(annotations=[one, two]),
        task(annotations=[one, {**two, "was_cancelled": True}]),
        task(annotations=[{**one, "ground_truth": True}, two]),
        task(annotations=[{**one, "was_cancelled": True}]),
        task(annotations=[], predictions=[one]),
        task(annotations=[{"result": []}]),
    )
    assert [d.mentions and d.mentions[0].ids for d in made] == [
        ("C2",), ("C1",), ("C1",), None, None, (),
    ]  # fmt: skip


def test_text_may_have_another_key_and_regions_of_html_offsets_of_their_own(tmp_path: Path) -> None:
    value = {"start": "/div[1]/text()[1]", "globalOffsets": {"start": 2, "end": 4}}
    html = result("hypertextlabels", hypertextlabels=["D"], **value)
    (document,) = documents(tmp_path, task(html, data={"note": TEXT, "id": "n"}))
    assert document == Document(TEXT, "n", ((2, 4, "MS", "D", ()),))


@pytest.mark.parametrize(
    "given, message",
    [
        (task(LABEL, data={"a": "x", "b": "y"}), "no 'text' in 'data', which has: a, b"),
        (task(result(labels=["D"], start="/p[1]")), "the region '/p.1.'-4 has no offsets in the"),
        (task(result(labels=["D"], text="hurts")), "the mention reads 'hurts' but"),
        (task(LABEL, answer("x", name="a"), answer("y", name="b")), "may be in any of a, b; name"),
        (task(annotations=[{}]), "not a task of Label Studio .KeyError: 'result'.; export it"),
    ],
)
def test_bad_tasks(tmp_path: Path, given: Any, message: str) -> None:
    with pytest.raises(PelError, match=message):
        documents(tmp_path, given)


def test_predictions_that_were_accepted_are_gold(tmp_path: Path) -> None:
    """An annotator opens the tasks, and submits the predictions as they are."""
    ms = linked("MS and RA", (0, 2, "D"), (7, 9, "D"), id="n1")
    made = [ms, linked("x"), linked("RA", (0, 2))]
    path = written(made, tmp_path / "a.label-studio.json", "label-studio")
    tasks = json.loads(path.read_text("utf8"))
    assert all(document.mentions is None for document in documents(tmp_path, *tasks))
    for each in tasks:
        each["annotations"] = each.pop("predictions")
    path.write_text(json.dumps(tasks))
    found = [(d.text, d.id, d.mentions) for d in open_corpus(path).documents()]
    assert found == [
        ("MS and RA", "n1", ((0, 2, "MS", "D", ("E0",)), (7, 9, "RA", "D", ("E1",)))),
        ("x", None, ()),
        ("RA", None, ((0, 2, "RA", "MENTION", ("E0",)),)),
    ]


@pytest.mark.parametrize("name", ["tasks.jsonl", "tasks.prodigy.jsonl"])
def test_tasks_of_prodigy_that_were_accepted(tmp_path: Path, name: str) -> None:
    """The option that was chosen is the id of the only span."""
    span = {"start": 0, "end": 2, "label": "Disease"}
    task = {"text": "MS hurts", "spans": [span], "accept": ["C2"], "answer": "accept"}
    tasks = [
        *(task, {**task, "answer": "reject"}, {**task, "answer": "ignore"}),
        {**task, "spans": [span, {"start": 3, "end": 8}], "answer": None},
        {**task, "spans": [{**span, "kb_id": "C1"}]},
    ]
    (tmp_path / name).write_text("\n".join(map(json.dumps, tasks)) + "\n")
    read = (raw.document() for raw in open_documents(str(tmp_path / name)))
    found = [[mention.ids for mention in document.mentions] for document in read]
    assert found == [[("C2",)], [(), ()], [("C1",)]]
