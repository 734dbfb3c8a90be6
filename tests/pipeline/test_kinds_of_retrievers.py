"""Linkers that read in other ways than the default: trained, saved, loaded, and linking.

``BareEncoder`` is all that one more way to read mentions takes: a file with a reader and a function,
and its name.
"""

from collections.abc import Sequence
from typing import Any

import pytest
import spacy
from thinc.api import Model
from tokenizers import Tokenizer

from spacy_pel.errors import PelError
from spacy_pel.kb import build_kb
from spacy_pel.models.architectures import (
    Architecture,
    EncoderSource,
    TrainedEncoder,
    encoder_of,
    make_retriever,
)
from spacy_pel.text.entity_texts import EntityReader, EntityText
from spacy_pel.text.mention_inputs import MentionInContext
from spacy_pel.text.token_inputs import EncoderInputs, text_inputs

from .conftest import (
    CONFIG,
    PLAIN,
    PROBLEM,
    SCRATCH,
    TRAIN,
    Trained,
    linked,
    mentions_of,
    results,
    saved,
    train,
    untrained,
)

NAME = "test.BareEncoder.v1"

# The file begins here.


class BareReader:
    """Reads the words of a mention, without its context."""

    reads_documents = False

    def __init__(self, tokenizer: Tokenizer, position_limit: int):
        self._reader = EntityReader(tokenizer, 16, position_limit)

    def inputs(self, mentions: Sequence[MentionInContext]) -> EncoderInputs:
        return text_inputs(self._reader.tokens([EntityText(m.surface) for m in mentions]))


@spacy.registry.architectures(NAME)  # in the package, the line in registry.py
def BareEncoder(encoder: EncoderSource, entity_length: int = 32) -> Model:
    """Retriever that compares names with names."""
    of_entities = {"pooling": "mean", "similarity": "cosine", "entity_length": entity_length}
    settings = {"entity_length": entity_length}
    architecture = Architecture(NAME, settings, of_entities, BareReader)
    return make_retriever(architecture, encoder)


# The file ends here.


def trained_with(tmp_path_factory, steps: int, **model: Any) -> Trained:
    folder = tmp_path_factory.mktemp("kinds")
    kb = build_kb(PROBLEM, folder / "kb").path
    nlp = untrained(kb, {**CONFIG, "model": {"encoder": SCRATCH, **model}})
    train(nlp, steps)
    return saved(nlp, kb, folder)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return trained_with(tmp_path_factory, 40, **{"@architectures": NAME})


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    name = "spacy-pel.DocumentEncoder.v1"
    model = {"@architectures": name, "window": 32, "entity_length": 32}
    return trained_with(tmp_path_factory, 45, **model)


def test_a_reader_of_bare_names_links_and_is_loaded_by_its_name(bare: Trained) -> None:
    mentions = [(name, id) for _, ids in TRAIN for name, id in ids.items()]
    found = [id for id, *_ in linked(bare.nlp)]
    assert all(a == id for a, (name, id) in zip(found, mentions) if name in PLAIN)
    # It knows no context: every "MS" gets one answer.
    assert len({a for a, (name, _) in zip(found, mentions) if name == "MS"}) == 1
    assert linked(spacy.load(bare.path)) == linked(bare.nlp)
    taken = TrainedEncoder(str(bare.path))([])  # others start from its encoders
    own = encoder_of(bare.nlp.get_pipe("proxy_linker").retriever.get_ref("entity"))
    assert taken.tokenizer.to_str() == own.tokenizer.to_str()


def test_a_saved_architecture_that_is_not_registered_is_named(
    bare: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spacy.registry.has", lambda *_: False)
    linker = bare.nlp.get_pipe("proxy_linker")
    with pytest.raises(PelError, match=f'"{NAME}", which is not .*; install or import what'):
        spacy.blank("en").add_pipe("proxy_linker").from_bytes(linker.to_bytes())


def test_loaded_it_links_documents_alike_in_batches_of_any_size(documents: Trained) -> None:
    # Several mentions a document, some documents longer than a window.
    texts = [
        (
            " ".join(text for text, _ in TRAIN[i : i + 6]),
            {name: id for _, ids in TRAIN[i : i + 6] for name, id in ids.items()},
        )
        for i in range(8, len(TRAIN), 6)
    ]
    expected = results(documents.nlp.pipe(mentions_of(documents.nlp, texts), batch_size=64))
    loaded = spacy.load(documents.path)
    for size in (1, 3):
        found = results(loaded.pipe(mentions_of(loaded, texts), batch_size=size))
        assert found == expected  # to the last bit of each score
