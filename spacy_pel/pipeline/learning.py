"""How a linker is trained: a trainer for the time of a training, and steps on batches of examples."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.training import Example, validate_examples
from thinc.api import Model, Optimizer

from .. import architectures
from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..linking.retriever import Retriever
from ..reading.mention import DocumentContext, GoldMention
from ..spans import mention_spans
from ..training.index import GoldMentions, StoredRows, entity_index
from ..training.optimizer import apply_gradients
from ..training.pool import Pool
from ..training.retriever_trainer import RetrieverTrainer
from ..training.trainer import Trainer
from .doc_mentions import begin_reading, gold_numbers, trainable_mentions
from .encoders import check_listens

logger = logging.getLogger(__name__)

# The number of entities that hard negatives are mined among, and that evaluations search, if
# training goes on without ``initialize``.
RESUMED_SEARCH = 20_000


class Learning:
    """Trains the retriever of a linker, or its reranker. It is a part of the ``ProxyLinker``."""

    def __init__(self, linker: TrainablePipe):
        self.linker = linker
        self.trainer: Trainer | None = None  # from the start of training until ``finish``
        self._met: set[int] = set()  # the entities that the trainer has been given

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
        linker, kb, settings = self.linker, self.linker.kb, self.linker.settings
        # As nlp.initialize() makes it: one example without a mention.
        first = [mention_spans(e.reference, settings.spans_key) for e in islice(get_examples(), 2)]
        is_placeholder = linker.reranker_model is None and first == [[]]
        wanted = set() if is_placeholder else gold_numbers(get_examples(), kb, settings.spans_key)
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
                evaluated = gold_numbers(searched_corpus(nlp), kb, settings.spans_key)
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
        linker, settings = self.linker, self.linker.settings
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
        """Get ready to go on from a saved pipeline (``ProxyLinker.prepare_training``)."""
        linker = self.linker
        if linker.reranker_model is not None:
            self._check_candidates()
        elif not linker.settings.freeze_entities and len(linker.kb) > RESUMED_SEARCH:
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
        """Apply the accumulated gradients, and drop what was calibrated on the weights before."""
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
            self._check_candidates()
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

    def _check_candidates(self) -> None:
        """Check that there are candidates that the reranker can be trained on.

        Raises:
            PelError: The retriever is not trained, or cannot read by itself; there is no choice
                among the candidates; the KB has no vectors of this retriever.
        """
        linker = self.linker
        if not architectures.is_initialized(linker.model):
            raise PelError(
                f'the reranker of "{linker.name}" is trained on the candidates of a trained '
                "retriever",
                'give the folder of one as its "path" in the config, such as training/model-best',
            )
        if linker.settings.rerank < 2:
            raise PelError(
                f'"rerank" of "{linker.name}" is {linker.settings.rerank}',
                "to train a reranker it must be 2 or more (the paper: 16)",
            )
        if architectures.architecture_of(linker.model).listens:
            raise PelError(
                f'the retriever of "{linker.name}" shares what another component reads, and a '
                "reranker is trained before that runs",
                "train it with a retriever that reads by itself",
            )
        linker.kb.check_fingerprint(Retriever(linker.model).entity_fingerprint())

    def _begin(
        self, indexed: IndexedEntities, mentions: Sequence[GoldMention] | None = None
    ) -> None:
        """Make the trainer. One whose proxies have vectors in the KB indexes nothing.

        mentions: all training mentions, if they are known.
        """
        linker, settings = self.linker, self.linker.settings
        if settings.loss is not None:
            settings.loss.restore(linker.cfg["loss"])
        # thinc seeds numpy's global generator from [training.seed].
        rng = np.random.default_rng(np.random.randint(2**31))
        if linker.reranker_model is not None:
            # Imported here: without a reranker nothing of it is loaded.
            from ..training.reranker_trainer import RerankerTrainer

            self.trainer = RerankerTrainer(
                linker.reranker,
                linker.retriever,
                linker.kb,
                settings.rerank,
                settings.regularizer,
                rng,
                settings.views,
            )
        else:
            if settings.freeze_entities:
                pool = _pool_of_vectors(linker)
            else:
                pool = _pool_of_encoded(linker, indexed, mentions, rng)
            self.trainer = RetrieverTrainer(
                linker.retriever,
                pool,
                settings.loss,
                settings.negatives,
                rng,
                fgsm=settings.regularizer,
                coreference=settings.coreference,
                pair_loss=settings.pair_loss,
                views=settings.views,
            )
        self._met = set()

    def _trainable(
        self, examples: Iterable[Example], documents: Sequence[DocumentContext] | None = None
    ) -> list[GoldMention]:
        settings = self.linker.settings
        resolved = settings.resolve_abbreviations
        return trainable_mentions(examples, self.linker.kb, settings.spans_key, resolved, documents)

    def _note_trained(self, numbers: set[int]) -> None:
        """Remember that these entities were trained on: they are no longer unseen."""
        new = {id for id, _ in self.linker.kb.labels(sorted(numbers - self._met))}
        self._met |= numbers
        if new:
            before = self.linker.cfg["trained_entities"]
            self.linker.cfg["trained_entities"] = sorted(new.union(before))


class IndexedEntities(NamedTuple):
    """Which entities of the KB are encoded again and again while both towers are trained."""

    trained: set[int]  # the numbers of the gold entities of training
    # The number of entities that hard negatives are mined among; None: the whole KB. They are the
    # trained ones, and others drawn at random.
    n_mined: int | None
    evaluated: set[int]  # the numbers of the gold entities of an evaluation
    # The number of entities that evaluations search; None: the whole KB. They are the trained ones,
    # the evaluated ones, and others drawn at random.
    n_searched: int | None
    # What a row that evaluations search stands for; None: the linker's kind. If one is given, the
    # trained entities are left out of those that are searched.
    searched_row_kind: str | None = None

    def mined_and_searched(
        self, kb: KnowledgeBase, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the entities of the two indexes, ascending.

        Both take what is drawn in one order, so that most entities are in both. What is mined does
        not depend on what is evaluated.
        """
        numbers = kb.numbers()
        drawn = rng.permutation(np.setdiff1d(numbers, list(self.trained)))

        def filled_up(wanted: set[int], n: int | None) -> np.ndarray:
            if n is None or n >= len(numbers):
                return numbers
            others = drawn[~np.isin(drawn, list(wanted))][: max(0, n - len(wanted))]
            return np.sort(np.concatenate([list(wanted), others])).astype(int)

        mined = filled_up(self.trained, self.n_mined)
        trained = set() if self.searched_row_kind else self.trained
        return mined, filled_up(trained | self.evaluated, self.n_searched)


def _pool_of_encoded(
    linker: TrainablePipe,
    indexed: IndexedEntities,
    mentions: Sequence[GoldMention] | None,
    rng: np.random.Generator,
) -> Pool:
    """Entities that are encoded again while the retriever learns.

    Raises:
        PelError: With ``coreference`` the training mentions are needed, and they are not known.
    """
    kb, retriever, settings = linker.kb, linker.retriever, linker.settings
    known = None
    if settings.coreference is not None:
        if mentions is None:
            raise PelError(
                "training goes on from a saved pipeline, and the gold clusters of its mentions are "
                "not known",
                "start from @misc = spacy-pel.TrainedEncoder.v1 in place of a source",
            )
        known = GoldMentions(mentions, retriever)
    # Drawn by a generator of its own, so that the steps draw the same whatever is indexed.
    mined, searched = indexed.mined_and_searched(kb, rng.spawn(1)[0])
    row_kind = linker.cfg["row_kind"]
    searched_row_kind = indexed.searched_row_kind or row_kind
    of_mined = of_searched = entity_index(kb, retriever, row_kind, mined)
    if searched_row_kind != row_kind or not np.array_equal(mined, searched):
        of_searched = entity_index(kb, retriever, searched_row_kind, searched)
    return Pool(kb, row_kind, settings.name_dropout, of_mined, of_searched, known)


def _pool_of_vectors(linker: TrainablePipe) -> Pool:
    """Entities by the vectors that the KB has: the mention tower alone learns.

    Raises:
        PelError: The towers are one; there is a regularizer, which needs the entities' inputs, or
            there are gold clusters; the KB has no vectors of the entity tower, or has rows of another
            kind.
    """
    kb, retriever, settings = linker.kb, linker.retriever, linker.settings
    freezes, row_kind = f'"{linker.name}" freezes its entities', linker.cfg["row_kind"]
    if len(retriever.model.layers) == 1:
        raise PelError(f"{freezes}, but its towers are one", 'set "shared" of its model to false')
    if settings.regularizer is not None:
        raise PelError(f"{freezes}, and FGSM would encode them", 'set its "regularizer" to null')
    if settings.coreference is not None:
        raise PelError(
            f"{freezes}, and gold clusters are made of entities under training",
            'set its "freeze_entities" to false, or its "coreference" to null',
        )
    if kb.fingerprint != retriever.entity_fingerprint():
        raise PelError(
            f"{kb.path}: its vectors were made by another encoder than the entity tower that is to "
            "be frozen",
            "start from the pipeline that made them (@misc = spacy-pel.TrainedEncoder.v1)"
            ", with its similarity, entity_length and pooling of entities",
        )
    if kb.row_kind != row_kind:
        raise PelError(
            f'{kb.path}: its vectors are of the row kind "{kb.row_kind}", and "{linker.name}" is '
            f'set to "{row_kind}"',
            f'set its "row_kind" to "{kb.row_kind}"',
        )
    return Pool(kb, row_kind, settings.name_dropout, StoredRows(kb))
