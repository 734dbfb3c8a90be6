from __future__ import annotations

import json
import socket
from pathlib import Path

import numpy as np
import pytest
import torch
from thinc.api import Adam, Model
from transformers import BertConfig, BertModel, BertTokenizerFast, DistilBertConfig, DistilBertModel

from spacy_pel.architectures import (
    BiEncoder,
    PretrainedEncoder,
    ScratchEncoder,
    architecture_of,
    encoder_of,
    entity_reader,
    give_tree_numbers,
    is_initialized,
    mention_reader,
    pack_retriever,
    retriever_from_settings,
    saved_settings,
    set_dropout,
    set_gradient_caching,
    towers,
    unpack_retriever,
)
from spacy_pel.errors import PelError
from spacy_pel.linking.retriever import Retriever
from spacy_pel.reading import text_inputs
from spacy_pel.reading.entity_texts import EntityText
from spacy_pel.reading.mention import MentionInContext
from spacy_pel.reading.text_inputs import TextInputs
from spacy_pel.reading.word_pieces import train_tokenizer

from ..towers import ENTITIES, MENTIONS, TEXTS, bert_states, bert_vector, biencoder, retriever

SETTINGS = {
    "shared": False,
    "pooling": "focus",
    "similarity": "dot",
    "mention_length": 20,
    "entity_length": 12,
    "mixed_precision": False,
    "mention_layers": None,
}


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def inputs_of(model: Model, side: str) -> TextInputs:
    if side == "mention":
        return mention_reader(model).inputs(MENTIONS)
    return TextInputs(entity_reader(model).tokens(ENTITIES))


def vectors(model: Model, side: str = "entity") -> np.ndarray:
    return model.get_ref(side).predict(inputs_of(model, side))


def weights(model: Model, side: str) -> dict[str, torch.Tensor]:
    return encoder_of(model.get_ref(side)).state_dict()


def train_one_side(model: Model, side: str) -> None:
    output, backprop = model.get_ref(side).begin_update(inputs_of(model, side))
    backprop(np.random.default_rng(0).normal(size=output.shape).astype(np.float32))
    model.finish_update(Adam(0.01))


@pytest.mark.parametrize("shared", [True, False])
def test_two_towers_start_alike_and_share_nothing_unless_told(shared: bool) -> None:
    model = BiEncoder(ScratchEncoder(1, 32, 4, 200, 48), **{**SETTINGS, "shared": shared})
    model.initialize(X=TEXTS)
    before = {k: v.clone() for k, v in weights(model, "mention").items()}
    assert all(torch.equal(v, before[k]) for k, v in weights(model, "entity").items())
    train_one_side(model, "entity")
    moved = {k: not torch.equal(v, before[k]) for k, v in weights(model, "entity").items()}
    assert any(moved.values())
    same = {k: torch.equal(v, before[k]) for k, v in weights(model, "mention").items()}
    assert all(same[k] != (shared and moved[k]) for k in same)


def test_a_pretrained_second_tower_starts_alike_too(tmp_path: Path) -> None:
    model = BiEncoder(PretrainedEncoder(save_bert(tmp_path)), **SETTINGS)
    model.initialize(X=[])
    entity = weights(model, "entity")
    assert entity and not any("pooler" in name for name in entity)
    assert weights(model, "mention").keys() == entity.keys()
    assert all(torch.equal(v, entity[k]) for k, v in weights(model, "mention").items())


def test_order_is_kept_and_a_batch_changes_no_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    model = biencoder()
    tower, reader = model.get_ref("entity"), entity_reader(model)
    rng = np.random.default_rng(0)
    words = " ".join(TEXTS).split()
    texts = [EntityText(" ".join(rng.choice(words, n))) for n in rng.permutation(np.arange(1, 20))]
    tokens = reader.tokens(texts)
    together = tower.predict(TextInputs(tokens))
    assert together.shape == (19, 32) and together.dtype == np.float32
    alone = np.concatenate([tower.predict(TextInputs([t])) for t in tokens])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    monkeypatch.setattr(text_inputs, "CORE_TOKENS", 30)  # many groups
    np.testing.assert_allclose(tower.predict(TextInputs(tokens)), together, atol=1e-5)
    order = rng.permutation(len(tokens))
    shuffled = tower.predict(TextInputs([tokens[i] for i in order]))
    np.testing.assert_allclose(shuffled, together[order], atol=1e-5)
    expected = bert_vector(encoder_of(tower).eval(), tokens[7]).detach().numpy()
    np.testing.assert_allclose(together[7], expected, atol=1e-5)


def test_no_input_gives_no_vector() -> None:
    model = biencoder()
    assert model.get_ref("mention").predict(TextInputs([])).shape == (0, 32)


def test_threads_change_no_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    model = biencoder()
    set_dropout(model, 0.5)  # which inference has none of
    tower, reader = model.get_ref("entity"), entity_reader(model)
    tokens = reader.tokens([EntityText(" ".join(TEXTS[: i % 3 + 1])) for i in range(30)])
    monkeypatch.setattr(text_inputs, "CORE_TOKENS", 40)  # many groups
    alone = tower.predict(TextInputs(tokens))
    torch.set_num_threads(3)
    try:
        np.testing.assert_array_equal(tower.predict(TextInputs(tokens)), alone)
        assert torch.get_num_threads() == 3
        monkeypatch.setattr(towers, "in_threads", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            tower.predict(TextInputs(tokens))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(1)


def test_gradient_caching_changes_no_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(towers, "BATCH_TOKENS", 30)  # many groups
    gradients, passes = [], []
    for cached in (False, True):
        model = biencoder()
        set_dropout(model, 0.3)  # drops the same when it is computed again
        set_gradient_caching(model, cached)
        tower, tokens = model.get_ref("entity"), entity_reader(model).tokens(ENTITIES)
        transformer, count = encoder_of(tower).transformer, []
        transformer.embeddings.register_forward_pre_hook(lambda *_: count.append(1))
        torch.manual_seed(0)
        zeros = [np.zeros((len(t.ids), 32), np.float32) for t in tokens]
        output, backprop = tower.begin_update(TextInputs(tokens, zeros))
        weights = np.random.default_rng(0).normal(size=output.shape).astype(np.float32)
        d_perturbations = backprop(weights)
        grads = [p.grad for p in transformer.parameters() if p.grad is not None]
        gradients.append([output, *d_perturbations, *(g.numpy() for g in grads)])
        passes.append(len(count))
    for kept, again in zip(*gradients, strict=True):
        np.testing.assert_allclose(again, kept, atol=1e-6)
    assert passes[0] > 1 and passes[1] == 2 * passes[0]


def test_gradients_of_perturbations_come_back_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(towers, "BATCH_TOKENS", 30)
    model = biencoder()
    tower, tokens = model.get_ref("entity"), entity_reader(model).tokens(ENTITIES)
    zeros = [np.zeros((len(t.ids), 32), np.float32) for t in tokens]
    output, backprop = tower.begin_update(TextInputs(tokens, zeros))
    np.testing.assert_allclose(output, tower.predict(TextInputs(tokens)), atol=1e-5)
    d_output = np.random.default_rng(0).normal(size=output.shape).astype(np.float32)
    for inputs, d_vector, gradient in zip(tokens, d_output, backprop(d_output), strict=True):
        embeddings = torch.zeros(len(inputs.ids), 32, requires_grad=True)
        (bert_vector(encoder_of(tower), inputs, embeddings) @ torch.tensor(d_vector)).backward()
        np.testing.assert_allclose(gradient, embeddings.grad.numpy(), atol=1e-5, rtol=1e-4)
    _, backprop = tower.begin_update(TextInputs(tokens))
    assert backprop(d_output) == []


@pytest.mark.parametrize("shared", [True, False])
def test_bytes_round_trip_without_network(shared: bool, no_network: None) -> None:
    model = biencoder(shared=shared, pooling="focus")
    fresh = retriever_from_settings(json.loads(json.dumps(saved_settings(model))))
    assert not is_initialized(fresh) and is_initialized(model)
    fresh.from_bytes(model.to_bytes())
    assert is_initialized(fresh) and len(fresh.layers) == (1 if shared else 2)
    for side in ("mention", "entity"):
        np.testing.assert_array_equal(vectors(fresh, side), vectors(model, side))
    built, expected = (inputs_of(each, "mention").tokens for each in (fresh, model))
    for a, b in zip(built, expected, strict=True):
        assert a.ids.tolist() == b.ids.tolist()
    train_one_side(fresh, "mention")  # what was loaded can be trained on


def test_settings_are_the_arguments() -> None:
    source = ScratchEncoder(1, 32, 4, 200, 48)
    assert architecture_of(BiEncoder(source, **SETTINGS)).settings == SETTINGS
    assert architecture_of(retriever_from_settings(SETTINGS)).settings == SETTINGS


def test_short_vectors_come_back(no_network: None) -> None:
    model = biencoder(n_numbers=8)
    fresh = retriever_from_settings(saved_settings(model)).from_bytes(model.to_bytes())
    retriever, again = Retriever(model), Retriever(fresh)
    assert retriever.width == again.width == 8
    assert retriever.entity_fingerprint() == again.entity_fingerprint()
    assert retriever.entity_fingerprint() != Retriever(biencoder()).entity_fingerprint()
    assert "n_numbers" not in saved_settings(biencoder())


def test_an_empty_biencoder_survives_a_round_trip() -> None:
    empty = retriever_from_settings(SETTINGS)
    assert not is_initialized(retriever_from_settings(SETTINGS).from_bytes(empty.to_bytes()))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pooling": "max"}, 'unknown pooling "max"; choose "mean", "focus", "both" or "cls"'),
        ({"similarity": "l2"}, 'unknown similarity "l2"; choose "cosine" or "dot"'),
    ],
)
def test_unknown_settings_are_refused(change: dict, message: str) -> None:
    with pytest.raises(PelError, match=message):
        retriever_from_settings({**SETTINGS, **change})


def test_the_forward_pass_is_the_towers_and_weights_come_once() -> None:
    with pytest.raises(NotImplementedError, match="use a tower"):
        biencoder().predict([])
    with pytest.raises(PelError, match="not initialised again"):
        retriever_from_settings(SETTINGS).initialize(X=TEXTS)


def test_a_vocabulary_needs_texts() -> None:
    model = BiEncoder(ScratchEncoder(1, 32, 4, 200, 48), **SETTINGS)
    with pytest.raises(PelError, match="no texts to learn a vocabulary from; give a KB"):
        model.initialize(X=iter([]))


def test_cosine_vectors_have_length_1() -> None:
    np.testing.assert_allclose(np.linalg.norm(vectors(biencoder()), axis=1), 1, atol=1e-6)
    dot = vectors(biencoder(similarity="dot"))
    assert (np.abs(np.linalg.norm(dot, axis=1) - 1) > 0.1).all()


def test_lengths_reach_the_inputs() -> None:
    model = biencoder(mention_length=10, entity_length=7)
    assert inputs_of(model, "mention").lengths().max() == 10
    assert inputs_of(model, "entity").lengths().max() == 7
    longer = biencoder(mention_length=1000, entity_length=1000)
    (entity,) = entity_reader(longer).tokens([EntityText("a " * 99)])
    assert len(entity.ids) == 48  # the positions there are
    long_mention = [MentionInContext("a " * 99, 0, 1)]
    assert mention_reader(longer).inputs(long_mention).lengths() == [48]


def test_dropout_is_set_in_every_tower() -> None:
    model = biencoder(shared=False)
    set_dropout(model, 0.25)
    for side in ("mention", "entity"):
        rates = [
            m.p
            for m in encoder_of(model.get_ref(side)).modules()
            if isinstance(m, torch.nn.Dropout)
        ]
        assert len(rates) > 2 and set(rates) == {0.25}


def test_bfloat16_is_close_to_float32_and_trains(monkeypatch) -> None:
    monkeypatch.setattr("spacy_pel.models.encoders.has_fast_bfloat16", lambda device: True)
    exact, quick = biencoder(), biencoder(mixed_precision=True)
    np.testing.assert_allclose(vectors(quick), vectors(exact), atol=2e-2)
    before = vectors(quick)
    train_one_side(quick, "entity")
    assert np.isfinite(vectors(quick)).all() and not np.allclose(vectors(quick), before)


# Encoders from disk


def save_bert(
    folder: Path, model_class=BertModel, config_class=BertConfig, n_layers: int = 1
) -> str:
    """A tiny encoder as Hugging Face saves it, without our markers in its vocabulary."""
    learned = train_tokenizer(TEXTS, 150).get_vocab()
    vocabulary = [t for t in sorted(learned, key=learned.get) if t not in ("[Ms]", "[Me]")]
    vocabulary.append("[MASK]")
    (folder / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf8")
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    sizes = {"hidden_size": 16, "num_hidden_layers": n_layers, "num_attention_heads": 2}
    model_class(config_class(vocab_size=len(vocabulary), **sizes)).save_pretrained(folder)
    return str(folder)


def pretrained(name: str | None) -> Model:
    model = BiEncoder(PretrainedEncoder(name), **{**SETTINGS, "shared": True, "pooling": "mean"})
    model.initialize(X=[])
    return model


@pytest.mark.parametrize("shared", [True, False])
def test_the_first_layers_of_an_encoder_for_both_towers(tmp_path: Path, shared: bool) -> None:
    torch.manual_seed(0)
    saved = BertModel.from_pretrained(save_bert(tmp_path, n_layers=3))
    model = BiEncoder(PretrainedEncoder(str(tmp_path), layers=2), **{**SETTINGS, "shared": shared})
    model.initialize(X=[])
    for tower in model.layers:
        transformer = encoder_of(tower).transformer
        assert transformer.config.num_hidden_layers == len(transformer.encoder.layer) == 2
        for own, original in zip(transformer.encoder.layer, saved.encoder.layer):
            weights = zip(own.state_dict().values(), original.state_dict().values(), strict=True)
            assert all(torch.equal(a, b) for a, b in weights)
    for n in (0, 4):
        with pytest.raises(PelError, match=f"{n} layers of an encoder that has 3"):
            BiEncoder(PretrainedEncoder(str(tmp_path), layers=n), **SETTINGS).initialize(X=[])


def test_an_encoder_from_a_folder(tmp_path: Path, no_network: None) -> None:
    saved = BertModel.from_pretrained(save_bert(tmp_path)).eval()
    model = pretrained(str(tmp_path))
    own = BertTokenizerFast.from_pretrained(tmp_path)
    tokens = entity_reader(model).tokens([EntityText("Multiple sclerosis", "Disease")])
    assert tokens[0].ids.tolist() == own("Multiple sclerosis", "Disease").input_ids
    encoder = encoder_of(model.get_ref("entity"))
    assert encoder.transformer.config.vocab_size == len(own) + 2
    with torch.no_grad():
        expected = saved(input_ids=torch.tensor(tokens[0].ids[None])).last_hidden_state.mean(1)
    vector = model.get_ref("entity").predict(TextInputs(tokens))
    np.testing.assert_allclose(vector, expected.numpy(), atol=1e-5)

    marked = inputs_of(model, "mention").tokens[0].ids.tolist()
    markers = [encoder.tokenizer.token_to_id(t) for t in ("[Ms]", "[Me]")]
    assert markers == [len(own), len(own) + 1]
    assert [marked.count(marker) for marker in markers] == [1, 1]
    fresh = retriever_from_settings(saved_settings(model)).from_bytes(model.to_bytes())
    np.testing.assert_array_equal(vectors(fresh, "mention"), vectors(model, "mention"))


def test_a_folder_with_tokenizer_json_alone(tmp_path: Path) -> None:
    save_bert(tmp_path)
    (tmp_path / "vocab.txt").unlink()
    assert entity_reader(pretrained(str(tmp_path))).tokens(ENTITIES[:1])[0].ids[0] == 2


def test_padding_and_truncation_saved_with_a_tokenizer_do_not_act(tmp_path: Path) -> None:
    save_bert(tmp_path)
    path = tmp_path / "tokenizer.json"
    saved = json.loads(path.read_text("utf8"))
    saved["truncation"] = {
        "direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0
    }  # fmt: skip
    saved["padding"] = {
        "strategy": {"Fixed": 30}, "direction": "Right", "pad_to_multiple_of": None,
        "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]",
    }  # fmt: skip
    path.write_text(json.dumps(saved), encoding="utf8")
    ids = entity_reader(pretrained(str(tmp_path))).tokens([EntityText("a disease of the")])[0].ids
    assert 4 < len(ids) < 20 and 0 not in ids


def test_another_architecture_is_refused(tmp_path: Path) -> None:
    name = save_bert(tmp_path, DistilBertModel, DistilBertConfig)
    with pytest.raises(PelError, match='is of type "distilbert"; choose one of BERT architecture'):
        pretrained(name)


def test_a_missing_folder_is_refused(tmp_path: Path, no_network: None) -> None:
    missing = str(tmp_path / "missing")
    with pytest.raises(PelError, match='cannot load the encoder ".*missing": .*; give a Hugging'):
        pretrained(missing)


def test_a_config_whose_encoder_was_not_given_says_how() -> None:
    with pytest.raises(PelError, match="no encoder is named; .* --paths.encoder"):
        pretrained(None)


def test_a_folder_without_weights_is_refused(tmp_path: Path, no_network: None) -> None:
    save_bert(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(PelError, match="cannot load the encoder .*config.json, tokenizer.json"):
        pretrained(str(tmp_path))


def test_cls_pooling_is_the_state_of_the_first_token() -> None:
    linker = retriever(pooling="cls", layers=2)
    encoder = encoder_of(linker.mention_tower)
    for tokens, vector in zip(
        linker.mention_inputs(MENTIONS).tokens, linker.mention_vectors(MENTIONS), strict=True
    ):
        state = bert_states(encoder, tokens)[0].detach()
        np.testing.assert_allclose(vector, state / state.norm(), atol=1e-5)


def test_tree_numbers_are_read_before_the_types_and_saved() -> None:
    plain, named = biencoder(), biencoder(tree_numbers={"Disease": "B2.1", "Acid, or base": "A1"})
    text = EntityText("x", "Acid, or base, Unknown, Disease", "y")
    numbered = text._replace(types="A1 Acid, or base, Unknown, B2.1 Disease")
    (found,), (expected,) = (
        entity_reader(model).tokens([own]) for model, own in ((named, text), (plain, numbered))
    )
    assert found.ids.tolist() == expected.ids.tolist()
    again = unpack_retriever(pack_retriever(named))
    assert entity_reader(again).tokens([text])[0].ids.tolist() == found.ids.tolist()
    assert Retriever(again).entity_fingerprint() == Retriever(named).entity_fingerprint()
    assert Retriever(named).entity_fingerprint() != Retriever(plain).entity_fingerprint()
    give_tree_numbers(plain, {})  # it wants none
    with pytest.raises(PelError, match='no tree numbers; set "tree_numbers" of the model to false'):
        give_tree_numbers(biencoder(tree_numbers=True), {})
