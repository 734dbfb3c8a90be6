from collections import Counter
from pathlib import Path

import pytest
import spacy

from spacy_pel.corpora.name_corpus import make_name_corpus
from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, build_kb
from spacy_pel.kb.records.names import normalised

from ..conftest import ENTITIES

ALIASES = Counter((name, e.concept_id) for e in ENTITIES for name in e.names[1:])


def pairs(corpus) -> list[tuple[str, str]]:
    """The names, each as a whole text, and their ids."""
    found = []
    for example in corpus(spacy.blank("en")):
        (span,), (predicted,) = example.reference.ents, example.predicted.ents
        assert (predicted.text, predicted.kb_id_) == (span.text, "")
        assert span.text == example.reference.text
        found.append((span.text, span.kb_id_))
    return found


def test_each_alias_comes_once_with_its_entity_in_the_order_of_the_seed(tiny_kb: Path) -> None:
    corpus = make_name_corpus(str(tiny_kb), seed=1)
    assert Counter(pairs(corpus)) == ALIASES
    assert pairs(corpus) == pairs(corpus) != pairs(make_name_corpus(str(tiny_kb), seed=2))
    assert pairs(make_name_corpus(str(tiny_kb), limit=3, seed=1)) == pairs(corpus)[:3]


def test_a_name_is_in_one_part_whatever_its_case(tmp_path: Path) -> None:
    names = ((f"entity {n}", (f"Alias no. {n}", f"alias NO {n}")) for n in range(400))
    entities = [Entity(f"E{n}", *both) for n, both in enumerate(names)]
    kb = str(build_kb(entities, tmp_path / "kb").path)
    parts = {part: pairs(make_name_corpus(kb, part=part)) for part in ("all", "train", "dev")}
    assert Counter(parts["train"]) + Counter(parts["dev"]) == Counter(parts["all"])
    assert 0.02 < len(parts["dev"]) / len(parts["all"]) < 0.09
    train, dev = ({normalised(name) for name, _ in parts[part]} for part in ("train", "dev"))
    assert not train & dev
    with pytest.raises(PelError, match="unknown part"):
        make_name_corpus(kb, part="test")
