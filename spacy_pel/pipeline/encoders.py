"""The encoders of a linker: a retriever, perhaps a reranker, and what computes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from thinc.api import Model

from .. import architectures
from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..linking.retriever import Retriever
from ..models.bert import BertEncoder
from .kb_reference import KBPipe
from .listening import packed_retriever
from .runtime import Runtime
from .saving import Saved, SavedFile
from .settings import SearchSettings

if TYPE_CHECKING:
    from ..linking.reranker import Reranker


class EncodersPipe(KBPipe):
    """A component that has encoders and is saved with their weights.

    Attributes:
        model: The thinc model of the retriever, with or without weights.
        reranker_model: The thinc model of the reranker; None: there is no reranker.
        runtime: Computes the encoders when the component links.
        search_settings: Has the number of candidates that are reranked.
    """

    model: Model
    reranker_model: Model | None
    runtime: Runtime
    search_settings: SearchSettings

    def take_encoders(
        self, model: Model, reranker: Model | None, runtime: str, path: str | None
    ) -> None:
        """Take what the config names; opens nothing.

        Args:
            model: The retriever.
            reranker: The reranker, if there is one.
            runtime: The name of a ``Runtime``.
            path: The trained linker that the config names, for errors.
        """
        self.model = model
        self.reranker_model = self._configured_reranker = reranker
        self.runtime = Runtime(runtime)
        self._path = path
        self._retriever: Retriever | None = None
        self._reranker: Reranker | None = None
        self._checked_fingerprint: str | None = None  # of a KB whose vectors fit

    @property
    def retriever(self) -> Retriever:
        """The trained bi-encoder, which finds candidates.

        Raises:
            PelError: It has no weights.
        """
        if self._retriever is None:
            if not architectures.is_initialized(self.model):
                gone = f"there is no trained linker at {self._path}; " if self._path else ""
                raise PelError(
                    f'{gone}"{self.name}" has no weights',
                    'train it with "python -m spacy train", '
                    'or open a trained one: nlp.add_pipe("proxy_linker", config={"path": FOLDER})',
                )
            self._retriever = Retriever(self.model)
        return self._retriever

    @property
    def reranker(self) -> Reranker:
        """The trained cross-encoder, which orders candidates again.

        Raises:
            PelError: There is none.
        """
        if self._reranker is None:
            model = self.reranker_model
            if model is None or not architectures.is_initialized(model):
                raise PelError(
                    f'"{self.name}" has no trained reranker',
                    "train one (project/configs/"
                    "demo_rerank.cfg shows how), or link without: rerank = 0",
                )
            # Imported here: without a reranker nothing of it is loaded.
            from ..linking.reranker import Reranker

            self._reranker = Reranker(model)
        return self._reranker

    @property
    def reranked(self) -> int:
        """The number of candidates of a mention that are ranked again; 0 without a reranker."""
        return 0 if self.reranker_model is None else self.search_settings.rerank

    @property
    def embedded_kb(self) -> KnowledgeBase:
        """The KB, which has vectors of this retriever.

        Raises:
            PelError: The KB has no vectors, or those of another encoder.
        """
        if self._checked_fingerprint != self.kb.fingerprint:
            self.kb.check_fingerprint(self.retriever.entity_fingerprint())
            if self.kb.mentions:
                self.kb.mentions.check_fingerprint(self.retriever.fingerprint(), self.kb.path)
            self._checked_fingerprint = self.kb.fingerprint
        return self.kb

    def linking_encoders(self) -> list[BertEncoder]:
        """The encoders that linking passes mentions through."""
        towers = [self.retriever.mention_tower]
        if self.reranked:
            towers += self.reranker.model.layers
        encoders = [architectures.encoder_of(tower) for tower in towers]
        return [encoder for encoder in encoders if isinstance(encoder, BertEncoder)]

    def forget_weights(self) -> None:
        """Drop what was computed with the old weights. A subclass may have more to drop."""
        self._retriever = self._reranker = self._checked_fingerprint = None
        self.runtime.forget()

    def encoder_files(self) -> dict[str, SavedFile]:
        """How the encoders are saved: weights, settings and tokenizers."""
        return {
            "model": SavedFile(lambda _: packed_retriever(self.model), self._set_model),
            "reranker": SavedFile(
                None if self.reranker_model is None else self._packed_reranker,
                self._set_reranker,
                missing=self._unset_reranker,
            ),
        }

    def _set_model(self, saved: Saved) -> None:
        tok2vec = architectures.tok2vec_of(self.model)  # from the pipeline's config
        self.model = architectures.unpack_retriever(saved, tok2vec)
        self.forget_weights()

    def _packed_reranker(self, path: Path | None) -> bytes:
        from ..architectures.crossencoder import pack_crossencoder

        return pack_crossencoder(self.reranker_model)

    def _set_reranker(self, saved: Saved) -> None:
        from ..architectures.crossencoder import unpack_crossencoder

        self.reranker_model = unpack_crossencoder(saved)
        self.forget_weights()

    def _unset_reranker(self) -> None:
        self.reranker_model, self._reranker = self._configured_reranker, None
