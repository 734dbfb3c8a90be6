"""A name tells the format of a corpus, and the split of it."""

from __future__ import annotations

import pytest

from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.errors import PelError

from .layouts import write_medmentions, write_zeshel

SETTINGS = {"limit": 3, "spans_key": "sc", "gold_mentions": False}


def ids(corpus):
    return [document.id for document in corpus.documents()]


@pytest.fixture
def medmentions(tmp_path):
    return write_medmentions(tmp_path / "mm") / "st21pv"


@pytest.fixture
def zeshel(tmp_path):
    return write_zeshel(tmp_path / "zeshel")


def test_a_suffix_tells_the_format(tmp_path):
    path = tmp_path / "dev:1.pubtator"
    path.write_text("1|t|Flu\n", encoding="utf8")
    corpus = open_corpus(path, **SETTINGS)
    assert ids(corpus) == ["1"]
    assert {name: getattr(corpus, name) for name in SETTINGS} == SETTINGS
    (tmp_path / "dev.jsonl").write_text('{"id": "2", "text": "Flu"}\n', encoding="utf8")
    assert ids(open_corpus(tmp_path / "dev.jsonl")) == ["2"]


def test_a_folder_of_files_is_a_corpus(tmp_path):
    (tmp_path / "b.pubtator").write_text("1|t|Flu\n\n2|t|Flu\n", encoding="utf8")
    (tmp_path / "a.jsonl").write_text('{"id": "3", "text": "Flu"}\n', encoding="utf8")
    (tmp_path / "README.txt").write_text("Passed over", encoding="utf8")
    assert ids(open_corpus(tmp_path)) == ["3", "1", "2"]
    assert ids(open_corpus(tmp_path, limit=1)) == ["3", "1"]  # of each file


def test_medmentions(medmentions):
    corpus = open_corpus(f"{medmentions}:dev", **SETTINGS)
    assert ids(corpus) == ["13"]
    assert {name: getattr(corpus, name) for name in SETTINGS} == SETTINGS


def test_zeshel(zeshel):
    corpus = open_corpus(f"{zeshel}:test", **SETTINGS)
    assert ids(corpus) == ["G2", "H1", "H3"]
    assert {name: getattr(corpus, name) for name in SETTINGS} == SETTINGS
    assert ids(open_corpus(f"{zeshel}:test:harbour")) == ["H1", "H3"]


def test_what_is_not_told(medmentions, zeshel, tmp_path):
    with pytest.raises(PelError, match=r"several splits; write .*pv:train or .*:dev or .*:test"):
        open_corpus(medmentions)
    with pytest.raises(PelError, match="MedMentions has several splits"):
        open_corpus(f"{medmentions}:dev:more")
    with pytest.raises(PelError, match=r"several splits; write .*zeshel:val or .*zeshel:val:WORLD"):
        open_corpus(zeshel)
    with pytest.raises(PelError, match="neither MedMentions nor ZESHEL .*; give one of them"):
        open_corpus(f"{tmp_path}:dev")
    with pytest.raises(PelError, match="absent:dev: no such file; give a file .jsonl, "):
        open_corpus(tmp_path / "absent:dev")


@pytest.mark.parametrize("name", ["notes.txt", "notes.txt.gz", "notes.csv", "notes.tsv"])
def test_a_format_without_ids_is_refused(tmp_path, name):
    (tmp_path / name).touch()
    with pytest.raises(
        PelError,
        match="files have no entity ids; give it the suffix .* give a file .jsonl, ",
    ):
        open_corpus(tmp_path / name)
    with pytest.raises(PelError, match="no file in it that can be read; give a file .jsonl, "):
        open_corpus(tmp_path)


def test_an_unknown_kind_of_file_is_refused(tmp_path):
    (tmp_path / "notes.pdf").touch()
    with pytest.raises(PelError, match="notes.pdf: unknown kind of file; give a file .jsonl, "):
        open_corpus(tmp_path / "notes.pdf")
