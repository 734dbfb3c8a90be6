"""Mentions that a KB learns: found, kept through every change, and forgotten by source."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.kb.verify import verify
from spacy_pel.kb.writing.compaction import compact
from spacy_pel.kb.writing.entity_changes import (
    add_entities,
    merge_entities,
    remove_entities,
    update_entities,
)
from spacy_pel.kb.writing.mention_changes import forget_mentions, set_mention_weight

from ..examples import ENTITIES, contents
from ..learnt import WEIGHT, MentionRows, assert_finds, learn
from ..living import NameRows, embed, living_kb

MENTIONS = [("MS", "C3"), ("MS", "C3"), ("spectra", "C2"), ("gout", "C9"), ("MS", "C1")]


def test_learnt_mentions_are_found(tmp_path: Path) -> None:
    folder = living_kb(tmp_path / "kb", ENTITIES)
    assert learn(folder, "train", MENTIONS) == 5
    set_mention_weight(folder, WEIGHT)
    assert_finds(folder, ENTITIES, {"train": MENTIONS})
    assert verify(folder) == []


def test_a_source_learnt_again_replaces_its_mentions(tmp_path: Path) -> None:
    folder = living_kb(tmp_path / "kb", ENTITIES)
    learn(folder, "a", MENTIONS)
    learn(folder, "b", MENTIONS[:2])
    set_mention_weight(folder, WEIGHT)
    learn(folder, "a", MENTIONS[2:3])
    assert_finds(folder, ENTITIES, {"b": MENTIONS[:2], "a": MENTIONS[2:3]})


def test_the_same_mentions_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = (living_kb(tmp_path / name, ENTITIES) for name in ("one", "two"))
    learn(first, "a", MENTIONS)
    learn(second, "b", MENTIONS[:1])
    learn(second, "a", MENTIONS)
    forget_mentions(second, "b")
    with KnowledgeBase.open(second):
        pass
    assert contents(first) == contents(second)


def test_forgetting_all_leaves_the_kb_as_it_was(tmp_path: Path) -> None:
    folder = living_kb(tmp_path / "kb", ENTITIES)
    before = contents(folder)
    learn(folder, "a", MENTIONS)
    assert forget_mentions(folder, "a") == 5
    after = contents(folder)
    with KnowledgeBase.open(folder) as kb:
        assert kb.manifest.pop("mentions") is None
    assert before.keys() == after.keys()


_IDS = ["C1", "C2", "C3", "C10", "C11"]
_CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("learn"), st.sampled_from("ab"), st.lists(
            st.tuples(st.sampled_from(["MS", "spectra", "été", "new"]), st.sampled_from(_IDS)),
            min_size=1, max_size=5)),
        st.tuples(st.just("forget"), st.sampled_from("ab"), st.none()),
        st.tuples(st.sampled_from(["add", "update", "merge", "remove"]), st.sampled_from(_IDS),
                  st.sampled_from(["MS", "novel", "spectra"])),
        st.tuples(st.sampled_from(["compact", "embed"]), st.none(), st.none()),
    ),
    max_size=6,
)  # fmt: skip


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(changes=_CHANGES)
def test_every_change_keeps_the_mentions(tmp_path_factory, changes) -> None:
    folder = living_kb(tmp_path_factory.mktemp("kb") / "kb", ENTITIES)
    entities = {entity.concept_id: entity for entity in ENTITIES}
    learnt: dict[str, list[tuple[str, str]]] = {}
    for kind, name, value in [("learn", "a", MENTIONS), *changes]:
        if kind == "learn":
            learn(folder, name, value)
            learnt = {s: m for s, m in learnt.items() if s != name} | {name: value}
        elif kind == "forget" and name in learnt:
            assert forget_mentions(folder, name) == len(learnt.pop(name))
        elif kind == "compact":
            compact(folder).close()
        elif kind == "embed":
            compact(folder).close()
            embed(folder, mentions=_all_new).close()
        elif kind in ("update", "merge") and name in entities:
            changed = {"update": update_entities, "merge": merge_entities}[kind]
            changed(folder, [Entity(name, value)], NameRows())
            with KnowledgeBase.open(folder) as kb:
                entities[name] = kb[name]
        elif kind == "add" and name not in entities:
            entities[name] = Entity(name, value)
            add_entities(folder, [entities[name]], NameRows())
        elif kind == "remove" and name in entities and len(entities) > 1:
            del entities[name]
            remove_entities(folder, [name])
    assert verify(folder) == []
    assert_finds(folder, entities.values(), learnt)


def _all_new(transaction, manifest, vectors):
    from spacy_pel.kb.writing.mention_changes import embedded_mentions

    return embedded_mentions(transaction, manifest, vectors, MentionRows())


def test_mentions_of_a_kb_without_vectors_get_them_later(tmp_path: Path) -> None:
    folder = tmp_path / "kb"
    build_kb(ENTITIES, folder).close()
    learn(folder, "a", MENTIONS)
    assert verify(folder) == []
    embed(folder, mentions=_all_new).close()
    assert verify(folder) == []
    assert_finds(folder, ENTITIES, {"a": MENTIONS})


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    folder = living_kb(tmp_path / "kb", ENTITIES)
    before = contents(folder)
    with pytest.raises(PelError, match="no mention has an entity"):
        learn(folder, "a", [])
    other = MentionRows()
    other.fingerprint = "other"
    from spacy_pel.kb.writing.mention_changes import learn_mentions

    from ..learnt import passages

    with pytest.raises(PelError, match="another encoder"):
        learn_mentions(folder, "a", passages(MENTIONS), other)
    with pytest.raises(PelError, match="mentions need vectors too"):
        learn_mentions(folder, "a", passages(MENTIONS), None)
    with pytest.raises(PelError, match="learnt no mentions from 'a'"):
        forget_mentions(folder, "a")
    assert contents(folder) == before
    learn(folder, "a", MENTIONS)
    with pytest.raises(PelError, match="need new vectors too"):
        embed(folder)
    other.fingerprint, other.mention_fingerprint = "names", "other"
    with pytest.raises(PelError, match="another encoder read the mentions"):
        learn_mentions(folder, "b", passages(MENTIONS), other)
