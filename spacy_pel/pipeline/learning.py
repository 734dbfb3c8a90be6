"""How a linker is trained: a trainer for the time of a training, and steps on batches of examples."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.training import Example, validate_examples
from thinc.api import Model, Optimizer

from .. import architectures
from ..errors import PelError
from ..linking.candidate_search import Searchable
from ..reading.mention import DocumentContext, GoldMention
from ..spans import mention_spans
from ..training.optimizer import apply_gradients
from ..training.retriever_trainer import RetrieverTrainer
from ..training.trainer import Trainer
from .gold import gold_numbers, trainable_mentions
from .listening import begin_reading, check_listens
from .trainers import (
    IndexedEntities,
    both_towers_trainer,
    check_candidates,
    mention_tower_trainer,
    reranker_trainer,
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
        trainer: What trains, from the start of training until ``finish``; else None.
    """

    def __init__(self, linker: TrainablePipe):
        self.linker = linker
        self.trainer: Trainer | None = None
        self._met: set[int] = set()  # the entities that the trainer has been given

    @property
    def pool(self) -> Searchable | None:
        """The proxies under training, encoded by the present weights; None if there are none."""
        is_encoded = isinstance(self.trainer, RetrieverTrainer) and self.trainer.pool.searched
        return self.trainer.pool if is_encoded else None

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
        """Fetch or build the encoder, and make the trainer (``ProxyLinker.initialize``)."""
        linker, kb, settings = self.linker, self.linker.kb, self.linker.training_settings
        spans_key = linker.mention_settings.spans_key
        # As nlp.initialize() makes it: one example without a mention.
        first = [mention_spans(e.reference, spans_key) for e in islice(get_examples(), 2)]
        is_placeholder = linker.reranker_model is None and first == [[]]
        wanted = set() if is_placeholder else gold_numbers(get_examples(), kb, spans_key)
        if not wanted and not is_placeholder:
            raise PelError(
                f"no mention of the training examples has an entity in {kb.path}",
                "check that the corpus and the KB use the same identifiers; to leave a linker as "
                "it is, give it a source in the config, or name it among the frozen_components",
            )
        self._initialize_model(get_examples())
        if is_placeholder:
            return
        if linker.reranker_model is not None:
            self._begin(IndexedEntities(wanted, None, set(), None))
            self.trainer.retrieve(self._trainable(get_examples()))
        else:
            check_listens(linker.model)
            evaluated = set()
            if searched_corpus and not settings.freeze_entities:
                evaluated = gold_numbers(searched_corpus(nlp), kb, spans_key)
            known = settings.coreference and self._trainable(get_examples())
            linker.cfg["loss"] = {}
            self._begin(
                IndexedEntities(
                    wanted, mined_entities, evaluated, searched_entities, searched_row_kind
                ),
                known,
            )
            linker.cfg["trained_entities"] = []
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
        linker, settings = self.linker, self.linker.training_settings
        losses = {} if losses is None else losses
        losses.setdefault(linker.name, 0.0)
        validate_examples(examples, "ProxyLinker.update")
        docs = [example.predicted for example in examples]
        documents, backprop = begin_reading(linker.model, docs)
        mentions = self._trainable(examples, documents)
        if mentions:
            if self.trainer is None:
                self.prepare(examples)
            self._note_trained({n for mention in mentions for n in mention.golds})
            architectures.set_dropout(self._model, drop)
            architectures.set_gradient_caching(self._model, settings.gradient_caching)
            losses[linker.name] += sum(self.trainer.step(mentions))
            if settings.loss is not None:
                linker.cfg["loss"] = settings.loss.state()
        backprop()
        if mentions and sgd not in (None, False):
            linker.finish_update(sgd)
        return losses

    def prepare(self, examples: Iterable[Example]) -> None:
        """Get ready to go on from a saved pipeline. The first ``update`` does so by itself.

        Args:
            examples: The first batch. Evaluations search its entities, among others.
        """
        linker = self.linker
        if linker.reranker_model is not None:
            check_candidates(linker)
        encodes = linker.reranker_model is None and not linker.training_settings.freeze_entities
        if encodes and len(linker.kb) > RESUMED_SEARCH:
            logger.warning(
                '"%s" goes on from a saved pipeline: until "finish_training" it searches %d '
                "entities of the KB, drawn at random, which may lack those of dev; for figures "
                "that say more, start from @misc = spacy-pel.TrainedEncoder.v1 in place of a "
                "source",
                linker.name,
                RESUMED_SEARCH,
            )
        wanted = {number for mention in self._trainable(examples) for number in mention.golds}
        self._begin(IndexedEntities(wanted, RESUMED_SEARCH, set(), RESUMED_SEARCH))

    def finish_update(self, sgd: Optimizer) -> None:
        """Apply the accumulated gradients, and drop what was calibrated on the weights before.

        Args:
            sgd: The optimizer.
        """
        linker = self.linker
        apply_gradients(self._model, sgd)
        linker.runtime.forget()
        linker.fitted.forget_scores()
        if linker.reranker_model is None:
            linker.fitted.forget_threshold()
            linker.encoders.note_update()
        if self.trainer is not None:
            self.trainer.note_update()

    def finish(self) -> None:
        """Leave the training: from now on the KB is searched."""
        self.trainer = None

    @property
    def _model(self) -> Model:
        """What training changes: the reranker, if there is one, and otherwise the retriever."""
        linker = self.linker
        return linker.model if linker.reranker_model is None else linker.reranker_model

    def _initialize_model(self, examples: Iterable[Example]) -> None:
        """Fetch or build the weights. A vocabulary may be learnt from the KB and the examples."""
        linker, kb = self.linker, self.linker.kb
        if linker.reranker_model is not None:
            check_candidates(linker)
        else:
            numbers = {t.name: t.tree_number for t in kb.semantic_types if t.tree_number}
            architectures.give_tree_numbers(linker.model, numbers)

        def texts() -> Iterator[str]:
            for entity in kb:
                yield from entity.names
                yield from entity.types
                yield entity.definition or ""
            for example in examples:
                yield example.reference.text

        self._model.initialize(X=texts())
        linker.forget_weights()

    def _begin(
        self, indexed: IndexedEntities, mentions: Sequence[GoldMention] | None = None
    ) -> None:
        """Make the trainer. One whose proxies have vectors in the KB indexes nothing.

        mentions: all training mentions, if they are known.
        """
        linker, settings = self.linker, self.linker.training_settings
        if settings.loss is not None:
            settings.loss.restore(linker.cfg["loss"])
        if linker.reranker_model is not None:
            self.trainer = reranker_trainer(linker)
        elif settings.freeze_entities:
            self.trainer = mention_tower_trainer(linker)
        else:
            self.trainer = both_towers_trainer(linker, indexed, mentions)
        self._met = set()

    def _trainable(
        self, examples: Iterable[Example], documents: Sequence[DocumentContext] | None = None
    ) -> list[GoldMention]:
        """The gold mentions that have an entity in the KB."""
        settings, kb = self.linker.mention_settings, self.linker.kb
        resolved = settings.resolve_abbreviations
        return trainable_mentions(examples, kb, settings.spans_key, resolved, documents)

    def _note_trained(self, numbers: set[int]) -> None:
        """Remember that these entities were trained on: they are no longer unseen."""
        new = {id for id, _ in self.linker.kb.labels(sorted(numbers - self._met))}
        self._met |= numbers
        if new:
            before = self.linker.cfg["trained_entities"]
            self.linker.cfg["trained_entities"] = sorted(new.union(before))
