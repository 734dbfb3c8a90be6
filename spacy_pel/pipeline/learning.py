"""How a linker is trained: with a session, and steps on batches of examples."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.training import Example, validate_examples
from thinc.api import Model, Optimizer

from .. import architectures
from ..linking.candidate_search import Searchable
from ..reading.gold_mention import GoldMention
from ..reading.mention import DocumentContext
from ..training.optimizer import apply_gradients
from ..training.retriever_trainer import RetrieverTrainer
from ..training.trainer import Trainer
from .gold import gold_numbers, trainable_mentions
from .listening import begin_reading, check_listens
from .training_session import (
    IndexedEntities,
    TrainingSession,
    both_towers_trainer,
    check_candidates,
    is_placeholder,
    mention_tower_trainer,
    reranker_trainer,
    training_entities,
    vocabulary_texts,
)

logger = logging.getLogger(__name__)

# The number of entities that hard negatives are mined among, and that evaluations search, if
# training goes on without ``initialize``.
RESUMED_SEARCH = 20_000


class Learning:
    """Trains the retriever of a linker, or its reranker. It is a part of the linker.

    Args:
        linker: The ``ProxyLinker`` that has it.

    Attributes:
        session: What is there from the start of training until ``finish``; else None.
    """

    def __init__(self, linker: TrainablePipe):
        self.linker = linker
        self.session: TrainingSession | None = None

    @property
    def pool(self) -> Searchable | None:
        """The proxies under training, encoded by the present weights; None if there are none."""
        trainer = self.session.trainer if self.session else None
        is_encoded = isinstance(trainer, RetrieverTrainer) and trainer.pool.searched is not None
        return trainer.pool if is_encoded else None

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None,
        mined_entities: int | None,
        searched_entities: int | None,
        searched_corpus: Callable[[Language], Iterable[Example]] | None,
        searched_row_kind: str | None,
    ) -> None:
        """Fetch or build the encoder, and begin a session (``ProxyLinker.initialize``)."""
        spans_key = self.linker.mention_settings.spans_key
        texts = vocabulary_texts(self.linker.kb, get_examples())
        if self.linker.reranker_model is None and is_placeholder(get_examples(), spans_key):
            self.linker.model.initialize(X=texts)
            self.linker.forget_weights()
            return
        wanted = training_entities(get_examples(), self.linker.kb, spans_key)
        if self.linker.reranker_model is None:
            self.linker.cfg["loss"] = {}
            self.linker.model.initialize(X=texts)
            self.linker.forget_weights()
            check_listens(self.linker.model)
            evaluated = set()
            if searched_corpus and not self.linker.training_settings.freeze_entities:
                evaluated = gold_numbers(searched_corpus(nlp), self.linker.kb, spans_key)
            known = self.linker.training_settings.coreference and self._trainable(get_examples())
            self._begin_session(
                IndexedEntities(
                    wanted, mined_entities, evaluated, searched_entities, searched_row_kind
                ),
                known,
            )
            self.linker.cfg["trained_entities"] = []
        else:
            self._check_candidates()
            self.linker.reranker_model.initialize(X=texts)
            self.linker.forget_weights()
            self._begin_session(IndexedEntities(wanted, None, set(), None))
            self.session.trainer.retrieve(self._trainable(get_examples()))
        self._note_trained(wanted)

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float,
        sgd: Optimizer | None,
        losses: dict[str, float] | None,
    ) -> dict[str, float]:
        """Learn from the gold mentions of a batch (``ProxyLinker.update``)."""
        losses = {} if losses is None else losses
        losses.setdefault(self.linker.name, 0.0)
        validate_examples(examples, "ProxyLinker.update")
        docs = [example.predicted for example in examples]
        documents, backprop = begin_reading(self.linker.model, docs)
        mentions = self._trainable(examples, documents)
        if mentions:
            if self.session is None:
                self.prepare(examples)
            self._note_trained({n for mention in mentions for n in mention.golds})
            caching = self.linker.training_settings.gradient_caching
            architectures.set_dropout(self._model_in_training, drop)
            architectures.set_gradient_caching(self._model_in_training, caching)
            losses[self.linker.name] += sum(self.session.trainer.step(mentions))
            if self.linker.training_settings.loss is not None:
                self.linker.cfg["loss"] = self.linker.training_settings.loss.state()
        backprop()
        if mentions and sgd not in (None, False):
            self.linker.finish_update(sgd)
        return losses

    def prepare(self, examples: Iterable[Example]) -> None:
        """Get ready to go on from a saved pipeline. The first ``update`` does so by itself.

        Args:
            examples: The first batch. Evaluations search its entities, among others.
        """
        if self.linker.reranker_model is not None:
            self._check_candidates()
        elif (
            not self.linker.training_settings.freeze_entities
            and len(self.linker.kb) > RESUMED_SEARCH
        ):
            logger.warning(
                '"%s" goes on from a saved pipeline: until "finish_training" it searches %d '
                "entities of the KB, drawn at random, which may lack those of dev; for figures "
                "that say more, start from @misc = spacy-pel.TrainedEncoder.v1 in place of a "
                "source",
                self.linker.name,
                RESUMED_SEARCH,
            )
        wanted = {number for mention in self._trainable(examples) for number in mention.golds}
        self._begin_session(IndexedEntities(wanted, RESUMED_SEARCH, set(), RESUMED_SEARCH))

    def finish_update(self, sgd: Optimizer) -> None:
        """Apply the accumulated gradients, and drop what was calibrated on the weights before.

        Args:
            sgd: The optimizer.
        """
        linker = self.linker
        apply_gradients(self._model_in_training, sgd)
        linker.runtime.forget()
        linker.fitted.forget_scores()
        if linker.reranker_model is None:
            linker.fitted.forget_threshold()
            linker.encoders.note_update()
        if self.session is not None:
            self.session.trainer.note_update()

    def _trainable(
        self, examples: Iterable[Example], documents: Sequence[DocumentContext] | None = None
    ) -> list[GoldMention]:
        resolved = self.linker.mention_settings.resolve_abbreviations
        return trainable_mentions(
            examples, self.linker.kb, self.linker.mention_settings.spans_key, resolved, documents
        )

    def _begin_session(
        self, indexed: IndexedEntities, mentions: Sequence[GoldMention] | None = None
    ) -> None:
        """Make the trainer. One whose proxies have vectors in the KB indexes nothing.

        mentions: all training mentions, if they are known.
        """
        kb, settings, row_kind = (
            self.linker.kb,
            self.linker.training_settings,
            self.linker.cfg["row_kind"],
        )
        if settings.loss is not None:
            settings.loss.restore(self.linker.cfg["loss"])
        trainer: Trainer
        if self.linker.reranker_model is not None:
            candidates = self.linker.search_settings.rerank
            trainer = reranker_trainer(
                kb, self.linker.retriever, self.linker.reranker, candidates, settings
            )
        elif settings.freeze_entities:
            trainer = mention_tower_trainer(
                self.linker.name, kb, self.linker.retriever, row_kind, settings
            )
        else:
            trainer = both_towers_trainer(
                kb, self.linker.retriever, row_kind, settings, indexed, mentions
            )
        self.session = TrainingSession(trainer, kb)

    def _check_candidates(self) -> None:
        check_candidates(
            self.linker.name, self.linker.kb, self.linker.model, self.linker.search_settings.rerank
        )

    def _note_trained(self, numbers: set[int]) -> None:
        """Remember that these entities were trained on: they are no longer unseen."""
        new = self.session.ids_met_first(numbers)
        if new:
            self.linker.cfg["trained_entities"] = sorted(
                new.union(self.linker.cfg["trained_entities"])
            )

    @property
    def _model_in_training(self) -> Model:
        """What training changes: the reranker, if there is one, and otherwise the retriever."""
        return (
            self.linker.model if self.linker.reranker_model is None else self.linker.reranker_model
        )

    def finish(self) -> None:
        """Leave the training session: from now on the KB is searched."""
        self.session = None
