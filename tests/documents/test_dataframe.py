"""Linked documents as a table of pandas."""

from __future__ import annotations

import builtins
import json
from pathlib import Path

import pytest

from spacy_pel.documents.dataframe import to_dataframe
from spacy_pel.errors import PelError

from .examples import KEY, linked, written

DOCS = [linked("MS, RA, x", (0, 2), (4, 6), (8, 9), codes={"ICD10CM": ["G35"]}), linked("nothing")]


def test_a_mention_a_row_of_docs_and_of_records(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    path = written(DOCS, tmp_path / "a.jsonl", "jsonl")
    records = list(map(json.loads, open(path, encoding="utf8")))
    table = to_dataframe(DOCS, KEY)
    pandas.testing.assert_frame_equal(table, to_dataframe(records))
    assert table["document"].tolist() == ["1", "1", "1"]
    assert table["text"].tolist() == ["MS", "RA", "x"]
    assert table["id"].tolist() == ["E0", "E1", "NIL"]
    assert table["score"].mean() == 0.5
    assert table.explode("ICD10CM")["ICD10CM"].dropna().tolist() == ["G35", "G35"]


def test_no_mentions_are_a_table_with_columns() -> None:
    pytest.importorskip("pandas")
    table = to_dataframe([DOCS[1]], KEY)
    assert len(table) == 0 and {"document", "id", "types", "candidates"} <= set(table.columns)


def test_pandas_is_named_where_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    def without(name: str, *given, real=builtins.__import__):
        if name == "pandas":
            raise ImportError(name)
        return real(name, *given)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(PelError, match="pandas is not installed; run: pip install pandas"):
        to_dataframe(DOCS, KEY)
