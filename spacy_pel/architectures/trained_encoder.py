"""The encoders of a trained linker, as a source of weights."""

# No "from __future__ import annotations": the registry reads the types of the arguments.

from collections.abc import Iterable
from functools import partial
from pathlib import Path

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
        path: The folder of a pipeline, or of the linker in it.
    """
    return partial(_trained, path)


def linker_folder(path: Path) -> Path:
    """Find the folder of a trained linker.

    Args:
        path: The folder of a linker, or of a pipeline. The linker of a pipeline may have any name;
            of several, the one named "proxy_linker" is taken.

    Raises:
        PelError: If there is none.
    """
    linkers = [file.parent for file in sorted(path.glob("*/kb.json"))]
    for folder in (path, path / "proxy_linker", *linkers):
        if (folder / "model").is_file():
            return folder
    raise PelError(
        f"no trained linker in {path}",
        'give the folder of a pipeline with a "proxy_linker", such as training/model-best',
    )


def _trained(path: str, texts: Iterable[str]) -> Encoders:
    retriever = unpack_retriever(linker_folder(Path(path)) / "model")
    mention, entity = (encoder_of(retriever.get_ref(side)) for side in ("mention", "entity"))
    # Where another component reads the mentions, the mention tower has no BERT.
    source = entity if architecture_of(retriever).listens else mention
    return Encoders(source.transformer, entity.transformer, entity.tokenizer)
