"""A linker as it is trained: with a session, and steps on batches of examples."""

import logging
from collections.abc import Callable, Iterable, Sequence

from spacy.language import Language
from spacy.training import Example, validate_examples
from thinc.api import Model, Optimizer

from .. import architectures
from ..linking.candidate_search import Searchable
from ..reading.gold_mention import GoldMention
from ..reading.mention import DocumentContext
from ..training.optimizer import apply_gradients
from ..training.retriever_trainer import RetrieverTrainer
from ..training.trainer import Trainer
from .calibrated import CalibratedPipe
from .gold import gold_numbers, trainable_mentions
from .listening import begin_reading, check_listens
from .settings import MentionSettings, TrainingSettings
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


class LearningPipe(CalibratedPipe):
    """A linker whose retriever, or whose reranker, can be trained.

    As a base class it stands before spaCy's ``TrainablePipe``, whose training it replaces.

    Attributes:
        mention_settings: Where the gold mentions are, and how they are read.
        training_settings: How the retriever is trained.
    """

    mention_settings: MentionSettings
    training_settings: TrainingSettings
    _session: TrainingSession | None = None

    @property
    def index(self) -> Searchable:
        """What is searched: the KB, or the proxies under training, encoded by the present weights.

        Raises:
            PelError: The KB has no vectors, or those of another encoder.
        """
        if self._session and isinstance(self._session.trainer, RetrieverTrainer):
            return self._session.trainer.pool
        return self.embedded_kb

    @property
    def trainer(self) -> Trainer | None:
        """The trainer of the retriever or the reranker; None outside a training session."""
        return self._session.trainer if self._session else None

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        mined_entities: int | None = 20000,
        searched_entities: int | None = 20000,
        searched_corpus: Callable[[Language], Iterable[Example]] | None = None,
        searched_row_kind: str | None = None,
    ) -> None:
        """Fetch or build the encoder, and get ready for training.

        With ``nlp.initialize()``, which has no examples, the encoder is fetched or built, and nothing
        else. The linker then links once the KB has its vectors.

        If the config has a reranker, the reranker is trained and the retriever stays as it is. The
        retriever has to be trained, and the KB needs its vectors. The candidates of all training
        mentions are searched now and kept.

        To encode a large KB again and again would take longer than the training. Hard negatives are
        therefore mined in a part of it. Evaluations during training also search a part: their
        figures are higher than on the whole KB, and comparable with each other. At the end, "pel
        evaluate" searches the whole KB. A linker with a reranker, or with frozen entities, always
        searches the whole KB.

        Args:
            get_examples: Gives the training examples.
            nlp: The pipeline, for ``searched_corpus``.
            mined_entities: The number of entities that hard negatives are mined among. They are the
                training entities, and others drawn at random. None: the whole KB.
            searched_entities: The number of entities that evaluations search. They are the
                training entities, those of ``searched_corpus``, and others drawn at random. None:
                the whole KB. It changes no weights.
            searched_corpus: Gives examples whose entities evaluations search as well, usually dev.
                It changes no weights.
            searched_row_kind: What a row that evaluations search stands for; None: ``row_kind``. With
                "title", aliases of a dev corpus are not found by being rows themselves. The training
                entities are then searched only if they are drawn.

        Raises:
            PelError: No example has a mention in the KB; a reranker has no trained retriever, or
                the KB has no vectors of it.
        """
        spans_key = self.mention_settings.spans_key
        texts = vocabulary_texts(self.kb, get_examples())
        if self.reranker_model is None and is_placeholder(get_examples(), spans_key):
            self.model.initialize(X=texts)
            self.forget_weights()
            return
        wanted = training_entities(get_examples(), self.kb, spans_key)
        if self.reranker_model is None:
            self.cfg["loss"] = {}
            self.model.initialize(X=texts)
            self._retriever = None
            check_listens(self.model)
            evaluated = set()
            if searched_corpus and not self.training_settings.freeze_entities:
                evaluated = gold_numbers(searched_corpus(nlp), self.kb, spans_key)
            known = self.training_settings.coreference and self._trainable(get_examples())
            self._begin_session(
                IndexedEntities(
                    wanted, mined_entities, evaluated, searched_entities, searched_row_kind
                ),
                known,
            )
            self.cfg["trained_entities"] = []
        else:
            self._check_candidates()
            self.reranker_model.initialize(X=texts)
            self._reranker = None
            self._begin_session(IndexedEntities(wanted, None, set(), None))
            self._session.trainer.retrieve(self._trainable(get_examples()))
        self._note_trained(wanted)

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Learn from the gold mentions of a batch that have an entity in the KB.

        Args:
            examples: The batch.
            drop: The dropout rate, 0 to 1.
            sgd: The optimizer; None or False: gradients are kept until ``finish_update``.
            losses: The losses of the pipeline's components, to which this one's is added.

        Returns:
            The losses.

        Raises:
            PelError: There is no KB, or there are no weights, or the loss is not a number.
        """
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        validate_examples(examples, "ProxyLinker.update")
        docs = [example.predicted for example in examples]
        documents, backprop = begin_reading(self.model, docs)
        mentions = self._trainable(examples, documents)
        if mentions:
            if self._session is None:
                self.prepare_training(examples)
            self._note_trained({n for mention in mentions for n in mention.golds})
            caching = self.training_settings.gradient_caching
            architectures.set_dropout(self._model_in_training, drop)
            architectures.set_gradient_caching(self._model_in_training, caching)
            losses[self.name] += sum(self._session.trainer.step(mentions))
            if self.training_settings.loss is not None:
                self.cfg["loss"] = self.training_settings.loss.state()
        backprop()
        if mentions and sgd not in (None, False):
            self.finish_update(sgd)
        return losses

    def prepare_training(self, examples: Iterable[Example]) -> None:
        """Get ready to go on from a saved pipeline. The first ``update`` does so by itself.

        Args:
            examples: The first batch. Evaluations search its entities, among others.
        """
        if self.reranker_model is not None:
            self._check_candidates()
        elif not self.training_settings.freeze_entities and len(self.kb) > RESUMED_SEARCH:
            logger.warning(
                '"%s" goes on from a saved pipeline: until "finish_training" it searches %d '
                "entities of the KB, drawn at random, which may lack those of dev; for figures "
                "that say more, start from @misc = spacy-pel.TrainedEncoder.v1 in place of a "
                "source",
                self.name,
                RESUMED_SEARCH,
            )
        wanted = {number for mention in self._trainable(examples) for number in mention.golds}
        self._begin_session(IndexedEntities(wanted, RESUMED_SEARCH, set(), RESUMED_SEARCH))

    def finish_update(self, sgd: Optimizer) -> None:
        """Apply the accumulated gradients, and drop what was calibrated on the weights before.

        Args:
            sgd: The optimizer.
        """
        apply_gradients(self._model_in_training, sgd)
        self.runtime.forget()
        self.forget_fitted()
        if self.reranker_model is None:
            self.forget_threshold()
            self._checked_fingerprint = None
        if self._session is not None:
            self._session.trainer.note_update()

    def _trainable(
        self, examples: Iterable[Example], documents: Sequence[DocumentContext] | None = None
    ) -> list[GoldMention]:
        resolved = self.mention_settings.resolve_abbreviations
        return trainable_mentions(
            examples, self.kb, self.mention_settings.spans_key, resolved, documents
        )

    def _begin_session(
        self, indexed: IndexedEntities, mentions: Sequence[GoldMention] | None = None
    ) -> None:
        """Make the trainer. One whose proxies have vectors in the KB indexes nothing.

        mentions: all training mentions, if they are known.
        """
        kb, settings, row_kind = self.kb, self.training_settings, self.cfg["row_kind"]
        if settings.loss is not None:
            settings.loss.restore(self.cfg.get("loss", {}))
        trainer: Trainer
        if self.reranker_model is not None:
            candidates = self.search_settings.rerank
            trainer = reranker_trainer(kb, self.retriever, self.reranker, candidates, settings)
        elif settings.freeze_entities:
            trainer = mention_tower_trainer(self.name, kb, self.retriever, row_kind, settings)
        else:
            trainer = both_towers_trainer(kb, self.retriever, row_kind, settings, indexed, mentions)
        self._session = TrainingSession(trainer, kb)

    def _check_candidates(self) -> None:
        check_candidates(self.name, self.kb, self.model, self.search_settings.rerank)

    def _note_trained(self, numbers: set[int]) -> None:
        """Remember that these entities were trained on: they are no longer unseen."""
        new = self._session.ids_met_first(numbers)
        if new:
            self.cfg["trained_entities"] = sorted(new.union(self.cfg["trained_entities"]))

    @property
    def _model_in_training(self) -> Model:
        """What training changes: the reranker, if there is one, and otherwise the retriever."""
        return self.model if self.reranker_model is None else self.reranker_model

    def finish_training(self) -> None:
        """Leave the training session: from now on the KB is searched."""
        self._session = None

    def forget_weights(self) -> None:
        """Drop what was made of the weights before, the training session included."""
        super().forget_weights()
        self._session = None

    def forget_kb(self) -> None:
        """Drop what was made of the KB before: the training session."""
        self._session = None
