from pathlib import Path

import numpy as np
import pytest
import spacy
import torch
from thinc.api import Model
from tokenizers import Tokenizer
from transformers import BertModel, BertTokenizerFast, DistilBertConfig, DistilBertModel

from spacy_pel.errors import PelError
from spacy_pel.linking.reranker import Reranker
from spacy_pel.models.architectures import (
    BiEncoder,
    PretrainedEncoder,
    ScratchEncoder,
    TrainedEncoder,
    encoder_of,
    pack_retriever,
    unpack_retriever,
)
from spacy_pel.models.architectures.crossencoder import CrossEncoder
from spacy_pel.text.entity_texts import EntityText
from spacy_pel.text.token_inputs import text_inputs

from ...towers import MENTIONS, save_bert

SETTINGS = {"shared": False, "pooling": "focus", "similarity": "dot", "mixed_precision": False}
SETTINGS |= {"mention_length": 20, "entity_length": 12}


def pretrained(name: str | None) -> Model:
    model = BiEncoder(PretrainedEncoder(name), **{**SETTINGS, "shared": True, "pooling": "mean"})
    model.initialize(X=[])
    return model


@pytest.mark.parametrize("shared", [True, False])
def test_the_first_layers_of_an_encoder_for_both_towers(bert: Path, shared: bool) -> None:
    saved = BertModel.from_pretrained(bert)
    model = BiEncoder(PretrainedEncoder(str(bert), layers=2), **{**SETTINGS, "shared": shared})
    model.initialize(X=[])
    for tower in model.layers:
        transformer = encoder_of(tower).transformer
        assert transformer.config.num_hidden_layers == len(transformer.encoder.layer) == 2
        for own, original in zip(transformer.encoder.layer, saved.encoder.layer):
            weights = zip(own.state_dict().values(), original.state_dict().values(), strict=True)
            assert all(torch.equal(a, b) for a, b in weights)
    for n in (0, 4):
        with pytest.raises(PelError, match=f"{n} layers of an encoder that has 3"):
            BiEncoder(PretrainedEncoder(str(bert), layers=n), **SETTINGS).initialize(X=[])


def test_an_encoder_from_a_folder(tmp_path: Path, no_network: None) -> None:
    saved = BertModel.from_pretrained(save_bert(tmp_path)).eval()
    model = pretrained(str(tmp_path))
    own = BertTokenizerFast.from_pretrained(tmp_path)
    tokens = model.attrs["entity_reader"].tokens([EntityText("Multiple sclerosis", "Disease")])
    assert tokens[0].ids.tolist() == own("Multiple sclerosis", "Disease").input_ids
    encoder = encoder_of(model.get_ref("entity"))
    assert encoder.transformer.config.vocab_size == len(own) + 2
    with torch.no_grad():
        expected = saved(input_ids=torch.tensor(tokens[0].ids[None])).last_hidden_state.mean(1)
    vector = model.get_ref("entity").predict(text_inputs(tokens))
    np.testing.assert_allclose(vector, expected.numpy(), atol=1e-5)

    marked = model.attrs["mention_reader"].inputs(MENTIONS).windows[0].ids.tolist()
    markers = [encoder.tokenizer.token_to_id(t) for t in ("[Ms]", "[Me]")]
    assert markers == [len(own), len(own) + 1]
    assert [marked.count(marker) for marker in markers] == [1, 1]
    fresh = unpack_retriever(pack_retriever(model))
    found, expected = (each.predict(MENTIONS) for each in (fresh, model))
    np.testing.assert_array_equal(found, expected)


def test_padding_and_truncation_saved_with_a_tokenizer_do_not_act(tmp_path: Path) -> None:
    save_bert(tmp_path)
    (tmp_path / "vocab.txt").unlink()  # tokenizer.json is enough
    path = str(tmp_path / "tokenizer.json")
    tokenizer = Tokenizer.from_file(path)
    tokenizer.enable_truncation(1)
    tokenizer.enable_padding(length=30)
    tokenizer.save(path)
    reader = pretrained(str(tmp_path))
    ids = reader.attrs["entity_reader"].tokens([EntityText("a disease of the")])[0].ids
    assert 4 < len(ids) < 20 and 0 not in ids


def test_what_cannot_be_taken_is_refused(tmp_path: Path, no_network: None) -> None:
    (tmp_path / "other").mkdir()
    name = save_bert(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    cannot_load = "cannot load the encoder .*; give a Hugging Face name"
    other = save_bert(tmp_path / "other", DistilBertModel, DistilBertConfig)
    for source, message in (
        (name, cannot_load),
        (str(tmp_path / "none"), cannot_load),
        (other, 'is of type "distilbert"; choose one of BERT architecture'),
        (None, "no encoder is named; .* --paths.encoder"),
    ):
        with pytest.raises(PelError, match=message):
            pretrained(source)
    with pytest.raises(PelError, match="no texts to learn a vocabulary from; give a KB"):
        BiEncoder(ScratchEncoder(1, 32, 4, 200, 48), **SETTINGS).initialize(X=iter([]))


@pytest.mark.parametrize("component", ["", "proxy_linker"])
def test_the_encoder_of_a_trained_linker(tiny_folder: Path, component: str) -> None:
    linker = spacy.load(tiny_folder).get_pipe("proxy_linker")
    source = encoder_of(linker.model.get_ref("mention"))
    model = CrossEncoder(TrainedEncoder(str(tiny_folder / component)), length=40)
    model.initialize(X=[])
    taken = encoder_of(model)
    assert taken.tokenizer.to_str() == source.tokenizer.to_str()
    expected = source.transformer.state_dict()
    assert all(torch.equal(w, expected[k]) for k, w in taken.transformer.state_dict().items())
    assert Reranker(model).reader.length == 40
