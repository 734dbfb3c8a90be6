"""The names of a KB as examples: each alias once, in an order of the seed's own."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
import spacy
from spacy.training import Example

from spacy_pel.corpora import name_corpus
from spacy_pel.corpora.name_corpus import make_name_corpus
from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.kb.records.names import normalised

from ..conftest import ENTITIES

ALIASES = Counter((name, e.concept_id) for e in ENTITIES for name in e.names[1:])


def pairs(corpus) -> list[tuple[str, str]]:
    return [name_and_id(example) for example in corpus(spacy.blank("en"))]


def name_and_id(example: Example) -> tuple[str, str]:
    (span,), (predicted,) = example.reference.ents, example.predicted.ents
    assert span.text == example.reference.text
    assert (predicted.text, predicted.kb_id_) == (span.text, "")
    return span.text, span.kb_id_


def test_each_alias_comes_once_with_its_entity(tiny_kb: Path) -> None:
    assert Counter(pairs(make_name_corpus(str(tiny_kb)))) == ALIASES


def test_the_order_is_that_of_the_seed(tiny_kb: Path) -> None:
    corpus = make_name_corpus(str(tiny_kb), seed=1)
    assert pairs(corpus) == pairs(corpus) != pairs(make_name_corpus(str(tiny_kb), seed=2))


def test_a_limit_is_of_names(tiny_kb: Path) -> None:
    corpus = make_name_corpus(str(tiny_kb), limit=3)
    assert pairs(corpus) == pairs(make_name_corpus(str(tiny_kb)))[:3]
    with pytest.raises(PelError, match="limit"):
        make_name_corpus(str(tiny_kb), limit=-1)


def test_no_more_than_a_chunk_of_entities_is_held(tmp_path: Path, monkeypatch) -> None:
    entities = [Entity(f"C{i:03}", f"name {i}", (f"alias {i}",)) for i in range(40)]
    kb = build_kb(entities, tmp_path / "kb").path
    monkeypatch.setattr(name_corpus, "CHUNK", 5)
    asked: list[int] = []
    entities_of = KnowledgeBase.entities
    monkeypatch.setattr(
        *(KnowledgeBase, "entities"),
        lambda self, numbers: asked.append(len(numbers)) or entities_of(self, numbers),
    )
    corpus = make_name_corpus(str(kb))
    assert len(list(islice(corpus(spacy.blank("en")), 12))) == 12
    assert asked == [5, 5, 5]
    assert len(set(pairs(corpus))) == 40


def test_a_name_is_in_one_part_whatever_its_case(tmp_path: Path) -> None:
    entities = [
        Entity(f"E{n}", f"entity {n}", (f"Alias no. {n}", f"alias NO {n}")) for n in range(400)
    ]
    kb = str(build_kb(entities, tmp_path / "kb").path)
    parts = {part: pairs(make_name_corpus(kb, part=part)) for part in ("all", "train", "dev")}
    assert Counter(parts["train"]) + Counter(parts["dev"]) == Counter(parts["all"])
    assert 0.02 < len(parts["dev"]) / len(parts["all"]) < 0.09
    train, dev = ({normalised(name) for name, _ in parts[part]} for part in ("train", "dev"))
    assert not train & dev
    with pytest.raises(PelError, match="no part"):
        make_name_corpus(kb, part="test")
