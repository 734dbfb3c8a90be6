import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.kb.name_finder import NameFinder, name_table

# Each form, and the word of which it is one if a name has that word.
FORMS = {"lungs": "lung", "cells": "cell", "cellular": "cell", "retinal": "retina", "ova": "ovum"}
WORDS = st.sampled_from(["lung", "cell", "retina", "ovum", "of", "the", "-", "(", *FORMS])
PHRASES = st.lists(WORDS, max_size=7).map(" ".join)


def finder_of(entities: list[Entity], **choice) -> NameFinder:
    return NameFinder(name_table(entities, np.arange(len(entities)), True), **choice)


def found(names: list[str], text: str) -> list[str]:
    finder = finder_of([Entity(str(n), name) for n, name in enumerate(names)])
    return [text[start:end] for start, end, _ in finder.find(text)]


def naive(names: list[str], text: str) -> list[tuple[int, int]]:
    """The places of names, by comparing all runs of pieces with all wordings of the names."""
    known = {word for name in names for word in re.findall(r"\w+", name)}

    def words(phrase: str) -> list[str]:
        pieces = [p for p in re.findall(r"\w+|[^\w\s]", phrase) if p not in "- the".split()]
        return [FORMS[p] if FORMS.get(p) in known else p for p in pieces]

    def swapped(own: list[str]) -> list[str] | None:
        at = own.index("of") if own.count("of") == 1 else 0
        return [*own[at + 1 :], *own[:at]] if 0 < at < len(own) - 1 else None

    keys, written = [], []
    for name in names:
        own = words(re.sub(r"[(]", " ", name))
        keys += [key for key in (own, swapped(own)) if key]
        written.append(re.findall(r"\w+|[^\w\s]", name.removeprefix("the ")))
    places = [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]
    is_word = [text[start:end] not in "- the".split() for start, end in places]
    result, at = [], 0
    while at < len(places):
        for last in range(len(places) - 1, at - 1, -1):
            phrase = text[places[at][0] : places[last][1]]
            own = words(phrase)
            of = [n for n, word in enumerate(own[:5]) if word == "of" and 2 <= len(own) - n <= 5]
            turned = [[*own[n + 1 :], *own[:n]] for n in of if n]
            in_form = is_word[at] and is_word[last] and any(key in keys for key in [own, *turned])
            if in_form or re.findall(r"\w+|[^\w\s]", phrase) in written:
                result.append((places[at][0], places[last][1]))
                at = last
                break
        at += 1
    return result


@settings(max_examples=300, deadline=None)
@given(names=st.lists(PHRASES.filter(lambda p: re.search(r"\w", p)), max_size=5), text=PHRASES)
@example(names=["lung of cell"], text="the cells lungs - of cell")
@example(names=["cell lung"], text="lungs of the cells of lung")
def test_it_finds_what_a_naive_search_finds(names: list[str], text: str) -> None:
    finder = finder_of([Entity(str(n), name) for n, name in enumerate(names)], min_length=1)
    assert [place[:2] for place in finder.find(text)] == naive(names, text)


PAIRS = """
neuron: neurons; ovary: ovaries; bacterium: bacteria; mitochondrion: mitochondria; nevus: naevi
fistula: fistulae; metastasis: metastases; cortex: cortices; neuroma: neuromata; phalanx: phalanges
neuron: neuronal; gene: genetic; gene: genetically; retina: retinal; hippocampus: hippocampal
epithelium: epithelial; embryo: embryonic; mitosis: mitotic; kidney: renal; anemia: anemic; ESC: ESCs
Barr body: Barr's bodies; alpha cell: α-cells; base_pair: base pairs; five_prime_UTR: 5' UTR
heart wall: walls of the heart; wall of heart: heart wall; T cell (mature): T cells mature
anemia, severe: severe anaemia; type C anomaly: anomalies type C; anomaly type 1: type one anomaly
preauricular pit: pre-auricular pits; non-toxic goiter: nontoxic goitre
"""


@pytest.mark.parametrize("pair", PAIRS.strip().replace("\n", "; ").split("; "))
def test_forms_of_names(pair: str) -> None:
    name, text = pair.split(": ")
    assert found([name], f"some {text}, then") == [text]


def test_what_is_no_form() -> None:
    assert found(["ESC", "fin"], "the escs and a final act") == []
    many = [f"dorsal {part}" for part in "abcdefghijkl"]  # said of many parts
    assert found(["dorsum", *many], "dorsal; dorsum") == ["dorsum"]
    assert found(["cell", "lung"], "cell (lung), lung of cell") == ["cell", "lung", "lung", "cell"]
    assert found(["the heart wall"], "-/- heart wall") == ["heart wall"]
    genetic = ["genetic", "gene panel"]  # the adjective means no noun
    assert found(genetic, "a genetic gene in gene panels") == ["genetic", "gene panels"]


def test_signs_of_a_part_are_its_abnormalities_in_a_kb_of_phenotypes() -> None:
    text = "skeletal involvement"
    assert found(["abnormality of the skeleton"], text) == [text]
    assert found(["skeletal anomaly"], text) == []


def test_verbs_are_forms_in_a_kb_of_processes() -> None:
    text = "oxidized, oxidative, secretes, oxidation"
    names = ["oxidation", "secretion"]
    assert found(names, text) == text.split(", ")
    assert found([*names, *"abcdefg"], text) == ["oxidation"]


def test_which_entity_a_name_means(tmp_path: Path) -> None:
    entities = [
        Entity("1", "lung"),
        Entity("2", "pair of lungs", ("lungs",)),
        Entity("3", "strand", ("coat", "hair coat"), related_names=("coat", "hair coat")),
        Entity("4", "skin zone", ("skin",), exact_names=("skin",)),
        Entity("5", "hide", ("skin", "whole skin"), related_names=("skin", "whole skin")),
    ]
    build_kb(entities, tmp_path / "kb", word_forms=True)
    kb = KnowledgeBase.open(tmp_path / "kb")
    text = "lungs, a coat, hair coats, the skin"
    for _ in range(2):  # made, and then mapped
        places = [(text[a:b], own.tolist()) for a, b, own in kb.name_finder().find(text)]
        assert places == [("lungs", [0]), ("hair coats", [2]), ("skin", [3])]
    assert [e.concept_id for e in kb.named("Lungs")] == ["1"]
    assert [e.concept_id for e in kb.named("coat")] == ["3"]  # asked for by name
    assert kb.named("pair") == []


def test_which_synonyms_of_one_word_are_names() -> None:
    finder = finder_of(
        [
            Entity("0", "fish eye disease", ("fed",)),
            Entity("1", "skin neoplasm", ("neoplasm of the skin", "SKIN", "ulcus")),
        ]
    )
    text = "fed, FED; skin, ulcus"
    assert [text[start:end] for start, end, _ in finder.find(text)] == ["FED", "ulcus"]
