import re
from pathlib import Path

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.kb.change import change_entities
from spacy_pel.kb.name_finder import NameFinder, name_table
from spacy_pel.kb.pieces import Pieces

WORDS = st.sampled_from(
    ["lung", "Lung", "LUNG", "MS", "ms", "-", "a", "Éa", "ß", "SS", "IL", "2", "(", "İx", "mRNA"]
    + ["of", "lungs", ","]
)
TEXTS = st.lists(st.tuples(WORDS, st.sampled_from([" ", "", "\n "])), max_size=10).map(
    lambda pairs: "".join(word + blank for word, blank in pairs)
)


def finder_of(entities: list[Entity], /, **choice) -> NameFinder:
    return NameFinder(name_table(entities, np.arange(len(entities))), **choice)


def is_acronym(name: str) -> bool:
    n_letters = len([c for c in name if c.isalpha()])
    is_word = not re.search(r"\s", name)
    return len(name) > 1 and n_letters <= 5 and name == name.upper() != name.lower() and is_word


def naive(entities: list[Entity], text: str, min_length: int) -> list[tuple]:
    """What is found, as (start, end, owners), by trying all runs of pieces as names."""

    def pieces(text: str, fold) -> tuple[str, ...]:
        return tuple(fold(piece) for piece in re.findall(r"\w+|[^\w\s]", text))

    owners: dict[tuple, set[int]] = {}
    wanted = set()
    for number, entity in enumerate(entities):
        for name in filter(lambda name: any(c.isalpha() for c in name), entity.names):
            fold = str if is_acronym(name) else str.casefold
            owners.setdefault((fold, pieces(name, fold)), set()).add(number)
            if is_acronym(name) or len(name) >= min_length:
                wanted.add((fold, pieces(name, fold)))
    places = [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]
    found, at = [], 0
    while at < len(places):
        for last in range(len(places) - 1, at - 1, -1):
            start, end = places[at][0], places[last][1]
            keys = [(fold, pieces(text[start:end], fold)) for fold in (str, str.casefold)]
            if names := [key for key in keys if key in wanted]:
                found.append((start, end, sorted(owners[names[0]])))
                at = last
                break
        at += 1
    return found


@settings(max_examples=300, deadline=None)
@given(
    names=st.lists(st.lists(TEXTS.map(str.strip).filter(bool), min_size=1, max_size=3), max_size=6),
    texts=st.lists(TEXTS, min_size=1, max_size=4),
    min_length=st.integers(1, 4),
)
@example(names=[["lung"]], texts=["", "Lung", " a  lung lung "], min_length=3)
@example(names=[], texts=["lung"], min_length=3)
def test_it_finds_what_a_naive_search_finds(names, texts, min_length) -> None:
    entities = [Entity(str(n), first, tuple(rest)) for n, (first, *rest) in enumerate(names)]
    finder = finder_of(entities, min_length=min_length)
    expected = [naive(entities, text, min_length) for text in texts]
    found = [[(a, b, owners.tolist()) for a, b, owners in finder.find(text)] for text in texts]
    assert found == expected
    pieces = Pieces(texts)
    first, last, _ = finder.find_in(pieces)
    together = zip(pieces.texts[first], pieces.starts[first], pieces.ends[last])
    assert list(together) == [(n, a, b) for n, own in enumerate(expected) for a, b, _ in own]


def test_what_is_a_name() -> None:
    names = ["lung", "lung cancer", "Small-cell lung cancer", "ALL", "in", "Role", "12", "OF"]
    finder = finder_of([Entity("1", "x", tuple(names))], stop_words={"rOle", "of"})
    text = (
        "Lung Cancer and lung  cancer cells, all of ALL, but lunger; small-cell lung cancer, lung"
    )
    expected = ["Lung Cancer", "lung  cancer", "ALL", "small-cell lung cancer", "lung", "OF"]
    text += "; in role 12 but of Of OF"
    assert [text[start:end] for start, end, _ in finder.find(text)] == expected


def test_which_names_are_preferred() -> None:
    entities = [Entity("0", "common cold"), Entity("1", "cold", ("Common Cold",))]
    finder = finder_of(entities)
    assert [o.tolist() for _, _, o in finder.find("a common cold, a cold")] == [[0, 1], [1]]
    owners, counts = finder.owners_of_all(finder.find_in(Pieces(["Cold, common cold"])).names)
    assert (owners.tolist(), counts.tolist()) == ([1, 0, 1], [1, 2])
    (name,) = finder.find_in(Pieces(["common cold"])).names
    assert finder.preferred[finder.bounds[name] : finder.bounds[name + 1]].tolist() == [True, False]


def test_the_file_is_made_once_and_swept_with_the_next_change(tmp_path: Path) -> None:
    kb = build_kb([Entity("1", "aspirin")], tmp_path / "kb")
    read = []
    for _ in range(2):
        finder = kb.name_finder(lambda entities: [read.append(e) or e for e in entities])
        assert len(read) == len(finder.find("some aspirin")) == 1
    (file,) = kb.path.glob(".names-*")
    change_entities(kb.path, "add", [Entity("2", "long COVID")])
    assert not file.exists()
    changed = KnowledgeBase.open(kb.path).name_finder()
    assert [o.tolist() for *_, o in changed.find("Long covid")] == [[1]]


def test_a_folder_that_cannot_be_written_to(bare_kb: KnowledgeBase, monkeypatch) -> None:
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("spacy_pel.kb.knowledge_base.store_names", full)
    assert bare_kb.name_finder().find(bare_kb.entities([0])[0].canonical_name)
    assert not list(bare_kb.path.glob(".names-*"))


def test_british_spelling_is_found_as_a_name_and_looked_up(tmp_path: Path) -> None:
    names = ["Hemoptysis", "Edema of the larynx", "Hem"]
    entities = [Entity(f"C{n}", name) for n, name in enumerate(names, 1)]
    said = "Haemoptysis, oedema of the larynx; haem"
    found = [said[start:end] for start, end, _ in finder_of(entities).find(said)]
    assert found == ["Haemoptysis", "oedema of the larynx", "haem"]
    with build_kb([*entities, Entity("C4", "haem")], tmp_path) as kb:
        assert [e.concept_id for e in kb.named("HAEMOPTYSIS")] == ["C1"]
        assert [e.concept_id for e in kb.named("haem")] == ["C4"]  # as written, if it is there
        assert "Haemoptysis" not in kb.alias_to_cuis


def test_names_of_some_entities(tmp_path: Path) -> None:
    pains = [Entity("A", "head pain"), Entity("B", "foot pain")]
    kb = build_kb(pains, tmp_path / "kb", word_forms=True)
    text = "pain of a head; pains of the foot; Head Pain"
    for entities, expected in ((None, [1, 0]), (kb.numbers()[:1], [0])):
        finder = kb.name_finder(entities=entities)
        assert [own.tolist() for *_, own in finder.find(text)] == [[n] for n in expected]
    assert kb.name_finder(min_length=10).find(text) == []
