from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, build_kb
from spacy_pel.kb.pieces import Pieces
from spacy_pel.kb.records.plain_text import PlainText
from spacy_pel.pipeline.kb_ner import (
    Recognised,
    _word_shares,
    with_definitions,
)
from spacy_pel.pipeline.runtime import Runtime
from spacy_pel.text.abbreviations import defined_abbreviations
from spacy_pel.training.optimizer import AdamW

CONFIG: dict[str, Any] = {
    "types": {"Chemical": ["Chemical"], "Disease": ["Disease"]},
    "model": {
        "length": 32,
        "encoder": {"layers": 1, "width": 32, "heads": 2, "vocab_size": 200, "max_tokens": 64},
    },
}
SENTENCES = [
    ("Aspirin relieves headache.", {"Aspirin": "Chemical", "headache": "Disease"}),
    ("The kidney of a patient with cephalgia", {"cephalgia": "Disease"}),
    (
        "Head pain and multiple sclerosis.",
        {"Head pain": "Disease", "multiple sclerosis": "Disease"},
    ),
    ("A patient with disseminated sclerosis", {"disseminated sclerosis": "Disease"}),
    ("Nothing is the matter here.", {}),
]


def example(nlp: Language, text: str, mentions: dict[str, str], source: str = "a") -> Example:
    bounds = [(text.index(m), text.index(m) + len(m), label) for m, label in mentions.items()]
    made = Example.from_dict(nlp.make_doc(text), {"entities": bounds})
    made.reference.user_data["source"] = source
    return made


def trained(tiny_kb: Path, examples: list[tuple[Any, ...]], steps: int = 60) -> Language:
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("kb_ner", config={**CONFIG, "kb": str(tiny_kb)})
    made = [example(nlp, *one) for one in examples]
    nlp.initialize(lambda: made)
    optimizer = AdamW(0.01)
    for _ in range(steps):
        nlp.update(made, sgd=optimizer)
    return nlp


def found(nlp: Language, text: str) -> dict[str, str]:
    return {ent.text: ent.label_ for ent in nlp(text).ents}


@pytest.fixture(scope="module")
def nlp(tiny_kb: Path) -> Language:
    return trained(tiny_kb, SENTENCES)


def test_it_learns_what_it_is_shown(nlp: Language) -> None:
    for text, mentions in SENTENCES:
        assert found(nlp, text) == mentions
    scores = nlp.evaluate([example(nlp, *one) for one in SENTENCES])
    assert scores["ents_f"] == 1.0


def test_a_mention_does_not_go_beyond_a_blank_line(nlp: Language) -> None:
    text = "\n\nHead pain and multiple{}sclerosis.\n \n"
    assert "multiple\nsclerosis" in found(nlp, text.format("\n"))
    for gap in ("\n\n", "\n \t\n"):
        assert not any("\n" in mention for mention in found(nlp, text.format(gap)))
    assert found(nlp, "\n\n") == {}


def test_it_finds_names_that_no_training_text_has_also_when_loaded(
    nlp: Language, tmp_path: Path
) -> None:
    nlp.to_disk(tmp_path)
    again = spacy.load(tmp_path)
    for one in (nlp, again):
        said = found(one, "The kidney of a patient with rheumatoid arthritis")
        assert said == {"rheumatoid arthritis": "Disease"}
    assert again.get_pipe("kb_ner").cfg == {
        "annotated": {"a": ["Chemical", "Disease"]},
        "marked_names": [],
    }


def test_a_kb_of_other_types_shows_its_names(nlp: Language, tmp_path: Path) -> None:
    other = build_kb([Entity("X1", "Zebra fever", types=("Animal Disease",))], tmp_path / "kb")
    recogniser = nlp.get_pipe("kb_ner")
    before = recogniser.kb.path
    recogniser.set_kb(other.path)
    _, entity_labels, *_ = recogniser.cached_for_kb(recogniser.kb, recogniser._tools)
    assert not entity_labels.any()
    found(nlp, "A patient with zebra fever")
    recogniser.set_kb(before)


def test_an_acronym_counts_as_its_text_defines_it(nlp: Language) -> None:
    text = "Chronic head pain (CHP) and more studies (MS): CHP, MS. Brief MS pain (BMSP)."
    recogniser = nlp.get_pipe("kb_ner")
    finder, *_ = recogniser.cached_for_kb(recogniser.kb, recogniser._tools)
    pieces = Pieces([text, "MS"])
    names = finder.find_in(pieces)
    told = with_definitions([text, "MS"], [defined_abbreviations(text), {}], pieces, names)
    [head_pain, ms] = [
        next(n for n, first in zip(names.names, names.first) if pieces.words[first] == word)
        for word in ("head", "MS")
    ]
    said = [(pieces.words[first], name) for first, name in zip(told.first, told.names)]
    # "MS" is multiple sclerosis in the second text alone: in the first it has another sense.
    assert said == [("head", head_pain), ("CHP", head_pain), ("CHP", head_pain), ("MS", ms)]
    assert (told.last - told.first).tolist() == [1, 0, 0, 0]


def test_hints_tell_other_names_apart(tiny_kb: Path) -> None:
    one = spacy.blank("en")
    hints = {"Organ": ["Anatomy"], "Unknown": ["No type of this KB"]}
    one.add_pipe("kb_ner", config={**CONFIG, "kb": str(tiny_kb), "hints": hints})
    examples = [example(one, *sentence) for sentence in SENTENCES]
    one.initialize(lambda: examples)
    recogniser = one.get_pipe("kb_ner")
    _, inputs, _ = recogniser._read(["The kidney"], [{}], recogniser.kb)
    # "Begins" and "goes on" of two labels, two hints and no group, at the second word.
    shown = inputs.windows[0].known["features"][2, :10]
    assert np.flatnonzero(shown).tolist() == [4]


def test_the_state_of_a_token_is_the_mean_of_its_words() -> None:
    # One token touches three words, two touch one word, and one touches none.
    docs = [
        Doc(Vocab(), words=["p-53", "gene"]),
        Doc(Vocab(), words=["can", "not", "  "], spaces=[False, True, False]),
    ]
    texts = [PlainText(doc.text) for doc in docs]
    words = [np.array([[0, 1], [1, 2], [2, 4], [5, 9]]), np.array([[0, 6]])]
    shares = _word_shares(words, docs, texts)
    states = np.array([[1], [2], [6], [4], [5]], dtype=np.float32)
    assert [means.ravel().tolist() for means in shares.means(states)] == [[3, 4], [5, 5, 0]]
    gradients = [np.array([[3], [1]]), np.array([[1], [2], [9]])]
    of_words = shares.of_words([values.astype(np.float32) for values in gradients])
    assert of_words.ravel().tolist() == [1, 1, 1, 1, 3]
    (blank,) = _word_shares([words[0][:0]], docs[:1], texts[:1]).means(states[:0])
    assert blank.tolist() == [[0], [0]]


def test_a_stream_is_read_as_single_docs_are(nlp: Language) -> None:
    texts = ["", *(text for text, _ in SENTENCES), SENTENCES[0][0] * 9]  # several windows
    read = [[ent.text for ent in doc.ents] for doc in nlp.pipe(texts, batch_size=3)]
    assert read == [[ent.text for ent in nlp(text).ents] for text in texts]
    assert read[-1].count("headache") == 9


def test_ents_that_are_there_stay(nlp: Language) -> None:
    doc = nlp.make_doc("Aspirin relieves headache.")
    doc.ents = [doc.char_span(8, 25, label="OTHER")]
    assert [(e.text, e.label_) for e in nlp.get_pipe("kb_ner")(doc).ents] == [
        ("Aspirin", "Chemical"),
        ("relieves headache", "OTHER"),
    ]


def test_a_corpus_without_a_label_does_not_deny_it(tiny_kb: Path) -> None:
    """The source "b" annotates diseases alone, and its texts are full of aspirin."""
    half = [("Aspirin relieves headache.", {"headache": "Disease"}, "/home/me/ncbi/b")] * 4
    nlp = trained(tiny_kb, [*SENTENCES, *half])
    assert nlp.get_pipe("kb_ner").cfg["annotated"] == {
        "a": ["Chemical", "Disease"],
        "ncbi/b": ["Disease"],
    }
    assert found(nlp, "Aspirin relieves headache.") == SENTENCES[0][1]


def test_names_of_one_entity_can_be_added(nlp: Language, monkeypatch) -> None:
    text = "zzz zzz head pain MS kidney"
    without = found(nlp, text)
    monkeypatch.setattr(nlp.get_pipe("kb_ner"), "add_names", True)
    assert found(nlp, text) == {**without, "head pain": "Disease"}


def test_mentions_that_share_words_are_marked_one_by_one(nlp: Language) -> None:
    text = "multiple or disseminated sclerosis and acetylsalicylic or other acid"
    doc, disease = nlp.make_doc(text), nlp.get_pipe("kb_ner").labels.index("Disease")
    places, recogniser = [(0, 34, disease), (39, 68, 0)], nlp.get_pipe("kb_ner")
    *_, names = recogniser.cached_for_kb(recogniser.kb, recogniser._tools)
    recogniser.set_annotations([doc], Recognised([PlainText(text)], [places], None, names))
    read = [(ent.text, ent.label_, ent._.read_as) for ent in doc.ents]
    assert read[:2] == [
        ("multiple", "Disease", "multiple sclerosis"),
        ("disseminated sclerosis", "Disease", None),
    ]
    assert [ent.text for ent in doc.ents[2:]] == ["acetylsalicylic or other acid"]


def test_mistakes_say_what_to_do(tiny_kb: Path) -> None:
    nlp = spacy.blank("en")
    nlp.add_pipe("kb_ner", config={**CONFIG, "kb": str(tiny_kb)})
    with pytest.raises(PelError, match='"kb_ner" is not trained'):
        nlp("Aspirin")
    with pytest.raises(PelError, match="no mentions to train"):
        nlp.initialize(lambda: [example(nlp, "Nothing here.", {})])
    with pytest.raises(PelError, match='label "Chemical", which is not learnt'):
        nlp.initialize(lambda: [example(nlp, "A headache.", {"headache": "Disease"})])


def test_onnx_computes_the_same(nlp: Language, monkeypatch) -> None:
    pytest.importorskip("onnxruntime")
    docs = [nlp.make_doc(text) for text, _ in SENTENCES]
    recogniser = nlp.get_pipe("kb_ner")
    expected = recogniser.token_states(docs)
    monkeypatch.setattr(recogniser, "runtime", Runtime("onnx"))
    for states, wanted in zip(recogniser.token_states(docs), expected):
        np.testing.assert_allclose(states, wanted, atol=1e-4)
