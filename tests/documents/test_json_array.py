"""The items of an array in a JSON object, against what json reads of the whole text."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.documents import json_array
from spacy_pel.documents.json_array import array_items
from spacy_pel.errors import PelError

from .examples import QUICK

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=20,
)


class Slow(io.BytesIO):
    """A file that gives as few bytes at a time as it may."""

    step = 1

    def read(self, size: int = -1) -> bytes:
        return super().read(min(size, self.step))


def items(text: str, step: int = 10**6) -> list:
    file = Slow(text.encode("utf8", "surrogatepass"))
    file.step = step
    return list(array_items(file, "documents"))


@QUICK
@given(
    st.lists(VALUES, max_size=5),
    st.dictionaries(st.text(), VALUES, max_size=3),
    st.sampled_from([None, 1]),
    st.booleans(),
    st.sampled_from([1, 2, 7, 10**6]),
)
def test_as_json(documents, others, indent, is_ascii, step) -> None:
    others.pop("documents", None)
    whole = {**others, "documents": documents, "key": 12}
    text = json.dumps(whole, indent=indent, ensure_ascii=is_ascii)
    assert items("\ufeff" + text + "\n", step) == json.loads(text)["documents"]


@QUICK
@given(st.text('{}[]",:\\ \n1e-tnu'), st.sampled_from([1, 10**6]))
def test_what_json_refuses_is_refused(text: str, step: int) -> None:
    text = '{"documents": [' + text
    try:
        read = items(text, step)
    except (ValueError, KeyError):
        return
    assert read == json.loads(text)["documents"]


@pytest.mark.parametrize("step", [1, 10**6])
def test_errors_name_the_line(step: int) -> None:
    with pytest.raises(ValueError, match="Expecting value in line 3"):
        items('{"documents": [1,\n2,\n  x' + " " * 30 + "]}", step)
    with pytest.raises(ValueError, match="more than one value in line 2"):
        items('{"documents": []}\n{}', step)
    with pytest.raises(ValueError, match="expecting ',' in line 1"):
        items('{"documents": [1 2]}', step)
    with pytest.raises(KeyError):
        items('{"a": {"documents": [1]}}', step)


def test_an_error_ends_the_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_array, "_BLOCK", 8)
    file = io.BytesIO(b'{"documents": [tru ' + b"1, " * 1000)
    with pytest.raises(ValueError, match="Expecting value"):
        list(array_items(file, "documents"))
    assert file.tell() < 100


def test_a_long_item_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_array, "_BLOCK", 8)
    monkeypatch.setattr(json_array, "LONGEST", 100)
    file = io.BytesIO(b'{"documents": [1, "' + b"x" * 1000 + b'"]}')
    read = array_items(file, "documents")
    assert next(read) == 1
    with pytest.raises(PelError, match="more than 100 characters, and the rest .*; split it"):
        next(read)
    assert file.tell() < 400
