from __future__ import annotations

from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity
from spacy_pel.kb.readers import detected_format, open_source

LINE = '{"concept_id": "C1", "canonical_name": "Fever"}\n'
ROW = "C1|ENG|P|L1|PF|S1|Y|A1||||MSH|MH|D1|Fever|0|N|256|\n"


def test_detects_the_format(tmp_path: Path) -> None:
    (tmp_path / "kb.jsonl").write_text(LINE)
    (tmp_path / "MRCONSO.RRF").write_text(ROW)
    assert list(open_source(tmp_path / "kb.jsonl").entities) == [Entity("C1", "Fever")]
    assert detected_format(tmp_path) == "rrf"
    assert [entity.concept_id for entity in open_source(tmp_path).entities] == ["C1"]


@pytest.mark.parametrize("below", ["META", "2017AA/META"])
def test_a_folder_that_holds_a_release(tmp_path: Path, below: str) -> None:
    meta = tmp_path / "umls" / below
    meta.mkdir(parents=True)
    (meta / "MRCONSO.RRF").write_text(ROW)
    assert detected_format(tmp_path / "umls") == "rrf"
    assert [entity.concept_id for entity in open_source(tmp_path / "umls").entities] == ["C1"]


def test_a_named_format_is_taken(tmp_path: Path) -> None:
    (tmp_path / "kb.txt").write_text(LINE)
    source = open_source(tmp_path / "kb.txt", format="jsonl")
    assert (list(source.entities), source.types, source.version) == (
        [Entity("C1", "Fever")],
        (),
        None,
    )


def test_what_cannot_be_told_or_found(tmp_path: Path) -> None:
    (tmp_path / "kb.txt").write_text(LINE)
    with pytest.raises(PelError, match=r"kb\.txt: cannot tell the format.*jsonl.*rrf"):
        open_source(tmp_path / "kb.txt")
    with pytest.raises(PelError, match="cannot tell the format"):
        open_source(tmp_path)
    with pytest.raises(PelError, match="unknown format 'owl'; choose one of jsonl, rrf"):
        open_source(tmp_path, format="owl")
    with pytest.raises(PelError, match="absent: no such file"):
        open_source(tmp_path / "absent")
    with pytest.raises(PelError, match="cannot be read"):
        list(open_source(tmp_path, format="jsonl").entities)
