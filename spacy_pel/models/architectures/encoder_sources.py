"""Sources of the initial weights and the tokenizer of a model."""

# No "from __future__ import annotations": the registry reads the types of the arguments.

import os
from collections.abc import Iterable
from functools import partial
from itertools import chain
from pathlib import Path

from spacy.util import get_model_meta, get_package_path, is_package
from thinc.api import get_torch_default_device
from tokenizers import AddedToken, Tokenizer

from ...errors import PelError
from ...text.token_inputs import MENTION_END, MENTION_START, train_tokenizer
from ..bert import build_transformer, with_layers
from .retrievers import unpack_retriever
from .towers import Encoders, EncoderSource, encoder_of


def PretrainedEncoder(name: str | None, layers: int | None = None) -> EncoderSource:
    """Return a source that loads a Hugging Face encoder of BERT architecture.

    Initialising the pipeline loads the encoder, and downloads it if the name is on the hub. A saved pipeline
    has its own weights.

    Args:
        name: The name on the hub, or the path of a folder. None is a placeholder in configs, which
            initialisation refuses.
        layers: The number of layers to keep, from the first; None: all. It applies to both towers.
            ``mention_layers`` of the architectures applies to the mention tower alone.
    """
    return partial(_pretrained, name, layers)


def ScratchEncoder(
    layers: int, width: int, heads: int, vocab_size: int, max_tokens: int
) -> EncoderSource:
    """Return a source of a small BERT with random weights, and a vocabulary learned from KB and corpus.

    Args:
        layers: The number of layers.
        width: The length of the embeddings and states.
        heads: The number of attention heads.
        vocab_size: The maximum number of word pieces, unless the alphabet alone has more.
        max_tokens: The number of positions.
    """
    return partial(_scratch, layers, width, heads, vocab_size, max_tokens)


def TrainedEncoder(path: str) -> EncoderSource:
    """Return a source of the encoders of a trained linker, for other settings or a cross-encoder.

    Args:
        path: The folder of a pipeline or of its linker, or the name of an installed pipeline.
    """
    return partial(_trained, path)


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
        transformer = with_layers(transformer, layers, spread=False)
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
    remaining = iter(texts)
    if (first := next(remaining, None)) is None:
        raise PelError("no texts to learn a vocabulary from", "give a KB or training examples")
    tokenizer = train_tokenizer(chain([first], remaining), vocab_size)
    transformer = build_transformer(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        max_position_embeddings=max_tokens,
        # BERT's 0.02 is for a width of 768. A narrow network needs larger weights for attention to carry
        # as much context.
        initializer_range=0.02 * (768 / width) ** 0.5,
    )
    return Encoders(transformer, transformer, tokenizer)


def _trained(path: str, texts: Iterable[str]) -> Encoders:
    retriever = unpack_retriever(linker_folder(path) / "model")
    mention, entity = (encoder_of(retriever.get_ref(side)) for side in ("mention", "entity"))
    # The mention tower has no BERT if another component reads the mentions.
    source = entity if retriever.attrs["architecture"].listens else mention
    return Encoders(source.transformer, entity.transformer, entity.tokenizer)


def pipeline_folder(name: str | os.PathLike[str]) -> Path | None:
    """Return the folder of a pipeline, given as a folder or the name of an installed package, or None."""
    folder = Path(name)
    if folder.exists():
        return folder
    if not is_package(str(name)):
        return None
    package = get_package_path(str(name))
    meta = get_model_meta(package)
    return package / f"{meta['lang']}_{meta['name']}-{meta['version']}"


def linker_folder(name: str | os.PathLike[str]) -> Path:
    """Return the folder of a trained linker.

    Args:
        name: The folder of the linker or of its pipeline, or the name of an installed pipeline. If the
            pipeline has several linkers, the one named "proxy_linker" is used.

    Raises:
        PelError: There is no trained linker.
    """
    path = pipeline_folder(name) or Path(name)
    linkers = [file.parent for file in sorted(path.glob("*/kb.json"))]
    for folder in (path, path / "proxy_linker", *linkers):
        if (folder / "model").is_file():
            return folder
    raise PelError(
        f"no trained linker in {path}",
        'give the folder of a pipeline with a "proxy_linker", such as training/model-best, or the '
        "name of an installed one",
    )
