import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity
from spacy_pel.kb.records.entity import cleaned
from spacy_pel.kb.records.names import american, name_hash, name_similarity, normalised, words

from ...growth import assert_linear


@pytest.mark.parametrize(
    "name, same",
    [
        ("Crohn's disease", "CROHN S DISEASE"),
        ("  non-small\u00a0cell_carcinoma, ", "Non Small Cell Carcinoma"),
        ("ﬁbrosis", "fibrosis"),
        ("Ｔ細胞", "T細胞"),
        ("straße", "STRASSE"),
        ("e\u0301te\u0301", "Été"),
        ("Löfgren’s", "LOFGREN'S"),
        ("β\u2011thalassemia", "beta-thalassemia"),
        ("a\x00b\ud800", "a b"),
        (" - ", "-"),  # punctuation alone is kept
    ],
)
def test_names_that_are_the_same(name: str, same: str) -> None:
    assert normalised(name) == normalised(same)
    assert name_hash(normalised(name)) == name_hash(normalised(same)) < 2**32


@pytest.mark.parametrize("name, other", [("Na+", "Na"), ("IL-2", "IL2"), ("-", "+"), ("की", "का")])
def test_names_that_are_not(name: str, other: str) -> None:
    assert normalised(name) != normalised(other)


def test_words() -> None:
    assert words("Sjögren's Na+/K+ ATPase 日本") == ["sjogren", "s", "na", "k", "atpase", "日本"]
    assert words("+ -") == []


@given(st.text(), st.text())
def test_only_the_same_name_is_wholly_alike(query: str, name: str) -> None:
    same = normalised(query) == normalised(name)
    assert 0 <= name_similarity(query, name) <= 1
    assert (name_similarity(query, name) == 1) == same


def test_name_similarity_prefers_few_other_words_and_the_same_order() -> None:
    names = ["lung cancer", "cancer, lung", "small cell lung cancer", "lung", "heart"]
    assert sorted(names, key=lambda name: -name_similarity("Lung Cancer", name)) == names


@pytest.mark.parametrize(
    "marks", ["\u0316\u0301", "\u0301\u0316", "\uff9e\u0f73", "\u0344", "\u3099\u0591\u05b0"]
)
def test_a_long_run_of_marks_is_normalised_in_time(marks: str) -> None:
    assert_linear(words, lambda n: "a" + marks * n, 1_000)


def test_a_long_name_keeps_the_marks_that_languages_need() -> None:
    assert normalised("कि \u0915\u093f " * 300) == ("कि कि " * 300).strip()


def test_american_spelling() -> None:
    british = "haemoptysis gastro oesophageal hyperkalaemia ischaemic colitis oedema and diarrhoea"
    spelled = "hemoptysis gastro esophageal hyperkalemia ischemic colitis edema and diarrhea"
    assert american(british) == spelled
    assert american("angioedema of a chemical") == "angioedema of a chemical"


def test_text_is_made_printable_and_distinct_and_is_kept_where_it_is_so() -> None:
    aliases = ("a\x00\x1fb", "a b", " ", "", "\ud800c")
    entity = Entity(" C1 ", "\x00Fever\n", aliases, ("T", "T"), " \t", ("X", "X", "C1"))
    assert cleaned(entity) == Entity("C1", "Fever", ("a b", "c"), ("T",), None, ("X",))
    names = ("β\u2028x", "Été 日本 🧬")
    entity = Entity("C1", "Été 日本 🧬", names, ("T  T",), "A  b.", ("D1",))
    assert cleaned(entity) == entity


@pytest.mark.parametrize(
    "entity, fault",
    [
        (Entity(" ", "Fever"), "the id ' ' of the entity 'Fever' is blank"),
        (Entity("C\x001", "Fever"), "control characters"),
        (Entity("C1", "\x00"), "'C1' has a blank canonical_name"),
        (Entity(" NIL ", "Fever"), "'Fever' has the id 'NIL', which marks mentions without"),
        (Entity("C1", "Fever", alt_ids=("D1", "NIL")), "has the id 'NIL'.*; give it another id"),
        (Entity("C1", "Fever", retired_ids=("NIL",)), "has the id 'NIL'"),
    ],
)
def test_unusable_ids_and_names(entity: Entity, fault: str) -> None:
    with pytest.raises(PelError, match=fault):
        cleaned(entity)
