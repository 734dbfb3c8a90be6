"""The attributes of linked spans."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import spacy
from spacy.tokens import Doc, Span

from spacy_pel.pipeline.extensions import install_extensions

NAMES = (
    *("kb_id", "kb_score", "kb_probability", "kb_candidate_columns", "kb_candidates", "kb_ents"),
    *("kb_types", "kb_xrefs"),
)
CANDIDATES = [
    {"id": "C1", "name": "liver", "score": 0.5},
    {"id": "C2", "name": "cyst", "score": 0.25},
]


@pytest.fixture(autouse=True)
def attributes() -> Iterator[None]:
    """Take the attributes away for a test, and put back those that were there."""
    before = {n: Span.remove_extension(n) for n in NAMES if Span.has_extension(n)}
    yield
    for name in NAMES:
        if Span.has_extension(name):
            Span.remove_extension(name)
    for name, (default, method, getter, setter) in before.items():
        if getter:
            Span.set_extension(name, getter=getter, setter=setter)
        else:
            Span.set_extension(name, default=default, method=method)


@pytest.fixture
def doc() -> Doc:
    return spacy.blank("en").make_doc("liver cyst")


def test_a_span_that_is_not_linked(doc: Doc) -> None:
    install_extensions()
    values = doc[0:1]._
    assert (values.kb_id, values.kb_score, values.kb_probability) == (None, None, None)
    assert (values.kb_candidates, values.kb_ents, values.kb_types) == ([], [], [])
    assert values.kb_xrefs is None


def test_spans_do_not_share_their_lists(doc: Doc) -> None:
    install_extensions()
    doc[0:1]._.kb_ents.append(("C1", 0.5))
    assert doc[1:2]._.kb_ents == []
    doc[0:1]._.kb_candidates = CANDIDATES
    assert doc[1:2]._.kb_candidates == []


def test_candidates_are_kept_in_columns(doc: Doc) -> None:
    install_extensions()
    doc[0:1]._.kb_candidates = CANDIDATES
    kept = {"id": ["C1", "C2"], "name": ["liver", "cyst"], "score": [0.5, 0.25]}
    assert doc[0:1]._.kb_candidate_columns == kept
    again = Doc(doc.vocab).from_bytes(doc.to_bytes())
    assert again[0:1]._.kb_candidates == CANDIDATES
    doc[0:1]._.kb_candidates = []
    assert doc[0:1]._.kb_candidates == []


def test_the_component_installs_them() -> None:
    assert not any(map(Span.has_extension, NAMES))
    spacy.blank("en").add_pipe("proxy_linker")
    assert all(map(Span.has_extension, NAMES))


def test_attributes_of_others_are_left_alone(doc: Doc) -> None:
    Span.set_extension("kb_ents", default=["theirs"])
    Span.set_extension("kb_id", default="theirs")
    install_extensions()
    install_extensions()
    assert doc[0:1]._.kb_ents == ["theirs"] and doc[0:1]._.kb_id == "theirs"
    assert doc[0:1]._.kb_score is None
