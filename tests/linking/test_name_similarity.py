from math import log
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.linking.name_similarity import word_similarity

NAMES = [["renal cell cancer", "kidney tumor of the cells"], ["lung cancers"], ["-"], ["stroke"]]
WORDS = "cancer cancers lung kidney kidneys cell stroke of the abc foo_bar \u00e9t\u00e9".split()
# In how many entities the words of a stem are.
OWNERS = {"cancer": 2, "lung": 1, "kidney": 1, "cell": 1, "stroke": 1, "renal": 1, "tumor": 1}


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    folder: Path = tmp_path_factory.mktemp("similarity") / "kb"
    entities = [Entity(str(n), first, tuple(rest)) for n, (first, *rest) in enumerate(NAMES)]
    return build_kb(entities, folder)


def weights_of(text: str) -> dict[str, float]:
    words = {w.removesuffix("s") for w in text.split() if w not in ("of", "the", "-")}
    return {w: log(5 / (1 + OWNERS.get(w, 0))) for w in words}


@given(
    surfaces=st.lists(st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join), max_size=4),
    data=st.data(),
)
def test_words_of_candidates_against_plain_python(kb, surfaces: list[str], data) -> None:
    row = st.lists(st.integers(-1, 3), min_size=3, max_size=3)
    numbers = np.array([data.draw(row) for _ in surfaces], np.int64).reshape(len(surfaces), 3)
    distinct = np.unique(numbers[numbers >= 0])
    names = {number: NAMES[number] for number in distinct.tolist()}
    found = word_similarity(kb, surfaces, numbers, names)
    for place, number in np.ndenumerate(numbers):
        own, expected = weights_of(surfaces[place[0]]), [0.0, 0.0, 0.0, 0.0]
        mine, shared = sum(own.values()), set()
        for name in NAMES[number] if number >= 0 else ():
            its = weights_of(name)
            said, whole = sum(own[w] for w in own.keys() & its), sum(its.values())
            shares = said / (mine or 1), 2 * said / (mine + whole or 1), said / (whole or 1)
            expected[:3] = map(max, expected, shares)
            shared |= own.keys() & its
        expected[3] = sum(own[w] for w in shared) / (mine or 1)
        assert [values[place] for values in found] == pytest.approx(expected, abs=1e-6)
    for line, surface in enumerate(surfaces):  # the same bits alone
        own = {n: names[n] for n in names if n in numbers[line]}
        alone = word_similarity(kb, [surface], numbers[[line]], own)
        assert np.array_equal(np.array(alone)[:, 0], np.array(found)[:, line])
