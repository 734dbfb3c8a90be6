"""``kb_ents``, as scispaCy's settings shape it, against scispaCy's loop in plain Python."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import spacy
from hypothesis import given, settings
from hypothesis import strategies as st
from spacy.language import Language

from spacy_pel.errors import PelError
from spacy_pel.kb import KnowledgeBase
from spacy_pel.linking.link import Links
from spacy_pel.pipeline.kb_ents import offered, warn_of_threshold
from spacy_pel.pipeline.settings import AnswerSettings

from .conftest import Trained, mentions_of

GRID = st.sampled_from([-0.5, 0.0, 0.25, 0.5, 0.75, 1.0])


@pytest.fixture(scope="module")
def kb(tiny_kb: Path) -> KnowledgeBase:
    return KnowledgeBase.open(tiny_kb)


@st.composite
def some_links(draw) -> Links:
    """Links to the entities of ``tiny_kb``, of which two have definitions."""
    numbers, scores = np.full((3, 7), -1), np.full((3, 7), -np.inf, dtype=np.float32)
    for i in range(3):
        found = draw(st.permutations(range(7)))[: draw(st.integers(0, 7))]
        numbers[i, : len(found)] = found
        scores[i, : len(found)] = sorted((draw(GRID) for _ in found), reverse=True)
    nil = np.array([draw(st.booleans()) for _ in range(3)])
    return Links(numbers, scores, nil, None)


@settings(deadline=None)
@given(some_links(), GRID | st.none(), GRID, st.booleans(), st.integers(0, 8))
def test_they_are_those_of_scispacys_loop(
    kb, links, threshold, no_definition_threshold, filter_for_definitions, most
) -> None:
    asked = AnswerSettings(
        threshold, no_definition_threshold, filter_for_definitions, most, True, None, False
    )
    chosen = offered(links, kb, asked)
    for numbers, scores, nil, row in zip(links.numbers, links.scores, links.nil, chosen):
        predicted = []
        for place, (number, score) in enumerate(zip(numbers, scores)):
            if number < 0 or nil:
                continue
            if (
                filter_for_definitions
                and kb.entities([number])[0].definition is None
                and score < no_definition_threshold
            ):
                continue
            if threshold is None or score > threshold:
                predicted.append(place)
        assert np.flatnonzero(row).tolist() == predicted[:most]


@pytest.fixture
def nlp(trained: Trained) -> Language:
    return spacy.load(trained.path)


def test_the_component_writes_them(nlp: Language) -> None:
    linker = nlp.get_pipe("proxy_linker")
    (free,) = nlp(mentions_of(nlp)[0]).ents
    pairs = [(c["id"], c["score"]) for c in free._.kb_candidates]
    assert free._.kb_ents == pairs and all(type(score) is float for _, score in pairs)
    linker.threshold = pairs[3][1]
    linker.max_entities_per_mention = 2
    (shaped,) = nlp(mentions_of(nlp)[0]).ents
    assert shaped._.kb_ents == pairs[:2]
    assert (shaped._.kb_id, shaped._.kb_candidates) == (free._.kb_id, free._.kb_candidates)
    linker.max_entities_per_mention = 10
    assert nlp(mentions_of(nlp)[0]).ents[0]._.kb_ents == pairs[:3]
    linker.filter_for_definitions, linker.no_definition_threshold = True, 2.0
    defined = [pair for pair in pairs[:3] if linker.kb[pair[0]].definition is not None]
    assert nlp(mentions_of(nlp)[0]).ents[0]._.kb_ents == defined


def test_they_are_settings_of_the_pipeline(nlp: Language, tmp_path: Path) -> None:
    config = {
        "threshold": 0.5,
        "no_definition_threshold": 0.7,
        "filter_for_definitions": True,
        "max_entities_per_mention": 3,
    }
    made = spacy.blank("en")
    made.add_pipe("proxy_linker", config={**config, "path": str(nlp.path)})
    made.to_disk(tmp_path / "pipeline")
    linker = spacy.load(tmp_path / "pipeline").get_pipe("proxy_linker")
    assert {name: getattr(linker, name) for name in config} == config


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"linker_name": "umls"}, "no linker_name='umls'; .* pel kb build SOURCE KB"),
        ({"k": 30}, 'no k=30; .* "candidates" is the number'),
    ],
)
def test_scispacys_settings_without_meaning_name_the_remedy(config, message) -> None:
    with pytest.raises(PelError, match=message):
        spacy.blank("en").add_pipe("proxy_linker", config=config)


def test_a_threshold_that_empties_most_mentions_warns() -> None:
    numbers = np.array([[0, 1], [1, 2], [2, -1], [-1, -1], [3, 4]])
    scores = np.array([[0.9, 0.1], [0.3, 0.6], [0.5, -np.inf], [-np.inf, -np.inf], [0.1, 0.0]])
    links = Links(numbers, scores, np.array([False] * 4 + [True]), None)

    def warned(threshold: float | None) -> bool:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warn_of_threshold(links, AnswerSettings(threshold, 0.95, False, 5, True, None, False))
        assert all("pel calibrate" in str(warning.message) for warning in caught)
        return bool(caught)

    # The best scores of the three that count are 0.9, 0.6 and 0.5.
    thresholds = [None, 0.4, 0.5, 0.6, 0.85, 1.0]
    assert [warned(t) for t in thresholds] == [False, False, False, True, True, True]
    assert not warn_of_threshold(
        Links(np.empty((0, 1), int), np.empty((0, 1)), np.empty(0, bool), None),
        AnswerSettings(0.85, 0.95, False, 5, True, None, False),
    )
