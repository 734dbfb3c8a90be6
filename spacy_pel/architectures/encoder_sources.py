"""Where a model gets the weights and the tokenizer of its encoders when it is initialised.

``trained_encoder`` has one more source: a trained linker.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

import torch
from thinc.api import get_torch_default_device
from tokenizers import AddedToken, Tokenizer

from ..errors import PelError
from ..models.bert import build_transformer, first_layers
from ..reading.word_pieces import MENTION_END, MENTION_START, train_tokenizer


class Encoders(NamedTuple):
    """What the towers of a model start from.

    Attributes:
        mention: A BERT for mentions.
        entity: A BERT for entities. It may be the same object.
        tokenizer: The tokenizer of both.
    """

    mention: torch.nn.Module
    entity: torch.nn.Module
    tokenizer: Tokenizer


# From texts, from which a vocabulary may be learned.
EncoderSource = Callable[[Iterable[str]], Encoders]


def PretrainedEncoder(name: str | None, layers: int | None = None) -> EncoderSource:
    """A Hugging Face encoder of BERT architecture.

    It is loaded when the pipeline is initialised, and downloaded if the name is one on the hub. It
    is not loaded again later, because the weights are saved with the pipeline.

    Args:
        name: The name on the hub, or the path of a folder. None is refused when the pipeline is
            initialised: the configs of this project leave it to be given.
        layers: The number of layers to keep, from the first; None: all. It applies to both towers.
            ``mention_layers`` of the architectures is for the mention tower alone.
    """
    return partial(_pretrained, name, layers)


def ScratchEncoder(
    layers: int, width: int, heads: int, vocab_size: int, max_tokens: int
) -> EncoderSource:
    """A small BERT with random weights, and a vocabulary that is learned from the KB and the corpus.

    Args:
        layers: The number of layers.
        width: The length of the embeddings and states.
        heads: The number of attention heads.
        vocab_size: The most word pieces, unless the alphabet alone has more.
        max_tokens: The number of positions.
    """
    return partial(_scratch, layers, width, heads, vocab_size, max_tokens)


def no_source(texts: Iterable[str]):
    """The source of a model that was loaded. It has its weights and refuses to give others.

    Raises:
        PelError: Always.
    """
    raise PelError(
        "the encoder is already trained and is not initialised again",
        "to train it further, give "
        'its pipeline as its "source" in the config, or for a new retriever as the path of its '
        "encoder, @misc = spacy-pel.TrainedEncoder.v1",
    )


def _pretrained(name: str | None, layers: int | None, texts: Iterable[str]) -> Encoders:
    if name is None:
        raise PelError(
            "no encoder is named",
            "name a BERT of Hugging Face such as cambridgeltl/SapBERT-from-PubMedBERT-fulltext, or "
            "its folder, in the config or with --paths.encoder",
        )
    # Imported here: it takes seconds, and a saved pipeline does not need it.
    from transformers import AutoModel, AutoTokenizer

    try:
        loaded_tokenizer = AutoTokenizer.from_pretrained(name, use_fast=True)
        transformer = AutoModel.from_pretrained(name).float().to(get_torch_default_device())
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise PelError(
            f'cannot load the encoder "{name}": {reason}',
            "give a Hugging Face name or the path of "
            "a folder with config.json, tokenizer.json and model.safetensors",
        ) from error
    if transformer.config.model_type != "bert":
        raise PelError(
            f'the encoder "{name}" is of type "{transformer.config.model_type}"',
            "choose one of BERT architecture",
        )
    if layers is not None:
        transformer = first_layers(transformer, layers)
    tokenizer = Tokenizer.from_str(loaded_tokenizer.backend_tokenizer.to_str())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    markers = [AddedToken(t, special=True, normalized=False) for t in (MENTION_START, MENTION_END)]
    tokenizer.add_special_tokens(markers)
    transformer.resize_token_embeddings(tokenizer.get_vocab_size(), mean_resizing=False)
    return Encoders(transformer, transformer, tokenizer)


def _scratch(
    layers: int, width: int, heads: int, vocab_size: int, max_tokens: int, texts: Iterable[str]
) -> Encoders:
    tokenizer = train_tokenizer(_not_empty(texts), vocab_size)
    transformer = build_transformer(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        max_position_embeddings=max_tokens,
        # BERT's 0.02 is for a width of 768. Scaled so, attention carries as much of the context into
        # a narrow network.
        initializer_range=0.02 * (768 / width) ** 0.5,
    )
    return Encoders(transformer, transformer, tokenizer)


def _not_empty(texts: Iterable[str]) -> Iterator[str]:
    """The texts; PelError if there are none, as no vocabulary can be learned from nothing."""
    empty = True
    for text in texts:
        empty = False
        yield text
    if empty:
        raise PelError("no texts to learn a vocabulary from", "give a KB or training examples")
