from __future__ import annotations

from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity
from spacy_pel.kb.readers import (
    ReadOptions,
    Source,
    SourceFormat,
    detected_format,
    open_source,
    source_formats,
)
from spacy_pel.system.lines import numbered_lines

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


ANOTHER = '{"@context": {}, "@graph": [{"@id": "http://purl.obolibrary.org/obo/X_1"}]}'


@pytest.mark.parametrize("name", ["x.obo.json", "mondo.json"])
def test_json_of_an_unknown_format_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(ANOTHER)
    with pytest.raises(PelError, match=r"json: cannot tell the format; choose one with --format"):
        open_source(tmp_path / name)


def read_toy(path: Path, options: ReadOptions) -> Source:
    pairs = (line.split("=") for _, line in numbered_lines(path))
    return Source(Entity(id, name) for id, name in pairs)


def test_a_new_format_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = SourceFormat("toy", read_toy, (".toy", ".obo.json"))
    monkeypatch.setattr(source_formats, "SOURCE_FORMATS", (*source_formats.SOURCE_FORMATS, line))
    for name in ("a.toy", "a.obo.TOY", "a.obo.json"):  # the longest suffix decides
        (tmp_path / name).write_text("X:1=Fever\n")
        assert list(open_source(tmp_path / name).entities) == [Entity("X:1", "Fever")]
    (tmp_path / "a.b").write_text("")
    with pytest.raises(PelError, match=r"cannot tell the format.*toy \(\*\.toy, \*\.obo\.json\)"):
        open_source(tmp_path / "a.b")


def test_what_cannot_be_told_or_found(tmp_path: Path) -> None:
    (tmp_path / "kb.txt").write_text(LINE)
    with pytest.raises(PelError, match=r"kb\.txt: cannot tell the format.*jsonl.*rrf"):
        open_source(tmp_path / "kb.txt")
    with pytest.raises(PelError, match="cannot tell the format"):
        open_source(tmp_path)
    with pytest.raises(PelError, match=r"unknown format 'csvw'; choose one of .*\bjsonl, rrf"):
        open_source(tmp_path, format="csvw")
    with pytest.raises(PelError, match="absent: no such file"):
        open_source(tmp_path / "absent")
    with pytest.raises(PelError, match="cannot be read"):
        list(open_source(tmp_path, format="jsonl").entities)


DESCRIPTOR = (
    "<DescriptorRecord><DescriptorUI>{}</DescriptorUI>"
    "<DescriptorName><String>{}</String></DescriptorName></DescriptorRecord>"
)
ELEMENTS = "*NEWRECORD\nMH = {1}\nUI = {0}\n"
DOCUMENT = '{{"document_id": "{0}", "title": "{1}", "text": "{1} x"}}\n'
RECORD = '{{"concept_id": "{0}", "canonical_name": "{1}"}}\n'


@pytest.mark.parametrize(
    "name, record, first, second",
    [
        ("x.xml", DESCRIPTOR, "record 1", "record 2"),
        ("x.bin", ELEMENTS, "line 1", "line 4"),
        ("x.json", DOCUMENT, "line 1", "line 2"),
        ("x.jsonl", RECORD, "line 1", "line 2"),
    ],
)
@pytest.mark.parametrize(
    "id, title, fault",
    [
        ("A1", "b", "repeats the concept_id 'A1' of {first}"),
        ("A" * 1_001, "b", "the id 'A+'... of the entity 'b' has 1,001 characters"),
        ("A\u0080B", "b", "the id .* of the entity 'b' is blank or contains control characters"),
        ("A2", "\u0080", "the entity 'A2' has a blank canonical_name"),
    ],
)
def test_faults_of_records_have_a_place(
    tmp_path: Path, name: str, record: str, first: str, second: str, id: str, title: str, fault: str
) -> None:
    path = tmp_path / name
    text = record.format("A1", "a") + record.format(id, title)
    path.write_text(f"<Set>{text}</Set>" if "xml" in name else text, encoding="utf8")
    expected = f"x[.]{path.suffix[1:]}, {second}.*{fault.format(first=f'.*{first}')}"
    with pytest.raises(PelError, match=expected):
        list(open_source(path).entities)
