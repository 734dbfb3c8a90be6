import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Span
from spacy.training import Example

from spacy_pel.linking.ordering import is_acronym
from spacy_pel.text.mention_inputs import MentionInContext

from ..rankings import ranking_by_score
from .conftest import Trained, untrained, with_mentions

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
    vectors = linker.retriever.predict(
        [MentionInContext(spelt, 44, 62), MentionInContext(DEFINED, 44, 46)]
    )
    for linker.search.resolve_abbreviations, vector in zip((True, False), vectors):
        scores = linker.kb.search(vector[None], linker.search.candidates).scores[0]
        said = [candidate["score"] for candidate in candidates(nlp, last_mention(nlp))]
        assert said == pytest.approx(scores, abs=1e-6)


def test_a_mention_is_linked_as_the_words_that_it_is_read_as(nlp: Language) -> None:
    doc, spelt = nlp.make_doc("Lesions of it."), nlp.make_doc("Lesions of multiple sclerosis.")
    doc.ents, spelt.ents = [Span(doc, 2, 3, "TERM")], [Span(spelt, 2, 4, "TERM")]
    doc.ents[0]._.read_as = "multiple sclerosis"
    assert candidates(nlp, doc) == candidates(nlp, spelt)


@pytest.mark.parametrize("resolve, read", [(True, "Multiple sclerosis"), (False, "MS")])
def test_training_reads_acronyms_as_linking_does(trained: Trained, resolve: bool, read) -> None:
    nlp = untrained(trained.kb)
    linker = nlp.get_pipe("proxy_linker")
    linker.search.resolve_abbreviations = resolve
    reference = last_mention(nlp)
    reference.ents = [reference.char_span(44, 46, label="TERM", kb_id="C01")]
    seen = []
    linker.trainer.step = lambda mentions: seen.extend(mentions) or 0.0
    linker.update([Example(last_mention(nlp), reference)])
    assert [mention.surface for mention in seen] == [read]


def found_ids(nlp: Language) -> set[str]:
    doc = with_mentions(nlp, "The peptide was counted with MS.", {"MS": ""})
    return {candidate["id"] for candidate in candidates(nlp, doc)}


def test_a_pipeline_is_confined_to_types_and_a_label_to_its_own(nlp: Language) -> None:
    linker = nlp.get_pipe("proxy_linker")
    free = found_ids(nlp)
    linker.search.label_types = {"OTHER": ["Anatomy"]}
    assert found_ids(nlp) == free
    linker.search.types = ["Disease", "Anatomy"]
    assert found_ids(nlp) == {"C01", "C03", "C04", "C06", "C07"} != free
    linker.search.label_types = {"TERM": ["Procedure"]}
    assert found_ids(nlp) == {"C02"}


# A text in which "MS" is read in three contexts, once in lower case, and a mention of its own.
SAME = "The patient has MS. The peptide was counted with MS. The ions of ms. A liver cyst."


def same_words(nlp: Language):
    doc = nlp.make_doc(SAME)
    places = [(16, 18), (49, 51), (65, 67), (71, 81)]
    doc.ents = [doc.char_span(*place, label="TERM") for place in places]
    return doc


def test_mentions_of_the_same_words_agree_if_that_is_asked(nlp: Language) -> None:
    linker = nlp.get_pipe("proxy_linker")
    linker.search.candidates = len(linker.kb)
    apart = [ent._.kb_candidates for ent in nlp(same_words(nlp)).ents]
    linker.search.one_entity_per_name = True
    other = with_mentions(nlp, "The patient has MS.", {"MS": ""})
    first, second = nlp.pipe([same_words(nlp), other])
    one, two, three, cyst = (ent._.kb_candidates for ent in first.ents)
    assert one == two == three and cyst == apart[3] and apart[0] != apart[1]
    assert second.ents[0]._.kb_candidates != one  # another document
    doc = nlp.make_doc(DEFINED)  # an acronym agrees with its long form
    doc.ents = [doc.char_span(0, 18, label="TERM"), doc.char_span(44, 46, label="TERM")]
    long, short = (ent._.kb_candidates for ent in nlp(doc).ents)
    assert long == short


def test_a_sole_owner_comes_first_unless_something_was_fitted(nlp: Language) -> None:
    linker = nlp.get_pipe("proxy_linker")
    kb = linker.kb
    owners = {name: kb.named(name) for entity in kb for name in entity.names}
    sole = {
        n: own[0].concept_id for n, own in owners.items() if len(own) == 1 and not is_acronym(n)
    }
    docs = [with_mentions(nlp, f"Seen: {name}.", {name: ""}) for name in sole]

    def first() -> list[str]:
        return [candidates(nlp, doc.copy())[0]["id"] for doc in docs]

    assert first() == list(sole.values())
    linker.search.unambiguous_names_first = False
    by_scores = first()
    assert by_scores != list(sole.values())
    linker.search.unambiguous_names_first, linker.ranking = True, ranking_by_score()
    assert first() == by_scores
