"""A name tells the layout, and the split of it."""

from __future__ import annotations

import pytest

from spacy_pel.corpora.corpus import PubTatorCorpus
from spacy_pel.corpora.medmentions import MedMentionsCorpus
from spacy_pel.corpora.open_corpus import open_corpus
from spacy_pel.corpora.zeshel import ZeshelCorpus
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


def test_a_file_is_pubtator(tmp_path):
    path = tmp_path / "dev:1.pubtator"
    path.write_text("1|t|Flu\n", encoding="utf8")
    corpus = open_corpus(path, **SETTINGS)
    assert isinstance(corpus, PubTatorCorpus) and ids(corpus) == ["1"]
    assert {name: getattr(corpus, name) for name in SETTINGS} == SETTINGS


def test_medmentions(medmentions):
    corpus = open_corpus(f"{medmentions}:dev", **SETTINGS)
    assert isinstance(corpus, MedMentionsCorpus) and ids(corpus) == ["13"]
    assert {name: getattr(corpus, name) for name in SETTINGS} == SETTINGS


def test_zeshel(zeshel):
    corpus = open_corpus(f"{zeshel}:test", **SETTINGS)
    assert isinstance(corpus, ZeshelCorpus) and ids(corpus) == ["G2", "H1", "H3"]
    assert {name: getattr(corpus, name) for name in SETTINGS} == SETTINGS
    assert ids(open_corpus(f"{zeshel}:test:harbour")) == ["H1", "H3"]


def test_what_is_not_told(medmentions, zeshel, tmp_path):
    with pytest.raises(PelError, match=r"which split\? write .*st21pv:train, .*:dev or :test"):
        open_corpus(medmentions)
    with pytest.raises(PelError, match=r"which split\?"):
        open_corpus(f"{medmentions}:dev:more")
    with pytest.raises(PelError, match=r"which split\? write .*zeshel:val, or .*zeshel:val:WORLD"):
        open_corpus(zeshel)
    with pytest.raises(PelError, match="neither MedMentions .* nor ZESHEL .*; give one of them"):
        open_corpus(f"{tmp_path}:dev")
    with pytest.raises(PelError, match="absent:dev: cannot be read"):
        ids(open_corpus(tmp_path / "absent:dev"))
