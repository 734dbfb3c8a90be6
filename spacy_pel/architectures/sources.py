"""Where the weights and the tokenizer of an encoder come from when a model is initialised."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from tokenizers import AddedToken, Tokenizer

from ..errors import PelError
from ..models.bert import build_transformer
from ..reading.inputs import MENTION_END, MENTION_START, train_tokenizer


class Encoders(NamedTuple):
    """What towers start from: two BERTs, which may be one and the same, with one tokenizer."""

    mention: torch.nn.Module
    entity: torch.nn.Module
    tokenizer: Tokenizer


# From texts to learn a vocabulary from.
EncoderSource = Callable[[Iterable[str]], Encoders]


def PretrainedEncoder(name: str) -> EncoderSource:
    """A Hugging Face encoder of BERT architecture, by hub name or path.

    Loads (and, for a hub name, downloads) when the pipeline is initialised, never later: the
    weights travel with the pipeline.
    """
    return partial(_pretrained, name)


def ScratchEncoder(
    layers: int, width: int, heads: int, vocab_size: int, max_tokens: int
) -> EncoderSource:
    """A small BERT with random weights, and a WordPiece vocabulary learned from the KB and corpus.

    layers, width, heads: its size. vocab_size: the most word pieces, if the alphabet alone does not
    take more. max_tokens: its positions.
    """
    return partial(_scratch, layers, width, heads, vocab_size, max_tokens)


def TrainedEncoder(path: str) -> EncoderSource:
    """The encoders of a trained linker: a pipeline's folder, or the linker's own.

    To train a retriever further under other settings, or to start a cross-encoder from that of its
    mentions.
    """
    return partial(_trained, path)


def linker_folder(path: Path) -> Path:
    """The folder of the trained linker at a path: the path itself, or the linker of a pipeline,
    whatever its name; of several the one named "proxy_linker".

    Raises PelError if there is none.
    """
    linkers = [file.parent for file in sorted(path.glob("*/kb.json"))]
    for folder in (path, path / "proxy_linker", *linkers):
        if (folder / "model").is_file():
            return folder
    raise PelError(
        f"no trained linker in {path}",
        'give the folder of a pipeline with a "proxy_linker", such as training/model-best',
    )


def no_source(texts: Iterable[str]):
    """The source of a model that was loaded."""
    raise PelError(
        "the encoder is already trained and is not initialised again",
        "to train it further, give "
        'its pipeline as its "source" in the config, or for a new retriever as the path of its '
        "encoder, @misc = spacy-pel.TrainedEncoder.v1",
    )


def _trained(path: str, texts: Iterable[str]) -> Encoders:
    # Imported here: a retriever is made with a source, and this one is made of a retriever.
    from .retrievers import from_packed, shares_reading
    from .towers import encoder_of

    retriever = from_packed(linker_folder(Path(path)) / "model")
    mention, entity = (encoder_of(retriever.get_ref(side)) for side in ("mention", "entity"))
    own = entity if shares_reading(retriever) else mention  # what is shared is not its own
    return Encoders(own.transformer, entity.transformer, entity.tokenizer)


def _pretrained(name: str, texts: Iterable[str]) -> Encoders:
    # Imported here: it takes seconds, and a saved pipeline does not need it.
    from spacy_transformers.layers.transformer_model import huggingface_from_pretrained

    try:
        loaded = huggingface_from_pretrained(name, {"use_fast": True}, {})
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise PelError(
            f'cannot load the encoder "{name}": {reason}',
            "give a Hugging Face name or the path of "
            "a folder with config.json, tokenizer.json and model.safetensors",
        ) from error
    transformer = loaded.transformer
    if transformer.config.model_type != "bert":
        raise PelError(
            f'the encoder "{name}" is of type "{transformer.config.model_type}"',
            "choose one of BERT architecture",
        )
    tokenizer = Tokenizer.from_str(loaded.tokenizer.backend_tokenizer.to_str())
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
        # BERT's 0.02 is for a width of 768. At this scale attention carries as much of the context
        # into a narrow network.
        initializer_range=0.02 * (768 / width) ** 0.5,
    )
    return Encoders(transformer, transformer, tokenizer)


def _not_empty(texts: Iterable[str]) -> Iterator[str]:
    """The texts; PelError if there are none, since no vocabulary can be learned from nothing."""
    empty = True
    for text in texts:
        empty = False
        yield text
    if empty:
        raise PelError("no texts to learn a vocabulary from", "give a KB or training examples")
