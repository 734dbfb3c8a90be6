"""Small bi- and cross-encoders, and BERT computed without the package, for the tests."""

from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel, BertTokenizerFast

from spacy_pel.linking.reranker import Reranker
from spacy_pel.models.architectures import (
    BiEncoder,
    Retriever,
    ScratchEncoder,
    encoder_of,
    set_dropout,
)
from spacy_pel.models.architectures.crossencoder import CrossEncoder
from spacy_pel.models.bert import Bert
from spacy_pel.text.entity_texts import EntityText
from spacy_pel.text.mention_inputs import MentionInContext
from spacy_pel.text.token_inputs import TokenIds, train_tokenizer

TEXTS = [
    "Multiple sclerosis (MS) is a disease of the nerves; the patient has lesions of myelin.",
    "Mass spectrometry (MS) measured the ions of the sample; the spectrum has many peaks.",
    "Mitral stenosis narrows a valve of the heart; a murmur was heard.",
    "Aspirin reduces fever and pain, and thins the blood.",
]
ENTITIES = [
    EntityText("Multiple sclerosis", "Disease", "MS. a disease of the nerves"),
    EntityText("Mass spectrometry", "Procedure", "MS. measured the ions"),
    EntityText("Mitral stenosis", "Disease"),
    EntityText("Aspirin"),
    EntityText("fever", "", "a murmur of the heart"),
]


def mention(text: str, surface: str) -> MentionInContext:
    """The first place of the surface in the text."""
    start = text.index(surface)
    return MentionInContext(text, start, start + len(surface))


MENTIONS = [
    mention(TEXTS[0], "MS"),
    mention(TEXTS[1], "MS"),
    mention(TEXTS[2], "Mitral stenosis"),
    mention(TEXTS[3], "Aspirin"),
]


def biencoder(*, layers: int = 1, width: int = 32, heads: int = 4, **changes):
    """An initialised bi-encoder without dropout; towers that are not shared differ."""
    arguments = {
        "shared": True,
        "pooling": "mean",
        "similarity": "cosine",
        "mention_length": 24,
        "entity_length": 24,
        "mixed_precision": False,
        **changes,
    }
    torch.manual_seed(0)
    source = ScratchEncoder(layers, width, heads, vocab_size=200, max_tokens=48)
    model = BiEncoder(source, **arguments)
    model.initialize(X=TEXTS)
    set_dropout(model, 0.0)
    spread_weights(encoder_of(model.get_ref("mention")))
    if not arguments["shared"]:
        spread_weights(encoder_of(model.get_ref("entity")))
    return model


def retriever(**changes) -> Retriever:
    return biencoder(**changes)


def reranker(
    *, layers: int = 1, width: int = 32, heads: int = 4, length: int = 40, **changes
) -> Reranker:
    """An initialised cross-encoder without dropout."""
    torch.manual_seed(1)
    source = ScratchEncoder(layers, width, heads, vocab_size=200, max_tokens=48)
    model = CrossEncoder(source, length, **changes)
    model.initialize(X=TEXTS)
    set_dropout(model, 0.0)
    spread_weights(encoder_of(model))
    return Reranker(model)


def spread_weights(encoder: nn.Module) -> None:
    """Draw weights anew and larger: with those BERT begins with, all texts look alike."""
    with torch.no_grad():
        for weight in encoder.parameters():
            if weight.dim() == 2:
                weight.copy_(torch.randn_like(weight) * 0.1)


def hugging_face(bert: Bert) -> BertModel:
    """Hugging Face's BERT with the same weights, not copied, and without dropout."""
    with torch.device("meta"):
        model = BertModel(BertConfig(**vars(bert.config)), add_pooling_layer=False)
    model.load_state_dict(dict(bert.named_parameters()), assign=True)
    # What is no weight is not loaded: made anew, outside of "meta".
    model.embeddings.position_ids = torch.arange(bert.config.max_position_embeddings)[None]
    model.embeddings.token_type_ids = torch.zeros_like(model.embeddings.position_ids)
    return model.eval()


def bert_states(
    encoder: nn.Module,
    tokens: TokenIds,
    perturbation: Tensor | None = None,
    segments: Tensor | None = None,
) -> Tensor:
    """Last states [t, d] of one input, by Hugging Face's own path through ``input_ids``.

    segments: int64 [1, t]. perturbation: [t, d], added to the sum of the word, position and
    segment embeddings, where the layer norm of the embeddings reads it.
    """
    transformer = hugging_face(encoder.transformer)
    hook = transformer.embeddings.LayerNorm.register_forward_pre_hook(
        lambda module, inputs: inputs if perturbation is None else (inputs[0] + perturbation,)
    )
    try:
        ids = torch.as_tensor(tokens.ids, dtype=torch.int64)[None]
        return transformer(input_ids=ids, token_type_ids=segments).last_hidden_state[0]
    finally:
        hook.remove()


def bert_vector(encoder: nn.Module, tokens: TokenIds, perturbation: Tensor | None = None) -> Tensor:
    """The vector [d] of one input: mean pooling, length 1."""
    pooled = bert_states(encoder, tokens, perturbation).mean(0)
    return pooled / pooled.norm()


def pair_score(encoder: nn.Module, tokens: TokenIds, perturbation: Tensor | None = None) -> Tensor:
    """The score of one pair: mean over its tokens, the entity's side being the second segment."""
    segments = (torch.arange(len(tokens.ids)) >= tokens.start).long()[None]
    states = bert_states(encoder, tokens, perturbation, segments)
    return states.mean(0) @ encoder.score.weight[0]


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
