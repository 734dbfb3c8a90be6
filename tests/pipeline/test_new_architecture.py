"""All that one more way to read mentions takes: a file with a reader and a function, and its name."""

from collections.abc import Sequence

import pytest
import spacy
from thinc.api import Model

from spacy_pel.architectures import (
    Architecture,
    EncoderSource,
    TrainedEncoder,
    encoder_of,
    make_retriever,
)
from spacy_pel.errors import PelError
from spacy_pel.kb import build_kb
from spacy_pel.models.encoders import BertEncoder, TextEncoder
from spacy_pel.reading.entity_texts import EntityReader, EntityText
from spacy_pel.reading.mention import MentionInContext
from spacy_pel.reading.text_inputs import TextInputs

from .conftest import CONFIG, PLAIN, PROBLEM, TRAIN, Trained, linked, saved, train, untrained

NAME = "test.BareEncoder.v1"

# The file begins here.


class BareReader:
    """Reads the words of a mention, without its context."""

    reads_documents = False

    def __init__(self, encoder: BertEncoder):
        self._reader = EntityReader(encoder.tokenizer, 16, encoder.position_limit)

    def inputs(self, mentions: Sequence[MentionInContext]) -> TextInputs:
        return TextInputs(self._reader.tokens([EntityText(m.surface) for m in mentions]))


@spacy.registry.architectures(NAME)  # in the package, the line in registry.py
def BareEncoder(encoder: EncoderSource, entity_length: int = 32) -> Model:
    """Retriever that compares names with names."""

    def make_encoder() -> TextEncoder:
        return TextEncoder(pooling="mean", normalize=True, mixed_precision=False)

    of_entities = {"pooling": "mean", "similarity": "cosine", "entity_length": entity_length}
    settings = {"entity_length": entity_length}
    architecture = Architecture(NAME, settings, of_entities, BareReader)
    return make_retriever(architecture, encoder, make_encoder, shared=True)


# The file ends here.

MODEL = {
    "@architectures": NAME,
    "encoder": {"@misc": "spacy-pel.ScratchEncoder.v1", **CONFIG["model"]["encoder"]},
}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("bare")
    kb = build_kb(PROBLEM, folder / "kb").path
    nlp = untrained(kb, {**CONFIG, "model": MODEL})
    train(nlp, 40)
    return saved(nlp, kb, folder)


def test_it_is_trained_and_links(bare: Trained) -> None:
    mentions = [(text, name, id) for text, ids in TRAIN for name, id in ids.items()]
    found = [id for id, *_ in linked(bare.nlp)]
    plain = [i for i, (_, name, _) in enumerate(mentions) if name in PLAIN]
    assert len(plain) == 28
    assert [found[i] for i in plain] == [mentions[i][2] for i in plain]
    # It knows no context: every "MS" gets one answer.
    assert len({found[i] for i, (_, name, _) in enumerate(mentions) if name == "MS"}) == 1


def test_it_is_saved_and_loaded_by_its_name(bare: Trained) -> None:
    loaded = spacy.load(bare.path)
    assert linked(loaded) == linked(bare.nlp)
    linkers = [nlp.get_pipe("proxy_linker") for nlp in (loaded, bare.nlp)]
    assert len({linker.retriever.fingerprint() for linker in linkers}) == 1


def test_others_start_from_its_encoders(bare: Trained) -> None:
    taken = TrainedEncoder(str(bare.path))([])
    own = encoder_of(bare.nlp.get_pipe("proxy_linker").retriever.entity_tower)
    assert taken.tokenizer.to_str() == own.tokenizer.to_str()


def test_a_saved_architecture_that_is_not_registered_is_named(
    bare: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spacy_pel.architectures.retrievers.registry.has", lambda *_: False)
    linker = bare.nlp.get_pipe("proxy_linker")
    with pytest.raises(PelError, match=f'"{NAME}", which is not .*; install or import what'):
        spacy.blank("en").add_pipe("proxy_linker").from_bytes(linker.to_bytes())
