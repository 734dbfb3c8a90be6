"""What a linker has while it is trained: a trainer, made from the KB, the encoders and settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.training import Example
from thinc.api import Model

from ..architectures import architecture_of, is_initialized
from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..linking.retriever import Retriever
from ..reading.gold_mention import GoldMention
from ..spans import mention_spans
from ..training.gold_mentions import GoldMentions
from ..training.pool import Pool, StoredRows, entity_index
from ..training.retriever_trainer import RetrieverTrainer
from ..training.trainer import Trainer
from .gold import gold_numbers
from .settings import TrainingSettings

if TYPE_CHECKING:
    from ..linking.reranker import Reranker
    from ..training.reranker_trainer import RerankerTrainer


class TrainingSession:
    """A trainer, and the entities that it has been given.

    Args:
        trainer: Trains the retriever, or the reranker.
        kb: The KB of the entities.
    """

    def __init__(self, trainer: Trainer, kb: KnowledgeBase):
        self.trainer = trainer
        self._kb = kb
        self._met: set[int] = set()

    def ids_met_first(self, numbers: set[int]) -> set[str]:
        """The concept ids of those of the entities that this session meets for the first time."""
        new = numbers - self._met
        self._met |= new
        return {id for id, _ in self._kb.labels(sorted(new))}


class IndexedEntities(NamedTuple):
    """Which entities of the KB are encoded again and again while both towers are trained.

    Attributes:
        trained: The numbers of the gold entities of training.
        n_mined: The number of entities that hard negatives are mined among; None: the whole KB.
            They are the trained ones, and others drawn at random.
        evaluated: The numbers of the gold entities of an evaluation.
        n_searched: The number of entities that evaluations search; None: the whole KB. They are the
            trained ones, the evaluated ones, and others drawn at random.
        searched_row_kind: What a row that evaluations search stands for; None: the linker's kind. If
            one is given, the trained entities are left out of those that are searched.
    """

    trained: set[int]
    n_mined: int | None
    evaluated: set[int]
    n_searched: int | None
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


def is_placeholder(examples: Iterable[Example], spans_key: str | None) -> bool:
    """Whether all there is is one example without a mention, as ``nlp.initialize()`` makes it."""
    first = [mention_spans(e.reference, spans_key) for e in islice(examples, 2)]
    return first == [[]]


def training_entities(
    examples: Iterable[Example], kb: KnowledgeBase, spans_key: str | None
) -> set[int]:
    """The numbers of the gold entities of the examples.

    Raises:
        PelError: None of them is in the KB.
    """
    numbers = gold_numbers(examples, kb, spans_key)
    if not numbers:
        raise PelError(
            f"no mention of the training examples has an entity in {kb.path}",
            "check that the corpus and the KB use the same identifiers; to leave a linker as it "
            "is, give it a source in the config, or name it among the frozen_components",
        )
    return numbers


def vocabulary_texts(kb: KnowledgeBase, examples: Iterable[Example]) -> Iterator[str]:
    """The texts that a vocabulary is learned from."""
    for entity in kb:
        yield from entity.names
        yield from entity.types
        yield entity.definition or ""
    for example in examples:
        yield example.reference.text


def both_towers_trainer(
    kb: KnowledgeBase,
    retriever: Retriever,
    row_kind: str,
    settings: TrainingSettings,
    indexed: IndexedEntities,
    mentions: Sequence[GoldMention] | None,
) -> RetrieverTrainer:
    """The trainer of a retriever whose entities are encoded again while it learns.

    Args:
        kb: The KB that gives the texts of the proxies.
        retriever: What is trained.
        row_kind: What a row of the index stands for; see ``reading.proxies``.
        settings: How it is trained.
        indexed: Which entities hard negatives are mined among, and which evaluations search.
        mentions: All training mentions; None: they are not known. With ``coreference`` alone they
            are needed.

    Raises:
        PelError: They are needed and not known, or the retriever cannot be trained against mentions.
    """
    known = None
    if settings.coreference is not None:
        if mentions is None:
            raise PelError(
                "training goes on from a saved pipeline, and the gold clusters of its mentions are "
                "not known",
                "start from @misc = spacy-pel.TrainedEncoder.v1 in place of a source",
            )
        known = GoldMentions(mentions, retriever)
    rng = _rng()
    # Drawn by a generator of its own, so that the steps draw the same whatever is indexed.
    mined, searched = indexed.mined_and_searched(kb, rng.spawn(1)[0])
    searched_row_kind = indexed.searched_row_kind or row_kind
    of_mined = of_searched = entity_index(kb, retriever, row_kind, mined)
    if searched_row_kind != row_kind or not np.array_equal(mined, searched):
        of_searched = entity_index(kb, retriever, searched_row_kind, searched)
    pool = Pool(kb, row_kind, settings.name_dropout, of_mined, of_searched, known)
    return RetrieverTrainer(
        retriever,
        pool,
        settings.loss,
        settings.negatives,
        rng,
        fgsm=settings.regularizer,
        coreference=settings.coreference,
        pair_loss=settings.pair_loss,
        views=settings.views,
    )


def mention_tower_trainer(
    name: str,
    kb: KnowledgeBase,
    retriever: Retriever,
    row_kind: str,
    settings: TrainingSettings,
) -> RetrieverTrainer:
    """The trainer of the mention tower alone, against the vectors of the KB.

    Args:
        name: The component's name, for errors. The others are those of ``both_towers_trainer``.

    Raises:
        PelError: The towers are one; there is a regularizer, which needs the entities' inputs, or
            there are gold clusters; the KB has no vectors of the entity tower, or has rows of another
            kind.
    """
    if len(retriever.model.layers) == 1:
        raise PelError(
            f'"{name}" freezes its entities, but its towers are one',
            'set "shared" of its model to false',
        )
    if settings.regularizer is not None:
        raise PelError(
            f'"{name}" freezes its entities, and FGSM would encode them',
            'set its "regularizer" to null',
        )
    if settings.coreference is not None:
        raise PelError(
            f'"{name}" freezes its entities, and gold clusters are made of entities under training',
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
            f'{kb.path}: its vectors are of the row kind "{kb.row_kind}", and "{name}" is set to '
            f'"{row_kind}"',
            f'set its "row_kind" to "{kb.row_kind}"',
        )
    pool = Pool(kb, row_kind, settings.name_dropout, StoredRows(kb))
    return RetrieverTrainer(
        retriever,
        pool,
        settings.loss,
        settings.negatives,
        _rng(),
        pair_loss=settings.pair_loss,
        views=settings.views,
    )


def reranker_trainer(
    kb: KnowledgeBase,
    retriever: Retriever,
    reranker: Reranker,
    candidates: int,
    settings: TrainingSettings,
) -> RerankerTrainer:
    """The trainer of a reranker on the retriever's candidates in the KB.

    Args:
        kb: The KB that is searched.
        retriever: Finds the candidates, and stays as it is.
        reranker: What is trained.
        candidates: The number of candidates of a mention.
        settings: How it is trained.
    """
    # Imported here: without a reranker nothing of it is loaded.
    from ..training.reranker_trainer import RerankerTrainer

    fgsm, views = settings.regularizer, settings.views
    return RerankerTrainer(reranker, retriever, kb, candidates, fgsm, _rng(), views)


def check_candidates(name: str, kb: KnowledgeBase, retriever: Model, candidates: int) -> None:
    """Check that there are candidates that a reranker can be trained on.

    Args:
        name: The component's name, for errors.
        kb: The KB that is searched.
        retriever: The model that finds the candidates.
        candidates: The number of candidates of a mention.

    Raises:
        PelError: The retriever is not trained, or cannot read by itself; there is no choice among
            the candidates; the KB has no vectors of this retriever.
    """
    if not is_initialized(retriever):
        raise PelError(
            f'the reranker of "{name}" is trained on the candidates of a trained retriever',
            'give the folder of one as its "path" in the config, such as training/model-best',
        )
    if candidates < 2:
        raise PelError(
            f'"rerank" of "{name}" is {candidates}',
            "to train a reranker it must be 2 or more (the paper: 16)",
        )
    if architecture_of(retriever).listens:
        raise PelError(
            f'the retriever of "{name}" shares what another component reads, and a reranker '
            "is trained before that runs",
            "train it with a retriever that reads by itself",
        )
    kb.check_fingerprint(Retriever(retriever).entity_fingerprint())


def _rng() -> np.random.Generator:
    # thinc seeds numpy's global generator from [training.seed].
    return np.random.default_rng(np.random.randint(2**31))
