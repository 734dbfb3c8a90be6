"""Copies of documents with other names: each mention stands where its offsets say."""

from __future__ import annotations

import random
from pathlib import Path

import rename_mentions
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.documents.document import Document, mention_at
from spacy_pel.kb import Entity, build_kb

NAMES = {"Disease": ["plague", "bad cold"], "Chemical": ["tin", "lead oxide"]}
TEXT = "Aspirin for flu: aspirin and Aspirin, or colds."
PLACES = [(0, 7), (12, 15), (17, 24), (29, 36), (41, 46)]
LABELS = ["Chemical", "Disease", "Chemical", "Chemical", "CompositeMention"]


@given(st.randoms(use_true_random=False))
def test_each_mention_is_at_its_offsets(rng: random.Random) -> None:
    mentions = tuple(mention_at(TEXT, *p, label) for p, label in zip(PLACES, LABELS))
    text, found = rename_mentions.renamed(Document(TEXT, "1", mentions), NAMES, rng)
    assert [m.label for m in found] == LABELS
    assert all(text[m.start : m.end] == m.text for m in found)
    assert found[0].text == found[3].text  # what is the same name stays so
    assert found[4].text == "colds"  # a composite has no names
    for mention, before in zip(found, mentions):
        assert mention.text in (before.text, *NAMES.get(before.label, ()))
    gaps = [text[a.end : b.start] for a, b in zip(found, found[1:])]
    assert gaps == [" for ", ": ", " and ", ", or "]


def test_copies_are_a_corpus_with_names_of_the_kb(tmp_path: Path) -> None:
    entities = [
        Entity("D1", "Bad Cold", ("Colds, Bad", "BCX"), ("Disease",)),
        Entity("D2", "Tin", ("tin protein",), ("Chemical or Drug",)),
        Entity("D3", "Kidney", (), ("Anatomy",)),
    ]
    build_kb(entities, tmp_path / "kb", sources=["tiny"])
    (tmp_path / "a.pubtator").write_text("1|t|Flu\n1|a|and ore.\n1\t0\t3\tFlu\tDisease\tD1\n")
    rename_mentions.main(
        tmp_path / "kb", tmp_path / "out" / "b.pubtator", [tmp_path / "a.pubtator"], copies=20
    )
    documents = list(open_corpus(tmp_path / "out" / "b.pubtator").documents())
    names = [document.mentions[0].text for document in documents]
    assert len(documents) == 20 and set(names) == {"Flu", "bad cold", "BCX"}
    assert documents[0].text.startswith(f"{names[0]} and ore.")
