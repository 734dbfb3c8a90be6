"""A linker that listens to a recogniser, in a pipeline without it: it has a copy, and reads by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import spacy
import srsly
from spacy.tokens import Doc
from thinc.api import Config, Model

from .kb_component import KBComponent
from .recogniser import KBRecogniser

# From docs to the states of their tokens. It takes the place of spaCy's listener, and learns nothing.
OwnReader = Model[list[Doc], list[np.ndarray]]
_PIPELINE, _LINKER = "pipeline", "linker"


def reader_beside(folder: Path, linker: KBComponent) -> OwnReader | None:
    """A copy of the recogniser that a saved linker listens to; None if it listens to none.

    folder: of the saved linker in its pipeline. The copy gets the KB of the linker that is given.
    """
    file = folder.parent / "config.cfg"
    if not file.is_file():
        return None
    components = Config().from_disk(file, interpolate=False)["components"]
    model = components.get(folder.name, {}).get("model", {})
    upstream = (model.get("tok2vec") or {}).get("upstream")
    if components.get(upstream, {}).get("factory") != KBRecogniser.factory:
        return None
    others = [name for name in components if name != upstream]
    return _reading(spacy.load(folder.parent, exclude=others), linker)


def packed_reader(reader: OwnReader) -> bytes:
    """A reader as bytes."""
    nlp = reader.attrs[_PIPELINE]
    return srsly.msgpack_dumps({"config": nlp.config.to_str(), "data": nlp.to_bytes()})


def unpacked_reader(packed: bytes, linker: KBComponent) -> OwnReader:
    """The reader that ``packed_reader`` packed, for a linker."""
    saved = srsly.msgpack_loads(packed)
    nlp = spacy.util.load_model_from_config(Config().from_str(saved["config"]))
    return _reading(nlp.from_bytes(saved["data"]), linker)


def _reading(nlp: spacy.Language, linker: KBComponent) -> OwnReader:
    return Model("own-reader", _forward, attrs={_PIPELINE: nlp, _LINKER: linker})


def _forward(
    model: OwnReader, docs: Sequence[Doc], is_train: bool
) -> tuple[list[np.ndarray], Callable[[object], list]]:
    [(_, recogniser)] = model.attrs[_PIPELINE].pipeline
    recogniser.use_kb(model.attrs[_LINKER].kb)
    return recogniser.token_states(docs), lambda gradients: []
