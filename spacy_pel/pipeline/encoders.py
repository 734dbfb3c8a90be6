"""The encoders of a linker as it uses them: a retriever, and perhaps a reranker."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from thinc.api import Model

from .. import architectures
from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..linking.retriever import Retriever
from ..models.encoders import BertEncoder
from .saving import Saved

# What is of a reranker is imported where it is needed: without one nothing of it is loaded.
if TYPE_CHECKING:
    from ..linking.reranker import Reranker


class Encoders:
    """What is made of a linker's two thinc models when it is first needed.

    A linker makes new ones whenever its models or their weights change.

    Args:
        name: The linker's name, for errors.
        model: The thinc model of the retriever, with or without weights.
        reranker_model: The thinc model of the reranker, if there is one.
        path: The trained linker that the config names, for errors.
    """

    def __init__(self, name: str, model: Model, reranker_model: Model | None, path: str | None):
        self._name = name
        self._model = model
        self._reranker_model = reranker_model
        self._path = path
        self._fitting: str | None = None  # the fingerprint of the KB that was checked

    @cached_property
    def retriever(self) -> Retriever:
        """The trained bi-encoder; PelError if it has no weights."""
        if not architectures.is_initialized(self._model):
            gone = f"there is no trained linker at {self._path}; " if self._path else ""
            raise PelError(
                f'{gone}"{self._name}" has no weights',
                'train it with "python -m spacy train", '
                'or open a trained one: nlp.add_pipe("proxy_linker", config={"path": FOLDER})',
            )
        return Retriever(self._model)

    @cached_property
    def reranker(self) -> Reranker:
        """The trained cross-encoder; PelError if there is none."""
        if self._reranker_model is None or not architectures.is_initialized(self._reranker_model):
            raise PelError(
                f'"{self._name}" has no trained reranker',
                "train one (project/configs/"
                "demo_rerank.cfg shows how), or link without: rerank = 0",
            )
        from ..linking.reranker import Reranker

        return Reranker(self._reranker_model)

    def note_update(self) -> None:
        """The retriever has learnt: vectors that fitted it before may fit no more."""
        self._fitting = None

    def berts(self, reranks: bool) -> list[BertEncoder]:
        """The encoders that mentions pass through: the retriever's, and the reranker's if it is used."""
        towers = [self.retriever.mention_tower]
        if reranks:
            towers += self.reranker.model.layers
        encoders = [architectures.encoder_of(tower) for tower in towers]
        return [encoder for encoder in encoders if isinstance(encoder, BertEncoder)]

    def embedded(self, kb: KnowledgeBase) -> KnowledgeBase:
        """The KB; PelError if it has no vectors, or those of another encoder."""
        if self._fitting != kb.fingerprint:
            kb.check_fingerprint(self.retriever.entity_fingerprint())
            if kb.mentions:
                kb.mentions.check_fingerprint(self.retriever.fingerprint(), kb.path)
            self._fitting = kb.fingerprint
        return kb


def check_listens(retriever: Model) -> None:
    """PelError for a retriever that listens by a reader of its own, which nobody trains or saves."""
    tok2vec = architectures.tok2vec_of(retriever)
    if tok2vec is not None and not any(hasattr(node, "upstream_name") for node in tok2vec.walk()):
        raise PelError(
            "a linker that shares what another component reads cannot read by itself",
            "let it "
            "listen (spacy-transformers.TransformerListener.v1, spacy.Tok2VecListener.v1), and do "
            "not replace its listener (nlp.replace_listeners, replace_listeners in a config)",
        )


def packed_retriever(model: Model) -> bytes:
    """The weights and settings of a retriever, to be saved; PelError as ``check_listens``."""
    check_listens(model)
    return architectures.pack_retriever(model)


def packed_reranker(model: Model) -> bytes:
    """The weights and settings of a reranker, to be saved."""
    from ..architectures.crossencoder import pack_crossencoder

    return pack_crossencoder(model)


def unpacked_reranker(saved: Saved) -> Model:
    """The reranker that was saved."""
    from ..architectures.crossencoder import unpack_crossencoder

    return unpack_crossencoder(saved)
