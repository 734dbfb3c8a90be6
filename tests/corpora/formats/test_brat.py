from pathlib import Path
from zipfile import ZipFile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc

from spacy_pel.corpora.doc_conversion import write_attributes
from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.errors import PelError

from .examples import KEY, QUICK, annotated, docs, linked, read, written

TEXT = "Painful left and right knees.\nNo MS."
LINES = """T1\tFinding 0 12;23 28\tPainful left knees
T2\tDisease 33 35\tMS
#1\tAnnotatorNotes T2\tsure
N1\tReference T2 MESH:D009103\tMultiple Sclerosis
N2\tReference T2 DOID:2377
R1\tof Arg1:T1 Arg2:T2
A1\tNegated T2
"""


def folder(path: Path, text: str = TEXT, lines: str = LINES) -> Path:
    path.mkdir()
    (path / "note.txt").write_bytes(text.encode())
    (path / "note.ann").write_bytes(lines.encode())
    return path


def test_a_folder_has_a_document_for_two_files(tmp_path: Path) -> None:
    notes = folder(tmp_path / "notes")
    (notes / "other.txt").write_text("RA.")  # has no annotations yet
    first, second = open_corpus(notes).documents(), read(notes)
    (document,) = first  # gold ids are read from what is annotated alone
    assert (document.id, document.text) == ("note", TEXT)
    found = [(m.start, m.end, m.label, m.ids) for m in document.mentions]
    assert found == [(0, 28, "Finding", ()), (33, 35, "Disease", ("D009103", "DOID:2377"))]
    assert [(doc.user_data["id"], doc.text) for doc in second] == [("note", TEXT), ("other", "RA.")]


def test_what_is_wrong_is_told_with_its_line(tmp_path: Path) -> None:
    for place, problem in (
        ("32 34", "the mention reads 'MS' but"),
        ("33 99", "the mention 33-99 is not in the 36"),
        ("33-35", "malformed line"),
    ):
        notes = folder(tmp_path / place, lines=LINES.replace("33 35", place))
        with pytest.raises(PelError, match=f"note.ann, line 2: {problem}"):
            read(notes)


def test_a_text_and_its_annotations_belong_together(tmp_path: Path) -> None:
    notes = folder(tmp_path / "notes")
    (notes / "note.txt").unlink()
    with pytest.raises(PelError, match="its text, note.txt, cannot be read beside it .*; put both"):
        read(notes)
    archive = written([linked("MS", (0, 2))], tmp_path / "a.brat.zip", "brat")
    with pytest.raises(PelError, match="unpack an archive, and give its folder"):
        read(archive)


def test_places_ids_and_attributes_are_written(tmp_path: Path) -> None:
    doc = linked("MS,\nbreast\ncancer; x", (0, 2, "Disease"), (4, 17, "D x"), (19, 20), id="../a/b")
    doc.spans[KEY][0]._.read_as = "multiple sclerosis"
    write_attributes(doc, KEY, ["read_as"])
    again = linked("RA", (0, 2), id="../a/b")
    with ZipFile(written([doc, again], tmp_path / "a.brat.zip", "brat")) as archive:
        assert archive.namelist() == ["a/b.txt", "a/b.ann", "a/b-2.txt", "a/b-2.ann"]
        assert archive.read("a/b.txt").decode() == doc.text
        assert archive.read("a/b.ann").decode() == (
            'T1\tDisease 0 2\tMS\nN1\tReference T1 KB:E0\ta "name" ,\nA1\tread_as T1 multiple_sclerosis\n'
            "T2\tD_x 4 10;11 17\tbreast cancer\nN2\tReference T2 KB:E1\t\nT3\tMENTION 19 20\tx\n"
        )


@QUICK
@given(made=st.lists(docs(), min_size=1, max_size=3))
def test_what_is_written_is_read_back(tmp_path_factory, made: list[Doc]) -> None:
    path = tmp_path_factory.mktemp("brat")
    with ZipFile(written(made, path / "a.brat.zip", "brat")) as archive:
        archive.extractall(path / "data")
    found = open_corpus(path / "data").documents()
    assert sorted((document.text, annotated(document)) for document in found) == sorted(
        (doc.text, [(*m[:2], m[2].replace("&", "_"), m[3]) for m in annotated(doc)]) for doc in made
    )
