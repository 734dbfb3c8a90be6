"""The docs as a retriever reads them that shares what a component before the linker has read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from spacy.tokens import Doc
from thinc.api import Model

from ..architectures import pack_model, tok2vec_of
from ..errors import PelError
from ..reading.shared_states import ReadText

Texts = list[ReadText] | None


def read_texts(retriever: Model, docs: Sequence[Doc]) -> Texts:
    """The texts of the docs with the states of their tokens; None for a retriever that reads by
    itself.

    Raises PelError if a doc was not read before.
    """
    return begin_reading(retriever, docs, is_train=False)[0]


def begin_reading(
    retriever: Model, docs: Sequence[Doc], is_train: bool = True
) -> tuple[Texts, Callable[[], object]]:
    """As ``read_texts``, and what is to be called once when their gradients are known.

    It is to be called without any mention, too: the last component that listens is the one that
    makes the shared one learn from all.
    """
    tok2vec = tok2vec_of(retriever)
    if tok2vec is None:
        return None, lambda: None
    states, backprop = tok2vec(list(docs), is_train)
    texts = [_read(tok2vec, doc, own) for doc, own in zip(docs, states)]
    return texts, lambda: backprop([tok2vec.ops.asarray(text.gradient) for text in texts])


def check_listens(retriever: Model) -> None:
    """Raises PelError if it has a reader of its own where it should listen: nobody would train it
    or save its weights."""
    tok2vec = tok2vec_of(retriever)
    if tok2vec is not None and not any(hasattr(node, "upstream_name") for node in tok2vec.walk()):
        raise PelError(
            "a linker that shares what another component reads cannot read by itself",
            "let it "
            "listen (spacy-transformers.TransformerListener.v1, spacy.Tok2VecListener.v1), and do "
            "not replace its listener (nlp.replace_listeners, replace_listeners in a config)",
        )


def packed_retriever(retriever: Model) -> bytes:
    """Its weights and settings, to be saved. Raises PelError as ``check_listens`` does."""
    check_listens(retriever)
    return pack_model(retriever)


def _read(tok2vec: Model, doc: Doc, states: object) -> ReadText:
    values = np.ascontiguousarray(tok2vec.ops.to_numpy(states), dtype=np.float32)
    if doc.text.strip() and not values.any():  # blanks have no states
        raise PelError(
            "the linker shares what another component reads, which has not read this doc",
            "run the "
            "pipeline with it, and when training freeze it only as one of the annotating_components",
        )
    starts = [token.idx for token in doc]
    offsets = np.array([(start, start + len(t)) for start, t in zip(starts, doc)], dtype=np.int64)
    return ReadText.of(doc.text, values, offsets.reshape(-1, 2))
