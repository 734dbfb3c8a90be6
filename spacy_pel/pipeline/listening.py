"""The docs as a linker reads them that may listen to a component before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from spacy.tokens import Doc
from thinc.api import Model

from ..architectures import pack_retriever, tok2vec_of
from ..errors import PelError
from ..reading.mention import DocumentContext, TokenStates


def read_documents(retriever: Model, docs: Sequence[Doc]) -> list[DocumentContext]:
    """The contexts of docs, with the states of their tokens if the retriever listens.

    Raises:
        PelError: If the retriever listens, and no component has read a doc.
    """
    return begin_reading(retriever, docs, is_train=False)[0]


def begin_reading(
    retriever: Model, docs: Sequence[Doc], is_train: bool = True
) -> tuple[list[DocumentContext], Callable[[], object]]:
    """As ``read_documents``, for training.

    Returns:
        The contexts, and a function to call once when the gradients of their states are known. Call
        it even if there is no mention: the last component that listens is the one that makes the
        shared component learn from all.
    """
    tok2vec = tok2vec_of(retriever)
    if tok2vec is None:
        return [DocumentContext() for _ in docs], lambda: None
    all_states, backprop = tok2vec(list(docs), is_train)
    tokens = [_token_states(tok2vec, doc, states) for doc, states in zip(docs, all_states)]

    def finish() -> object:
        return backprop([tok2vec.ops.asarray(own.gradient) for own in tokens])

    return [DocumentContext(own) for own in tokens], finish


def check_listens(retriever: Model) -> None:
    """Check that a retriever that is to listen has no reader of its own.

    No component would train it or save its weights.

    Raises:
        PelError: If it has one.
    """
    tok2vec = tok2vec_of(retriever)
    if tok2vec is not None and not any(hasattr(node, "upstream_name") for node in tok2vec.walk()):
        raise PelError(
            "a linker that shares what another component reads cannot read by itself",
            "let it "
            "listen (spacy-transformers.TransformerListener.v1, spacy.Tok2VecListener.v1), and do "
            "not replace its listener (nlp.replace_listeners, replace_listeners in a config)",
        )


def packed_retriever(retriever: Model) -> bytes:
    """The weights and settings of a retriever, to be saved.

    Raises:
        PelError: As ``check_listens`` does.
    """
    check_listens(retriever)
    return pack_retriever(retriever)


def _token_states(tok2vec: Model, doc: Doc, states: object) -> TokenStates:
    """The states of the doc's tokens as numpy has them; PelError if there are none."""
    values = np.ascontiguousarray(tok2vec.ops.to_numpy(states), dtype=np.float32)
    if doc.text.strip() and not values.any():  # blanks have no states
        raise PelError(
            "the linker shares what another component reads, which has not read this doc",
            "run the "
            "pipeline with it, and when training freeze it only as one of the annotating_components",
        )
    starts = [token.idx for token in doc]
    offsets = np.array([(start, start + len(t)) for start, t in zip(starts, doc)], dtype=np.int64)
    return TokenStates(values, offsets.reshape(-1, 2), np.zeros_like(values))
