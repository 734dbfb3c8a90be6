"""The trainers of a linker, made from its KB, its encoders and its settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.pipeline import TrainablePipe

from ..architectures import architecture_of, is_initialized
from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..linking.retriever import Retriever
from ..reading.mention import GoldMention
from ..training.index import GoldMentions, StoredRows, entity_index
from ..training.pool import Pool
from ..training.retriever_trainer import RetrieverTrainer

if TYPE_CHECKING:
    from ..training.reranker_trainer import RerankerTrainer


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


def both_towers_trainer(
    linker: TrainablePipe, indexed: IndexedEntities, mentions: Sequence[GoldMention] | None
) -> RetrieverTrainer:
    """The trainer of a retriever whose entities are encoded again while it learns.

    Args:
        linker: The ``ProxyLinker``.
        indexed: Which entities hard negatives are mined among, and which evaluations search.
        mentions: All training mentions; None: they are not known. With ``coreference`` alone they
            are needed.

    Raises:
        PelError: They are needed and not known, or the retriever cannot be trained against mentions.
    """
    kb, retriever, settings = linker.kb, linker.retriever, linker.training_settings
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
    row_kind = linker.cfg["row_kind"]
    searched_row_kind = indexed.searched_row_kind or row_kind
    of_mined = of_searched = entity_index(kb, retriever, row_kind, mined)
    if searched_row_kind != row_kind or not np.array_equal(mined, searched):
        of_searched = entity_index(kb, retriever, searched_row_kind, searched)
    return RetrieverTrainer(
        retriever,
        Pool(kb, row_kind, settings.name_dropout, of_mined, of_searched, known),
        settings.loss,
        settings.negatives,
        rng,
        fgsm=settings.regularizer,
        coreference=settings.coreference,
        pair_loss=settings.pair_loss,
        views=settings.views,
    )


def mention_tower_trainer(linker: TrainablePipe) -> RetrieverTrainer:
    """The trainer of the mention tower alone, against the vectors of the KB.

    Raises:
        PelError: The towers are one; there is a regularizer, which needs the entities' inputs, or
            there are gold clusters; the KB has no vectors of the entity tower, or has rows of another
            kind.
    """
    kb, retriever, settings = linker.kb, linker.retriever, linker.training_settings
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
    return RetrieverTrainer(
        retriever,
        Pool(kb, row_kind, settings.name_dropout, StoredRows(kb)),
        settings.loss,
        settings.negatives,
        _rng(),
        pair_loss=settings.pair_loss,
        views=settings.views,
    )


def reranker_trainer(linker: TrainablePipe) -> RerankerTrainer:
    """The trainer of a reranker on the retriever's candidates in the KB."""
    # Imported here: without a reranker nothing of it is loaded.
    from ..training.reranker_trainer import RerankerTrainer

    settings = linker.training_settings
    candidates = linker.search_settings.rerank
    return RerankerTrainer(
        linker.reranker,
        linker.retriever,
        linker.kb,
        candidates,
        settings.regularizer,
        _rng(),
        settings.views,
    )


def check_candidates(linker: TrainablePipe) -> None:
    """Check that there are candidates that the reranker of a linker can be trained on.

    Raises:
        PelError: The retriever is not trained, or cannot read by itself; there is no choice among
            the candidates; the KB has no vectors of this retriever.
    """
    if not is_initialized(linker.model):
        raise PelError(
            f'the reranker of "{linker.name}" is trained on the candidates of a trained retriever',
            'give the folder of one as its "path" in the config, such as training/model-best',
        )
    if linker.search_settings.rerank < 2:
        raise PelError(
            f'"rerank" of "{linker.name}" is {linker.search_settings.rerank}',
            "to train a reranker it must be 2 or more (the paper: 16)",
        )
    if architecture_of(linker.model).listens:
        raise PelError(
            f'the retriever of "{linker.name}" shares what another component reads, and a reranker '
            "is trained before that runs",
            "train it with a retriever that reads by itself",
        )
    linker.kb.check_fingerprint(Retriever(linker.model).entity_fingerprint())


def _rng() -> np.random.Generator:
    # thinc seeds numpy's global generator from [training.seed].
    return np.random.default_rng(np.random.randint(2**31))
