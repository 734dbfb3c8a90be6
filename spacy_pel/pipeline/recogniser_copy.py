"""The copy of a ``kb_ner`` in a linker that listens to it, for pipelines without that ``kb_ner``."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import spacy
import srsly
from spacy.language import Language
from spacy.tokens import Doc
from thinc.api import Config, Model

from .kb_component import KBComponent
from .kb_ner import KBRecogniser

# Computes the states of the tokens of docs in place of spaCy's listener, without training.
RecogniserCopy = Model[list[Doc], list[np.ndarray]]
_PIPELINE, _LINKER = "pipeline", "linker"


def reader_beside(folder: Path, linker: KBComponent) -> RecogniserCopy | None:
    """Return a copy of the recogniser that a saved linker listens to, or None.

    Args:
        folder: The folder of the saved linker in its pipeline.
        linker: The linker whose KB the copy reads.
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


def packed_reader(reader: RecogniserCopy) -> bytes:
    """Return a reader as bytes."""
    nlp = reader.attrs[_PIPELINE]
    packed: bytes = srsly.msgpack_dumps({"config": nlp.config.to_str(), "data": nlp.to_bytes()})
    return packed


def unpacked_reader(packed: bytes, linker: KBComponent) -> RecogniserCopy:
    """Restore a reader from ``packed_reader``, for a linker."""
    saved = srsly.msgpack_loads(packed)
    nlp = spacy.util.load_model_from_config(Config().from_str(saved["config"]))
    return _reading(nlp.from_bytes(saved["data"]), linker)


def _reading(nlp: Language, linker: KBComponent) -> RecogniserCopy:
    return Model("recogniser-copy", _forward, attrs={_PIPELINE: nlp, _LINKER: linker})


def _forward(
    model: RecogniserCopy, docs: Sequence[Doc], is_train: bool
) -> tuple[list[np.ndarray], Callable[[object], list[Doc]]]:
    [(_, recogniser)] = model.attrs[_PIPELINE].pipeline
    recogniser.use_kb(model.attrs[_LINKER].kb)
    return recogniser.token_states(docs), lambda gradients: []
