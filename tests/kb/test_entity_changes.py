"""A KB that is changed step by step is the KB that would be built of its contents."""

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.kb.change import change_entities, forget_mentions, remove_entities
from spacy_pel.kb.knowledge_base import verify
from spacy_pel.kb.records.entity import merged
from spacy_pel.kb.records.semantic_types import SemanticType

from ..conftest import contents
from .living import (
    ENTITIES,
    MentionRows,
    NameRows,
    assert_finds,
    assert_holds,
    embed,
    learn,
    living_kb,
)

NEW = [Entity("C4", "Gout", ("Podagra",), ("Disease",)), Entity("B1", "Rest", alt_ids=("OLD1",))]


def test_only_what_differs_is_encoded(folder: Path) -> None:
    encoder = NameRows()
    assert change_entities(folder, "add", iter(NEW), encoder) == (2, 0, 0)
    changed = Entity("C2", "Mass spectroscopy", ("MS",), (), None, ("MSP",))
    assert change_entities(folder, "update", [ENTITIES[0], changed], encoder) == (0, 1, 0)
    more = Entity("C2", "MS analysis", ("Mass spectrometry",), ("Procedure",), "It weighs.")
    for counts in ((0, 1, 0), (0, 0, 0)):
        assert change_entities(folder, "merge", [more, *NEW], encoder) == counts
    assert sorted(encoder.encoded) == ["B1", "C2", "C2", "C4"]
    assert remove_entities(folder, ["C1", " C10", "C1"]) == (0, 0, 2)
    assert KnowledgeBase.open(folder).number("OMIM:1") is None
    assert_holds(folder, [ENTITIES[0], merged(changed, more), *NEW])


def test_sources_types_and_mapped_ids_come_along(folder: Path) -> None:
    disease, gout = SemanticType("Disease", "T1", "B1"), SemanticType("Gout", "T2", "B1.1")
    new, source = Entity("C4", "Gout", types=("Gout",)), "new.obo (2)"
    change_entities(folder, "add", [new], NameRows(), types=[disease, gout], sources=[source])
    more = [Entity("B2", "Two"), Entity("X:7", "Spectrometry")]
    mapping = {"X:7": "C2"}
    change_entities(folder, "merge", more, NameRows(), sources=["x.obo", source], mapping=mapping)
    change_entities(folder, "update", [new], NameRows(), sources=["nothing changed"])
    kb = KnowledgeBase.open(folder)
    assert kb.settings["sources"] == [source, "x.obo"]
    assert {id for id, _ in kb.labels(kb.of_types("T1"))} == {"C1", "C3", "C4"}
    assert kb["X:7"] == kb["C2"] and "Spectrometry" in kb["C2"].aliases and len(kb) == 6


@pytest.mark.parametrize(
    "kind, given, encoder, fault",
    [
        ("add", [*NEW, ENTITIES[0]], NameRows(), "'C3' is in .* already"),
        ("update", NEW, NameRows(), "'B1' is not in .* or use kb change add"),
        ("update", [Entity("D1", "x")], NameRows(), "alternative id of 'C1'"),
        ("remove", ["C1", "C9"], None, "'C9' is not in"),
        ("remove", ["OMIM:1"], None, "an alternative id of 'C1'"),
        ("remove", ["C1", "C2", "C3", "C10"], None, "nothing would be left"),
        ("add", NEW, None, "give the pipeline that made them"),
        ("add", NEW, NameRows("z"), "made by another encoder"),
        ("add", NEW, NameRows(index_unit="entity"), "one vector for each name"),
    ],
)
def test_refused_changes(folder: Path, kind: str, given: list, encoder, fault: str) -> None:
    before = contents(folder)
    with pytest.raises(PelError, match=fault):
        if kind == "remove":
            remove_entities(folder, given)
        else:
            change_entities(folder, kind, given, encoder)
    assert contents(folder) == before


@pytest.mark.skipif(os.name != "posix", reason="needs locks that others respect")
def test_readers_keep_their_view_until_they_refresh(folder: Path) -> None:
    with KnowledgeBase.open(folder) as reader, KnowledgeBase.open(folder) as unread:
        assert not reader.refresh()
        vectors, _ = NameRows().rows(ENTITIES)
        before, found = list(reader), reader.search(vectors, 4)
        change_entities(folder, "update", [Entity("C2", "Else")], NameRows())
        remove_entities(folder, ["C1"])
        embed(folder).close()
        change_entities(folder, "add", NEW, NameRows())
        changed = KnowledgeBase.open(folder)
        changed.close()  # it reads the new file then, unless it is refreshed
        build_kb([Entity("X1", "New")], folder).close()
        assert list(reader) == before and reader["OMIM:1"].concept_id == "C1"
        for of_old in (reader, unread):
            again = of_old.search(vectors, 4)
            assert (again.numbers == found.numbers).all() and (again.scores == found.scores).all()
        with pytest.raises(PelError, match="was rebuilt in the meantime; open the KB again"):
            changed["X1"]
        assert changed.refresh() and reader.refresh() and not reader.refresh()
        assert list(reader) == list(changed) == [Entity("X1", "New")] and not reader.has_vectors
        changed.close()


IDS = [f"C{number}" for number in range(12)]
MENTIONS = st.tuples(st.sampled_from(["ms", "spectra", "été"]), st.sampled_from(IDS))
TEXTS = ["gout", "podagra", "ms", "β-catenin", "日本", "x"]


@st.composite
def some_entities(draw, ids) -> list[Entity]:
    chosen = draw(st.lists(st.sampled_from(sorted(ids)), min_size=1, max_size=6, unique=True))
    aliases = st.lists(st.sampled_from(TEXTS), max_size=2, unique=True).map(tuple)
    definitions, is_merged = st.sampled_from([None, "A text."]), st.booleans()
    fields = st.tuples(st.sampled_from(TEXTS), aliases, st.just(()), definitions)
    return [Entity(id, *draw(fields), (f"{id}-old",) * draw(is_merged)) for id in chosen]


class LivingKB(RuleBasedStateMachine):
    """Any changes in any order, beside a dictionary that is changed alike."""

    def __init__(self) -> None:
        super().__init__()
        self.place = tempfile.TemporaryDirectory()
        first = [Entity("C0", "gout", ("ms",)), Entity("C5", "x"), Entity("C7", "日本")]
        self.folder = living_kb(Path(self.place.name) / "kb", first)
        self.model = {entity.concept_id: entity for entity in first}
        self.learnt: dict[str, list[tuple[str, str]]] = {}

    def teardown(self) -> None:
        self.place.cleanup()

    @precondition(lambda self: len(self.model) < len(IDS))
    @rule(data=st.data())
    def add(self, data) -> None:
        new = data.draw(some_entities(set(IDS) - set(self.model)))
        assert change_entities(self.folder, "add", new, NameRows()) == (len(new), 0, 0)
        self.model.update({entity.concept_id: entity for entity in new})

    @rule(data=st.data())
    def update(self, data) -> None:
        new = data.draw(some_entities(self.model))
        differing = sum(self.model[entity.concept_id] != entity for entity in new)
        assert change_entities(self.folder, "update", new, NameRows()) == (0, differing, 0)
        self.model.update({entity.concept_id: entity for entity in new})

    @rule(new=some_entities(IDS))
    def merge(self, new) -> None:
        change_entities(self.folder, "merge", new, NameRows())
        for entity in new:
            old = self.model.get(entity.concept_id)
            self.model[entity.concept_id] = merged(old, entity) if old else entity

    @precondition(lambda self: len(self.model) > 1)
    @rule(data=st.data())
    def remove(self, data) -> None:
        most = len(self.model) - 1
        ids = st.lists(st.sampled_from(sorted(self.model)), min_size=1, max_size=most, unique=True)
        gone = data.draw(ids)
        assert remove_entities(self.folder, gone) == (0, 0, len(gone))
        for id in gone:
            del self.model[id]

    @rule()
    def embed(self) -> None:
        with embed(self.folder, mentions=MentionRows()) as kb:
            assert list(kb.by_id()) == sorted(self.model.values())

    @rule(source=st.sampled_from("ab"), mentions=st.lists(MENTIONS, min_size=1, max_size=5))
    def learn(self, source: str, mentions: list[tuple[str, str]]) -> None:
        assert learn(self.folder, source, mentions) == len(mentions)
        self.learnt[source] = mentions

    @precondition(lambda self: self.learnt)
    @rule(data=st.data())
    def forget(self, data) -> None:
        source = data.draw(st.sampled_from(sorted(self.learnt)))
        assert forget_mentions(self.folder, source) == len(self.learnt.pop(source))

    @invariant()
    def holds_what_it_should(self) -> None:
        assert_holds(self.folder, self.model.values())
        assert_finds(self.folder, self.model.values(), self.learnt)
        assert verify(self.folder) == []


LivingKB.TestCase.settings = settings(
    max_examples=6, stateful_step_count=8, deadline=None, phases=set(Phase) - {Phase.shrink}
)
test_any_changes = LivingKB.TestCase
