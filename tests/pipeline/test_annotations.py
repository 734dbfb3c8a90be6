"""What linking writes: the attributes of spans, types, codes, and ``kb_ents`` as scispaCy shapes it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.language import Language
from spacy.tokens import Doc, Span

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.linking.link import Links
from spacy_pel.pipeline.annotations import Answer, answers, install_extensions, offered
from spacy_pel.pipeline.factory import DEFAULTS
from spacy_pel.pipeline.settings import Settings

from .conftest import Trained, mentions_of

GRID = st.sampled_from([-0.5, 0.0, 0.25, 0.5, 0.75, 1.0])


def asked(**changes) -> Settings:
    """The settings that are the default, but for some."""
    fields = Settings.__dataclass_fields__
    return Settings(**{name: DEFAULTS[name] for name in fields} | changes)


ENTITIES = [
    Entity(
        "C1", "multiple sclerosis", types=("Disease", "T047"), xrefs=("ICD10CM:G35", "icd10cm:G36")
    ),
    Entity("C2", "headache", alt_ids=("ICD10CM:R51",), xrefs=("SNOMEDCT_US:25064002", "ICD10:R51")),
]
CODES = ["ICD10CM", "SNOMEDCT_US"]


@pytest.fixture
def kb(tmp_path: Path) -> KnowledgeBase:
    return build_kb(ENTITIES, tmp_path / "kb")


def answered(
    kb: KnowledgeBase, numbers: list[list[int]], nil: list[bool], xrefs: list[str] | None = None
) -> list[Answer]:
    shown = np.array(numbers).reshape(len(nil), -1)
    scores = np.where(shown < 0, -np.inf, 0.5)
    links = Links(shown, scores, np.array(nil), None, None, None)
    return list(answers(links, kb, asked(xrefs=xrefs)))


def test_types_and_codes_are_those_of_the_entity_that_is_named(kb: KnowledgeBase) -> None:
    first, second, nil, none = answered(
        kb, [[0, 1], [1, 0], [0, 1], [-1, -1]], [False, False, True, False], CODES
    )
    assert (first.id, first.types) == ("C1", ["Disease", "T047"])
    assert first.xrefs == {"ICD10CM": ["G35", "G36"], "SNOMEDCT_US": []}
    assert second.xrefs == {"ICD10CM": ["R51"], "SNOMEDCT_US": ["25064002"]}
    nothing = {"ICD10CM": [], "SNOMEDCT_US": []}
    assert [(a.id, a.types, a.xrefs) for a in (nil, none)] == [
        ("NIL", [], nothing),
        ("", [], nothing),
    ]


def test_no_two_answers_share_a_list(kb: KnowledgeBase) -> None:
    first, second = answered(kb, [[0], [0]], [False, False], CODES)
    first.types.clear()
    first.xrefs["ICD10CM"].clear()
    assert second.types == ["Disease", "T047"] and second.xrefs["ICD10CM"] == ["G35", "G36"]


# kb_ents, against scispaCy's loop in plain Python


@pytest.fixture(scope="module")
def whole_kb(tiny_kb: Path) -> KnowledgeBase:
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


@given(some_links(), GRID | st.none(), GRID, st.booleans(), st.integers(0, 8))
def test_they_are_those_of_scispacys_loop(
    whole_kb, links, threshold, no_definition_threshold, filter_for_definitions, most
) -> None:
    settings = asked(
        threshold=threshold,
        no_definition_threshold=no_definition_threshold,
        filter_for_definitions=filter_for_definitions,
        max_entities_per_mention=most,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = offered(links, whole_kb, settings)
    for numbers, scores, nil, row in zip(links.numbers, links.scores, links.nil, chosen):
        predicted = []
        for place, (number, score) in enumerate(zip(numbers, scores)):
            if number < 0 or nil:
                continue
            if (
                filter_for_definitions
                and whole_kb.entities([number])[0].definition is None
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


def test_a_threshold_that_empties_most_mentions_warns(whole_kb: KnowledgeBase) -> None:
    numbers = np.array([[0, 1], [1, 2], [2, -1], [-1, -1], [3, 4]])
    scores = np.array([[0.9, 0.1], [0.3, 0.6], [0.5, -np.inf], [-np.inf, -np.inf], [0.1, 0.0]])
    links = Links(numbers, scores, np.array([False] * 4 + [True]), None)

    def warned(links: Links, threshold: float | None) -> bool:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            offered(links, whole_kb, asked(threshold=threshold))
        assert all("pel calibrate" in str(warning.message) for warning in caught)
        return bool(caught)

    # The best scores of the three that count are 0.9, 0.6 and 0.5.
    thresholds = [None, 0.4, 0.5, 0.6, 0.85, 1.0]
    assert [warned(links, t) for t in thresholds] == [False, False, False, True, True, True]
    none = Links(np.empty((0, 1), int), np.empty((0, 1)), np.empty(0, bool), None)
    assert not warned(none, 0.85)


# The attributes of spans

NAMES = (
    *("kb_id", "kb_score", "kb_probability", "kb_candidate_columns", "kb_candidates", "kb_ents"),
    *("kb_types", "kb_xrefs"),
)
CANDIDATES = [
    {"id": "C1", "name": "liver", "score": 0.5},
    {"id": "C2", "name": "cyst", "score": 0.25},
]


@pytest.fixture
def attributes() -> Iterator[None]:
    """Take the attributes away for a test, and put back those that were there."""
    before = {n: Span.remove_extension(n) for n in NAMES if Span.has_extension(n)}
    yield
    for name in NAMES:
        if Span.has_extension(name):
            Span.remove_extension(name)
    for name, (default, method, getter, setter) in before.items():
        if getter:
            Span.set_extension(name, getter=getter, setter=setter)
        else:
            Span.set_extension(name, default=default, method=method)


@pytest.fixture
def doc() -> Doc:
    return spacy.blank("en").make_doc("liver cyst")


@pytest.mark.usefixtures("attributes")
def test_a_span_that_is_not_linked(doc: Doc) -> None:
    install_extensions()
    values = doc[0:1]._
    assert (values.kb_id, values.kb_score, values.kb_probability) == (None, None, None)
    assert (values.kb_candidates, values.kb_ents, values.kb_types) == ([], [], [])
    assert values.kb_xrefs is None


@pytest.mark.usefixtures("attributes")
def test_spans_do_not_share_their_lists(doc: Doc) -> None:
    install_extensions()
    doc[0:1]._.kb_ents.append(("C1", 0.5))
    assert doc[1:2]._.kb_ents == []
    doc[0:1]._.kb_candidates = CANDIDATES
    assert doc[1:2]._.kb_candidates == []


@pytest.mark.usefixtures("attributes")
def test_candidates_are_kept_in_columns(doc: Doc) -> None:
    install_extensions()
    doc[0:1]._.kb_candidates = CANDIDATES
    kept = {"id": ["C1", "C2"], "name": ["liver", "cyst"], "score": [0.5, 0.25]}
    assert doc[0:1]._.kb_candidate_columns == kept
    again = Doc(doc.vocab).from_bytes(doc.to_bytes())
    assert again[0:1]._.kb_candidates == CANDIDATES
    doc[0:1]._.kb_candidates = []
    assert doc[0:1]._.kb_candidates == []


@pytest.mark.usefixtures("attributes")
def test_the_component_installs_them() -> None:
    assert not any(map(Span.has_extension, NAMES))
    spacy.blank("en").add_pipe("proxy_linker")
    assert all(map(Span.has_extension, NAMES))


@pytest.mark.usefixtures("attributes")
def test_attributes_of_others_are_left_alone(doc: Doc) -> None:
    Span.set_extension("kb_ents", default=["theirs"])
    Span.set_extension("kb_id", default="theirs")
    install_extensions()
    install_extensions()
    assert doc[0:1]._.kb_ents == ["theirs"] and doc[0:1]._.kb_id == "theirs"
    assert doc[0:1]._.kb_score is None
