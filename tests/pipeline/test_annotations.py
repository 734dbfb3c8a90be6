import warnings
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin, Span

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.linking.link import Links
from spacy_pel.linking.ordering import Evidence
from spacy_pel.pipeline.annotations import install_extensions, offered, predictions
from spacy_pel.pipeline.factory import DEFAULTS
from spacy_pel.pipeline.settings import OutputSettings

from ..conftest import run_python

GRID = st.sampled_from([-0.5, 0.0, 0.25, 0.5, 0.75, 1.0])


def asked(**changes) -> OutputSettings:
    """The default settings, but for some."""
    given = {**DEFAULTS, **changes}
    return OutputSettings(**{field.name: given[field.name] for field in fields(OutputSettings)})


def test_types_and_codes_are_those_of_the_entity_that_is_named(tmp_path: Path) -> None:
    codes = ("ICD10CM:G35", "icd10cm:G36")
    entities = [
        Entity("C1", "multiple sclerosis", types=("Disease", "T047"), xrefs=codes),
        Entity("D006261", "headache", alt_ids=("ICD10CM:R51",), xrefs=("SNOMED:2506", "ICD10:R51")),
    ]
    kb = build_kb(entities, tmp_path / "kb")
    numbers = np.array([[0, 1], [1, 0], [0, 1], [-1, -1], [0, 1]])
    nil = np.array([False, False, True, False, False])
    links = Links(numbers, np.where(numbers < 0, -np.inf, 0.5), nil, None, None)
    kb.check_vocabularies(vocabularies := ["ICD10CM", "SNOMED", "CURIE"])
    given = list(predictions(links, kb, asked(xrefs=vocabularies), [""] * len(links.nil)))
    given[-1]["kb_types"].clear()  # no two predictions share a list
    said = [(a["kb_id"], a["kb_types"], *a["kb_xrefs"].values()) for a in given[:4]]
    assert said == [
        ("C1", ["Disease", "T047"], ["G35", "G36"], [], ["C1"]),  # an id of unknown form
        ("D006261", [], ["R51"], ["2506"], ["MESH:D006261"]),
        ("NIL", [], [], [], []),
        ("", [], [], [], []),
    ]


def test_why_says_what_the_ranking_compares(tmp_path: Path) -> None:
    kb = build_kb([Entity(f"C{i}", f"name {i}") for i in range(3)], tmp_path / "kb")
    numbers, scores = np.array([[1, 0, 2], [2, 0, -1]]), np.array([[0.9, 0.5, 0.123], [0.5, 0, 0]])
    evidence = Evidence(
        [["name 1", "name 0"], ["name 2", "name 0"]],
        np.array([[1.0, 0.5], [0.255, 0.0]]),
        np.array([[True, False], [True, False]]),
        np.array([[1, 1], [3, 3]]),
        np.array([[0, 0], [12, 0]]),
        np.array([[0, 0], [30, 30]]),
        np.array([[0, 1], [2, 0]]),
    )
    nil = np.zeros(2, dtype=bool)
    links = Links(numbers, scores, nil, None, None, probabilities=scores, evidence=evidence)
    made = predictions(links, kb, asked(), ["", "name"])
    columns = [prediction["kb_candidate_columns"] for prediction in made]
    assert [each["matched_name"] for each in columns] == [
        ["name 1", "name 0", None],
        ["name 2", "name 0"],
    ]
    assert [each["why"] for each in columns] == [
        [
            "exact name; score 0.90",
            "name 50% similar; score 0.50; meant by 1 other mention here",
            None,
        ],
        [
            'read as "name"; exact name, shared by 3 entities; score 0.50; defined so in 12 of 30 '
            "texts; meant by 2 other mentions here",
            'read as "name"; name 0% similar; score 0.00; defined so in 0 of 30 texts',
        ],
    ]


# kb_ents, against scispaCy's loop in plain Python


@st.composite
def some_links(draw) -> Links:
    """Links to the entities of ``tiny_kb``, of which two have definitions."""
    numbers, scores = np.full((3, 7), -1), np.full((3, 7), -np.inf, dtype=np.float32)
    for i in range(3):
        found = draw(st.permutations(range(7)))[: draw(st.integers(0, 7))]
        numbers[i, : len(found)] = found
        scores[i, : len(found)] = sorted((draw(GRID) for _ in found), reverse=True)
    nil = np.array([draw(st.booleans()) for _ in range(3)])
    return Links(numbers, scores, nil, None, None)


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


def test_a_threshold_that_empties_most_mentions_warns(whole_kb: KnowledgeBase) -> None:
    numbers = np.array([[0, 1], [1, 2], [2, -1], [-1, -1], [3, 4]])
    scores = np.array([[0.9, 0.1], [0.3, 0.6], [0.5, -np.inf], [-np.inf, -np.inf], [0.1, 0.0]])
    links = Links(numbers, scores, np.array([False] * 4 + [True]), None, None)

    def warned(threshold: float | None) -> bool:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            offered(links, whole_kb, asked(threshold=threshold))
        assert all("pel calibrate" in str(warning.message) for warning in caught)
        return bool(caught)

    # The best scores of the three that count are 0.9, 0.6 and 0.5.
    assert [warned(t) for t in (None, 0.5, 0.6, 1.0)] == [False, False, True, True]


@pytest.mark.parametrize(
    ("config", "message"),
    [({"linker_name": "umls"}, "pel kb build SOURCE KB"), ({"k": 30}, '"candidates" is the')],
)
def test_scispacys_settings_without_meaning_name_the_remedy(config, message) -> None:
    with pytest.raises(PelError, match=message):
        spacy.blank("en").add_pipe("proxy_linker", config=config)


def test_spans_share_no_attribute_and_candidates_are_kept_in_columns() -> None:
    install_extensions()
    doc = spacy.blank("en").make_doc("liver cyst")
    one, other = doc[0:1]._, doc[1:2]._
    one.kb_ents.append(("C1", 0.5))
    candidates = [{"id": "C1", "score": 0.5}, {"id": "C2", "score": 0.25}]
    one.kb_candidates = candidates
    assert (other.kb_ents, other.kb_types, other.kb_candidates, other.kb_id) == ([], [], [], None)
    assert one.kb_candidate_columns == {"id": ["C1", "C2"], "score": [0.5, 0.25]}
    again = Doc(doc.vocab).from_bytes(doc.to_bytes())
    assert again[0:1]._.kb_candidates == candidates
    one.kb_candidates = []
    assert one.kb_candidates == []


def test_an_attribute_of_others_is_left_alone() -> None:
    install_extensions()
    before = Span.remove_extension("kb_ents")
    Span.set_extension("kb_ents", default=["theirs"])
    install_extensions()
    doc = spacy.blank("en").make_doc("cyst")
    assert doc[0:1]._.kb_ents == ["theirs"] and doc[0:1]._.kb_score is None
    Span.set_extension("kb_ents", default=before[0], force=True)


def test_a_program_that_reads_a_docbin_has_the_attributes(tmp_path: Path) -> None:
    doc = spacy.blank("en")("MS")
    doc.ents = [Span(doc, 0, 1, "D", kb_id="C01")]
    DocBin(store_user_data=True, docs=[doc]).to_disk(tmp_path / "a.spacy")
    run_python(
        "import spacy\nfrom spacy.tokens import DocBin\n"
        "docs = DocBin(store_user_data=True).from_disk('a.spacy').get_docs(spacy.blank('en').vocab)\n"
        "(mention,) = next(docs).ents\n"
        "assert mention._.kb_candidates == [] and mention.kb_id_ == 'C01'",
        cwd=tmp_path,
    )
