"""Gold mentions come from a corpus in any layout."""

from __future__ import annotations

from pathlib import Path

import pytest
from spacy.language import Language

from spacy_pel.errors import PelError
from spacy_pel.fitting.evaluate import evaluate
from spacy_pel.fitting.gold_examples import gold_examples

from ..corpora.layouts import write_json_lines

TEXT = (
    "1|t|Aspirin and MS\n1\t0\t7\tAspirin\tT\tUMLS:C05\n\n2|t|headache\n2\t0\t8\theadache\tT\tC06\n"
)


@pytest.fixture
def medmentions(tmp_path: Path) -> Path:
    (tmp_path / "corpus_pubtator.txt").write_text(TEXT, encoding="utf8")
    for split, pmids in {"trng": "2", "dev": "1", "test": ""}.items():
        (tmp_path / f"corpus_pubtator_pmids_{split}.txt").write_text(pmids, encoding="utf8")
    return tmp_path


@pytest.fixture
def zeshel(tmp_path: Path) -> Path:
    document = {"document_id": "C05", "title": "Aspirin", "text": "Aspirin relieves headache ."}
    mention = {
        "corpus": "drugs", "context_document_id": "C05", "label_document_id": "C06",
        "start_index": 2, "end_index": 2, "text": "headache", "category": "HIGH_OVERLAP",
    }  # fmt: skip
    for folder, name, record in (("documents", "drugs", document), ("mentions", "test", mention)):
        (tmp_path / folder).mkdir()
        write_json_lines(tmp_path / folder / f"{name}.json", [record])
    return tmp_path


def test_a_split_of_medmentions_is_evaluated(tiny_nlp: Language, medmentions: Path) -> None:
    metrics = evaluate(tiny_nlp, [f"{medmentions}:dev"])
    assert (metrics["mentions"], metrics["in_kb"]) == (1, 1)
    assert metrics["recall@64"]["in_kb"] == 1
    assert metrics["concepts"].keys() == {"precision", "recall", "f1"}
    both = evaluate(tiny_nlp, [f"{medmentions}:dev", f"{medmentions}:train"])
    assert both["mentions"] == 2


def test_a_world_of_zeshel_is_evaluated(tiny_nlp: Language, zeshel: Path) -> None:
    linker = tiny_nlp.get_pipe("proxy_linker")
    (example,) = gold_examples(tiny_nlp, linker, [f"{zeshel}:test:drugs"])
    assert [(ent.text, ent.kb_id_) for ent in example.reference.ents] == [("headache", "C06")]
    assert evaluate(tiny_nlp, [f"{zeshel}:test"])["in_kb"] == 1


def test_a_folder_needs_a_split(tiny_nlp: Language, medmentions: Path) -> None:
    with pytest.raises(PelError, match="MedMentions has several splits; write"):
        evaluate(tiny_nlp, [medmentions])
    with pytest.raises(PelError, match=f"{medmentions}:test: no documents in it; give a corpus"):
        evaluate(tiny_nlp, [f"{medmentions}:test"])
