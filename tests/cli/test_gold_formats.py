"""evaluate, calibrate and train read the same gold, whatever format it is in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import pytest
import spacy
from spacy.language import Language
from spacy.tokens import DocBin, Span

from spacy_pel.corpora.document_corpus import make_document_corpus
from spacy_pel.fitting.gold_examples import gold_examples

from ..fitting.evaluation_corpus import CORPUS

TITLE, ABSTRACT = (line.split("|", 2)[2] for line in CORPUS.splitlines()[:2])
TEXT = f"{TITLE} {ABSTRACT}"
MENTIONS = [
    (int(start), int(end), label, "NIL" if ids == "-1" else ids)
    for _, start, end, _, label, ids in (line.split("\t") for line in CORPUS.splitlines()[2:7])
]


def spans(id: str, **more: Any) -> list[dict]:
    return [
        {"start": s, "end": e, "label": label, id: ids, **more} for s, e, label, ids in MENTIONS
    ]


def record() -> dict:
    return {"id": "1", "text": TEXT, "mentions": spans("id")}


def bioc() -> dict:
    annotations = [
        {
            "infons": {"type": label, "identifier": ids},
            "text": TEXT[start:end],
            "locations": [{"offset": start, "length": end - start}],
        }
        for start, end, label, ids in MENTIONS
    ]
    title = {"offset": 0, "text": TITLE}
    abstract = {"offset": len(TITLE) + 1, "text": ABSTRACT}
    return {"documents": [{"id": "1", "passages": [title, abstract], "annotations": annotations}]}


def xml() -> str:
    annotations = "".join(
        f"<annotation id='{n}'><infon key='type'>{label}</infon><infon key='identifier'>{ids}</infon>"
        f"<location offset='{start}' length='{end - start}'/><text>{escape(TEXT[start:end])}</text>"
        "</annotation>"
        for n, (start, end, label, ids) in enumerate(MENTIONS)
    )
    passage = f"<passage><offset>0</offset><text>{escape(TEXT)}</text>{annotations}</passage>"
    return f"<collection><document><id>1</id>{passage}</document></collection>"


def label_studio() -> list[dict]:
    results = []
    for n, (start, end, label, ids) in enumerate(MENTIONS):
        place = {"start": start, "end": end, "text": TEXT[start:end]}
        region = {"id": str(n), "to_name": "text"}
        results += [
            {**region, "from_name": "l", "type": "labels", "value": {**place, "labels": [label]}},
            {**region, "from_name": "e", "type": "choices", "value": {**place, "choices": [ids]}},
        ]
    return [{"id": 1, "data": {"text": TEXT}, "annotations": [{"result": results}]}]


def docbin() -> bytes:
    doc = spacy.blank("en")(TEXT)
    doc.ents = [
        Span(doc, span.start, span.end, label=label, kb_id=ids)
        for start, end, label, ids in MENTIONS
        if (span := doc.char_span(start, end))
    ]
    return DocBin(docs=[doc]).to_bytes()


FILES: dict[str, Callable[[], Any]] = {
    "a.jsonl": record,
    "linked.json": record,
    "api.json": lambda: {"documents": [record()]},
    "a.bioc.json": bioc,
    "a.xml": xml,
    "a.spacy": docbin,
    "db-out.jsonl": lambda: {"text": TEXT, "spans": spans("kb_id"), "answer": "accept"},
    "project-1.json": label_studio,
}


@pytest.fixture(params=FILES)
def gold(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path, made = tmp_path / request.param, FILES[request.param]()
    data = (
        made if isinstance(made, bytes) else (made if isinstance(made, str) else json.dumps(made))
    )
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.fixture
def pubtator(tmp_path: Path) -> Path:
    path = tmp_path / "a.pubtator"
    path.write_text(CORPUS, encoding="utf8")
    return path


def test_evaluate(run, tiny_folder: Path, gold: Path, pubtator: Path, tmp_path: Path) -> None:
    found = []
    for corpus in (pubtator, gold):
        run("evaluate", tiny_folder, corpus, "-o", tmp_path / "m.json")
        metrics = json.loads((tmp_path / "m.json").read_text())
        found.append({key: metrics[key] for key in metrics if "@" in key or key in ("nil", "mrr")})
    assert found[0] == found[1] and found[0]["recall@64"]["in_kb"] == 1


def test_calibrate_and_train_read_the_same(tiny_nlp: Language, gold: Path, pubtator: Path) -> None:
    linker = tiny_nlp.get_pipe("proxy_linker")
    of_calibrate = gold_examples(tiny_nlp, linker, [gold])
    of_train = make_document_corpus(gold)(tiny_nlp)
    expected = gold_examples(tiny_nlp, linker, [pubtator])
    for examples in (of_calibrate, of_train):
        mentions = [
            [(e.start_char, e.end_char, e.label_, e.kb_id_) for e in example.reference.ents]
            for example in examples
        ]
        assert mentions == [MENTIONS]
    assert [tuple(e.reference.ents[1].kb_id_.split("|")) for e in expected] == [("C99", "C06")]
