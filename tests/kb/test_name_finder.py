"""Names of a KB, found in text: against a naive search."""

import re
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from Stemmer import Stemmer

from spacy_pel.kb import Entity, KnowledgeBase, build_kb, names_by_words
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


def finder_of(entities: list[Entity], /, any_order: bool = False, **choice) -> NameFinder:
    with patch.object(names_by_words, "_MIN_ENTITIES", 1000):  # no words mean the same
        return NameFinder(name_table(entities, np.arange(len(entities)), any_order), **choice)


def is_acronym(name: str) -> bool:
    n_letters = len([c for c in name if c.isalpha()])
    is_word = not re.search(r"\s", name)
    return len(name) > 1 and n_letters <= 5 and name == name.upper() != name.lower() and is_word


def in_any_order(text: str) -> tuple | None:
    """The words of a phrase as a key; None if it has one word, or does not begin and end with one."""
    pieces = re.findall(r"\w+|[^\w\s]", text)
    is_word = [p[0].isalnum() and p.casefold() not in {"a", "of"} for p in pieces]
    is_phrase = all(p[0].isalnum() or p == "-" for p in pieces) and len(pieces) <= 12
    if sum(is_word) < 2 or not (is_phrase and is_word[0] and is_word[-1]):
        return None
    stemmer = Stemmer("english")
    stems = [stemmer.stemWord(p.casefold()) for p, w in zip(pieces, is_word) if w]
    return str.split, tuple(sorted(stems))


def naive(entities: list[Entity], text: str, min_length: int, any_order: bool) -> list[tuple]:
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
            edges = r"^((a|of)\b|[^\w\s]|\s)+|(\b(a|of)|[^\w\s]|\s)+$"
            words = re.sub(edges, "", re.sub("[,(]", " ", name), flags=re.I)
            if any_order and not is_acronym(name) and (key := in_any_order(words)):
                owners.setdefault(key, set()).add(number)
                if len(name) >= min_length:
                    wanted.add(key)
    places = [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]
    found, at = [], 0
    while at < len(places):
        for last in range(len(places) - 1, at - 1, -1):
            start, end = places[at][0], places[last][1]
            keys = [(fold, pieces(text[start:end], fold)) for fold in (str, str.casefold)]
            behind_hyphen = at and text[places[at - 1][0]] == "-"
            keys += [in_any_order(text[start:end])] * (any_order and not behind_hyphen)
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
    any_order=st.booleans(),
)
@example(names=[["lung"]], texts=["", "Lung", " a  lung lung "], min_length=3, any_order=False)
@example(names=[], texts=["lung"], min_length=3, any_order=True)
@example(
    names=[["Lung of SS"]], texts=["ss-lungs, lung", "x-ss lungs"], min_length=3, any_order=True
)
def test_it_finds_what_a_naive_search_finds(names, texts, min_length, any_order) -> None:
    entities = [Entity(str(n), first, tuple(rest)) for n, (first, *rest) in enumerate(names)]
    finder = finder_of(entities, any_order=any_order, min_length=min_length)
    expected = [naive(entities, text, min_length, any_order) for text in texts]
    found = [[(a, b, owners.tolist()) for a, b, owners in finder.find(text)] for text in texts]
    assert found == expected
    pieces = Pieces(texts)
    first, last, _ = finder.find_in(pieces)
    together = zip(pieces.texts[first], pieces.starts[first], pieces.ends[last])
    assert list(together) == [(n, a, b) for n, own in enumerate(expected) for a, b, _ in own]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Lung Cancer and lung  cancer cells", ["Lung Cancer", "lung  cancer"]),
        ("all of ALL, but lunger", ["ALL"]),
        ("small-cell lung cancer, lung", ["small-cell lung cancer", "lung"]),
        ("in role 12 but of Of OF", ["OF"]),
    ],
)
def test_what_is_a_name(text: str, expected: list[str]) -> None:
    names = ["lung", "lung cancer", "Small-cell lung cancer", "ALL", "in", "Role", "12", "OF"]
    finder = finder_of([Entity("1", "x", tuple(names))], stop_words={"rOle", "of"})
    assert [text[start:end] for start, end, _ in finder.find(text)] == expected


def test_which_names_are_preferred() -> None:
    entities = [Entity("0", "common cold"), Entity("1", "cold", ("Common Cold",))]
    finder = finder_of(entities)
    assert [o.tolist() for _, _, o in finder.find("a common cold, a cold")] == [[0, 1], [1]]
    (name,) = finder.find_in(Pieces(["common cold"])).names
    assert finder.preferred[finder.bounds[name] : finder.bounds[name + 1]].tolist() == [True, False]


def test_the_file_is_made_once_and_swept_with_the_next_change(tmp_path: Path) -> None:
    kb = build_kb([Entity("1", "aspirin")], tmp_path / "kb")
    read = []
    for _ in range(2):
        finder = kb.name_finder(lambda entities: [read.append(e) or e for e in entities])
        assert len(read) == len(finder.find("some aspirin")) == 1
    (file,) = kb.path.glob(".names-*")
    file.write_bytes(file.read_bytes()[:-1])  # a damaged one is made anew
    assert kb.name_finder().find("aspirin") and kb.name_finder().find("aspirin")
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


@pytest.mark.parametrize(
    "name, text",
    [
        ("Preauricular pits", "a Pre-auricular pit"),
        ("Non-toxic goiter", "nontoxic goitre"),
        ("Basal cell nevus", "basal cell naevi"),
        ("Arteriovenous fistula", "arteriovenous fistulae"),
        ("Metastasis of the lung", "lung metastases"),
    ],
)
def test_words_have_one_form(name: str, text: str) -> None:
    assert finder_of([Entity("1", name)], any_order=True).find(text)
    assert not finder_of([Entity("1", name)], any_order=True).find(text.rsplit(maxsplit=1)[0])


ORGANS = "agenesis cyst stone pain failure".split()


@pytest.mark.parametrize("n_seen, is_found, at_once", [(2, False, 9), (3, True, 9), (3, True, 1)])
def test_words_mean_the_same_if_names_of_enough_entities_use_them_so(
    tmp_path: Path, n_seen: int, is_found: bool, at_once: int, monkeypatch
) -> None:
    monkeypatch.setattr(names_by_words, "_BATCH_SIZE", at_once)
    seen = [Entity(o, f"{o} of the kidney", (f"Renal {o}", o)) for o in ORGANS[:n_seen]]
    build_kb([*seen, Entity("X", "Kidney tumour", ("KT",))], tmp_path / "kb", in_any_order=True)
    kb = KnowledgeBase.open(tmp_path / "kb")
    for _ in range(2):  # made, and then mapped
        finder = kb.name_finder()
        text = "a renal tumor, renal"
        found = [(text[a:b], kb.entities(own)[0].concept_id) for a, b, own in finder.find(text)]
        assert found == [("renal tumor", "X")] * is_found
        assert [e.concept_id for e in kb.named("renal tumor")] == ["X"] * is_found
        assert kb.named("tumor") == []
    assert len(list((tmp_path / "kb").glob(".names-*"))) == 1


def test_its_own_words_come_before_those_that_mean_the_same(tmp_path: Path) -> None:
    seen = [Entity(o, f"{o} of the kidney", (f"Renal {o}",)) for o in ORGANS]
    pair = [Entity("X", "tumor of kidney"), Entity("Y", "renal tumor")]
    kb = build_kb([*seen, *pair], tmp_path / "kb", in_any_order=True)
    assert [e.concept_id for e in kb.named("kidney tumor")] == ["X"]
    assert [e.concept_id for e in kb.named("the tumor, renal")] == ["Y"]


def test_names_of_some_entities(tmp_path: Path) -> None:
    pains = [Entity("A", "head pain"), Entity("B", "foot pain")]
    kb = build_kb(pains, tmp_path / "kb", in_any_order=True)
    text = "pain of a head; pain in the foot; Head Pain"
    for entities, expected in ((None, [0, 1, 0]), (kb.numbers()[:1], [0, 0])):
        finder = kb.name_finder(entities=entities)
        assert [own.tolist() for *_, own in finder.find(text)] == [[n] for n in expected]
    assert kb.name_finder(min_length=10).find(text) == []
