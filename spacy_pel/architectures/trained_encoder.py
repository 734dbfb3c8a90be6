"""The encoders of a trained linker, as a source of weights."""

# No "from __future__ import annotations": the registry reads the types of the arguments.

import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from spacy.util import get_model_meta, get_package_path, is_package

from ..errors import PelError
from .encoder_sources import Encoders, EncoderSource
from .retriever_model import architecture_of
from .saved_retriever import unpack_retriever
from .towers import encoder_of


def TrainedEncoder(path: str) -> EncoderSource:
    """The encoders of a trained linker.

    Use it to train a retriever further with other settings, or to start a cross-encoder from the
    retriever's mention encoder.

    Args:
        path: The folder of a pipeline, or of the linker in it; or the name of an installed pipeline.
    """
    return partial(_trained, path)


def pipeline_folder(name: str | os.PathLike) -> Path | None:
    """The folder of a pipeline, given that folder or the name of an installed package; or None."""
    folder = Path(name)
    if folder.exists():
        return folder
    if not is_package(str(name)):
        return None
    package = get_package_path(str(name))
    meta = get_model_meta(package)
    return package / f"{meta['lang']}_{meta['name']}-{meta['version']}"


def linker_folder(name: str | os.PathLike) -> Path:
    """Find the folder of a trained linker.

    Args:
        name: The folder of a linker or of a pipeline, or the name of an installed pipeline. The
            linker of a pipeline may have any name; of several, the one named "proxy_linker" is
            taken.

    Raises:
        PelError: If there is none.
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


def _trained(path: str, texts: Iterable[str]) -> Encoders:
    retriever = unpack_retriever(linker_folder(path) / "model")
    mention, entity = (encoder_of(retriever.get_ref(side)) for side in ("mention", "entity"))
    # Where another component reads the mentions, the mention tower has no BERT.
    source = entity if architecture_of(retriever).listens else mention
    return Encoders(source.transformer, entity.transformer, entity.tokenizer)
