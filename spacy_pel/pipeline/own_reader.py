"""A linker that listens to a recogniser, in a pipeline without it: it has a copy, and reads by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import spacy
import srsly
from spacy.tokens import Doc
from thinc.api import Config, Model

from .recogniser import KBRecogniser

# From docs to the states of their tokens. It takes the place of spaCy's listener, and learns nothing.
OwnReader = Model[list[Doc], list[np.ndarray]]
_PIPELINE = "pipeline"


def recogniser_of(reader: OwnReader) -> KBRecogniser:
    """The copy."""
    [(_, recogniser)] = reader.attrs[_PIPELINE].pipeline
    return recogniser


def reader_beside(linker: Path) -> OwnReader | None:
    """A copy of the recogniser that a saved linker listens to; None if it listens to none.

    linker: the folder of the linker in its pipeline.
    """
    file = linker.parent / "config.cfg"
    if not file.is_file():
        return None
    components = Config().from_disk(file, interpolate=False)["components"]
    model = components.get(linker.name, {}).get("model", {})
    upstream = (model.get("tok2vec") or {}).get("upstream")
    if components.get(upstream, {}).get("factory") != KBRecogniser.factory:
        return None
    others = [name for name in components if name != upstream]
    return _reading(spacy.load(linker.parent, exclude=others))


def packed_reader(reader: OwnReader) -> bytes:
    """A reader as bytes."""
    nlp = reader.attrs[_PIPELINE]
    return srsly.msgpack_dumps({"config": nlp.config.to_str(), "data": nlp.to_bytes()})


def unpacked_reader(packed: bytes) -> OwnReader:
    """The reader that ``packed_reader`` packed."""
    saved = srsly.msgpack_loads(packed)
    nlp = spacy.util.load_model_from_config(Config().from_str(saved["config"]))
    return _reading(nlp.from_bytes(saved["data"]))


def _reading(nlp: spacy.Language) -> OwnReader:
    return Model("own-reader", _forward, attrs={_PIPELINE: nlp})


def _forward(
    model: OwnReader, docs: Sequence[Doc], is_train: bool
) -> tuple[list[np.ndarray], Callable[[object], list]]:
    return recogniser_of(model).token_states(docs), lambda gradients: []
