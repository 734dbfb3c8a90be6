from __future__ import annotations

from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, read_entities

LINE = '{"concept_id": "C1", "canonical_name": "Fever"}\n'
ROW = "C1|ENG|P|L1|PF|S1|Y|A1||||MSH|MH|D1|Fever|0|N|256|\n"


def test_detects_the_format(tmp_path: Path) -> None:
    (tmp_path / "kb.jsonl").write_text(LINE)
    (tmp_path / "MRCONSO.RRF").write_text(ROW)
    assert list(read_entities(tmp_path / "kb.jsonl")) == [Entity("C1", "Fever")]
    assert list(read_entities(tmp_path)) == [Entity("C1", "Fever")]


def test_a_named_format_is_taken(tmp_path: Path) -> None:
    (tmp_path / "kb.txt").write_text(LINE)
    assert list(read_entities(tmp_path / "kb.txt", format="jsonl")) == [Entity("C1", "Fever")]


def test_what_cannot_be_told_or_found(tmp_path: Path) -> None:
    (tmp_path / "kb.txt").write_text(LINE)
    with pytest.raises(PelError, match=r"kb\.txt: cannot tell the format.*jsonl.*rrf"):
        read_entities(tmp_path / "kb.txt")
    with pytest.raises(PelError, match="cannot tell the format"):
        read_entities(tmp_path)
    with pytest.raises(PelError, match="unknown format 'obo'; choose one of jsonl, rrf"):
        read_entities(tmp_path, format="obo")
    with pytest.raises(PelError, match="absent: no such file"):
        read_entities(tmp_path / "absent")
    with pytest.raises(PelError, match="cannot be read"):
        list(read_entities(tmp_path, format="jsonl"))
