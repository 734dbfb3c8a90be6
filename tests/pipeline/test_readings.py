"""Settings that change what is read, searched and preferred: acronyms, labels, names."""

from __future__ import annotations

from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from spacy.training import Example

from spacy_pel.inputs import MentionInContext
from spacy_pel.linking import NameWeight

from .conftest import Trained, results, train, untrained, with_mentions

DEFINED = "Multiple sclerosis (MS) is rare. Lesions of MS were seen."


@pytest.fixture
def nlp(trained: Trained) -> Language:
    return spacy.load(trained.path)


def candidates(nlp: Language, doc) -> list[dict]:
    return nlp.get_pipe("proxy_linker")(doc).ents[0]._.kb_candidates


def last_mention(nlp: Language):
    doc = nlp.make_doc(DEFINED)
    doc.ents = [doc.char_span(44, 46, label="TERM")]
    return doc


def test_an_acronym_is_linked_as_its_long_form(nlp: Language) -> None:
    linker = nlp.get_pipe("proxy_linker")
    spelt = DEFINED[:44] + "Multiple sclerosis" + DEFINED[46:]
    vectors = linker.retriever.mention_vectors(
        [MentionInContext(spelt, 44, 62), MentionInContext(DEFINED, 44, 46)]
    )
    for expand_acronyms, vector in zip((True, False), vectors):
        linker.expand_acronyms = expand_acronyms
        scores = linker.kb.search(vector[None], linker.candidates).scores[0]
        said = [candidate["score"] for candidate in candidates(nlp, last_mention(nlp))]
        assert said == pytest.approx(scores, abs=1e-6)


@pytest.mark.parametrize("expand_acronyms, read", [(True, "Multiple sclerosis"), (False, "MS")])
def test_training_reads_acronyms_as_linking_does(trained: Trained, expand_acronyms, read) -> None:
    nlp = untrained(trained.kb)
    linker = nlp.get_pipe("proxy_linker")
    linker.expand_acronyms = expand_acronyms
    reference = last_mention(nlp)
    reference.ents = [reference.char_span(44, 46, label="TERM", kb_id="C01")]
    seen = []
    linker.trainer.step = lambda mentions: seen.extend(mentions) or (0.0, 0.0)
    linker.update([Example(last_mention(nlp), reference)])
    assert [mention.surface for mention in seen] == [read]


def test_a_label_confines_the_search(nlp: Language) -> None:
    linker = nlp.get_pipe("proxy_linker")
    doc = with_mentions(nlp, "The peptide was counted with MS.", {"MS": ""})
    free = candidates(nlp, doc.copy())
    linker.label_types = {"TERM": ["Disease"], "OTHER": ["Anatomy"]}
    confined = candidates(nlp, doc.copy())
    diseases = {entity.concept_id for entity in linker.kb if "Disease" in entity.types}
    assert {candidate["id"] for candidate in confined} == diseases
    assert not {candidate["id"] for candidate in free} <= diseases
    linker.label_types = {"OTHER": ["Anatomy"]}
    assert candidates(nlp, doc.copy()) == free


def test_labels_confine_the_search_of_a_training_session_too(trained: Trained) -> None:
    nlp = untrained(trained.kb)
    linker = nlp.get_pipe("proxy_linker")
    linker.label_types = {"TERM": ["Disease"]}
    assert linker.index is linker.trainer.pool
    doc = with_mentions(nlp, "The peptide was counted with MS.", {"MS": ""})
    diseases = {entity.concept_id for entity in linker.kb if "Disease" in entity.types}
    assert {candidate["id"] for candidate in candidates(nlp, doc)} == diseases


def test_settings_are_saved_with_the_pipeline(nlp: Language, tmp_path: Path) -> None:
    config = {"expand_acronyms": False, "label_types": {"TERM": ["Disease"]}}
    made = spacy.blank("en")
    made.add_pipe("proxy_linker", config={**config, "path": str(nlp.path)})
    made.to_disk(tmp_path / "pipeline")
    linker = spacy.load(tmp_path / "pipeline").get_pipe("proxy_linker")
    assert {name: getattr(linker, name) for name in config} == config


def test_an_exact_name_is_worth_its_weight(nlp: Language) -> None:
    linker = nlp.get_pipe("proxy_linker")
    doc = with_mentions(nlp, "The peptide was counted with MS.", {"MS": ""})
    plain = candidates(nlp, doc.copy())
    assert all("name_match" not in candidate for candidate in plain)
    linker.name_weight = NameWeight(10.0)
    named = candidates(nlp, doc.copy())
    assert [c["name_match"] for c in named] == [True, True, *[False] * (len(named) - 2)]
    assert {c["id"] for c in named[:2]} == {"C01", "C02"}
    assert sorted(c["score"] for c in named) == sorted(c["score"] for c in plain)


def test_a_name_weight_is_saved_and_dropped_by_training(trained: Trained, tmp_path: Path) -> None:
    nlp = untrained(trained.kb)
    nlp.get_pipe("proxy_linker").name_weight = NameWeight(0.5)
    nlp.to_disk(tmp_path / "pipeline")
    assert spacy.load(tmp_path / "pipeline").get_pipe("proxy_linker").name_weight == (0.5, 0)
    train(nlp, 1)
    assert nlp.get_pipe("proxy_linker").name_weight is None


def test_a_weight_fitted_with_a_reranker_says_nothing_without_one(nlp: Language) -> None:
    doc = with_mentions(nlp, "The peptide was counted with MS.", {"MS": ""})
    plain = results([nlp(doc.copy())])
    nlp.get_pipe("proxy_linker").name_weight = NameWeight(10.0, 16)
    assert results([nlp(doc.copy())]) == plain
