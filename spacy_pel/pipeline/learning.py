"""The trainers of a linker, made from what it is configured with."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from spacy.training import Example

from ..architectures import is_initialized, shares_reading
from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..reading.gold_mention import GoldMention
from ..training.mention_trainer import MentionTrainer
from ..training.proxy_pool import ProxyPool
from ..training.stored_pool import StoredPool
from ..training.trainer import RetrieverTrainer, Trainer
from .gold import gold_numbers
from .reading import check_listens

if TYPE_CHECKING:
    from ..training.reranker_trainer import RerankerTrainer
    from .proxy_linker import ProxyLinker

logger = logging.getLogger(__name__)

_RESUMED_SEARCH = 20_000  # entities that evaluations search without ``initialize``


def gold_entities(linker: ProxyLinker, examples: Iterable[Example]) -> set[int]:
    """Numbers of the gold entities of the examples. Raises PelError if none is in the KB."""
    numbers = gold_numbers(examples, linker.kb, linker.spans_key)
    if not numbers:
        raise PelError(
            f"no mention of the training examples has an entity in {linker.kb.path}",
            "check that "
            "the corpus and the KB use the same identifiers; a linker that is to stay as it is "
            "needs a source in the config, or to be among the frozen_components",
        )
    return numbers


def new_trainer(
    linker: ProxyLinker,
    trained: set[int],
    others: Iterable[Example],
    searched_entities: int | None,
) -> Trainer:
    """The trainer of a retriever that begins. Raises PelError as ``mention_trainer`` does, and as
    ``check_listens``.

    trained: numbers of the gold entities. others: examples whose entities evaluations search as
    well. searched_entities: see ``ProxyLinker.initialize``.
    """
    check_listens(linker.model)
    if linker.freeze_entities:
        return mention_trainer(linker)
    wanted = trained | gold_numbers(others, linker.kb, linker.spans_key)
    return retriever_trainer(linker, wanted, searched_entities)


def retriever_trainer(
    linker: ProxyLinker, wanted: set[int], searched_entities: int | None
) -> RetrieverTrainer:
    """Trains the retriever; its evaluations search the wanted entities and as many as are asked.

    wanted: numbers of entities. searched_entities: see ``ProxyLinker.initialize``.
    """
    rng = _rng()
    searched = linker.kb.numbers()
    if searched_entities is not None and searched_entities < len(searched):
        others = rng.permutation(np.setdiff1d(searched, list(wanted)))
        n_others = max(0, searched_entities - len(wanted))
        searched = np.sort(np.concatenate([list(wanted), others[:n_others]])).astype(int)
    pool = ProxyPool(
        linker.kb, linker.retriever, linker.cfg["row_kind"], searched, linker.name_dropout
    )
    return RetrieverTrainer(
        linker.retriever, pool, linker.loss, linker.regularizer, linker.negatives, rng
    )


def mention_trainer(linker: ProxyLinker) -> MentionTrainer:
    """Trains the mention tower against the vectors in the KB.

    Raises PelError if the towers are one, the KB lacks the entity tower's vectors or has other rows
    than the linker, or there is a regularizer, which would need the entities' inputs.
    """
    if len(linker.model.layers) == 1:
        raise PelError(
            f'"{linker.name}" freezes its entities, but its towers are one',
            'set "shared" of its model to false',
        )
    if linker.regularizer is not None:
        raise PelError(
            f'"{linker.name}" freezes its entities, and FGSM would encode them',
            'set its "regularizer" to null',
        )
    kb, row_kind = linker.kb, linker.cfg["row_kind"]
    if kb.fingerprint != linker.retriever.entity_fingerprint():
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
    pool = StoredPool(kb, row_kind, linker.name_dropout)
    return MentionTrainer(linker.retriever, pool, linker.loss, linker.negatives, _rng())


def reranker_trainer(linker: ProxyLinker) -> RerankerTrainer:
    """Trains the reranker on the retriever's candidates in the KB.

    Raises PelError if the retriever is not trained, the KB has no vectors of it, or there is
    nothing to choose from.
    """
    # Imported here: without a reranker nothing of it is loaded.
    from ..training.reranker_trainer import RerankerTrainer

    check_candidates(linker)
    return RerankerTrainer(
        linker.reranker, linker.retriever, linker.kb, linker.rerank, linker.regularizer, _rng()
    )


def check_candidates(linker: ProxyLinker) -> None:
    """Raises PelError if there is nothing that a reranker could be trained on."""
    if not is_initialized(linker.model):
        raise PelError(
            f'the reranker of "{linker.name}" is trained on the candidates of a trained retriever',
            'give the folder of one as its "path" in the config, such as training/model-best',
        )
    if linker.rerank < 2:
        raise PelError(
            f'"rerank" of "{linker.name}" is {linker.rerank}',
            "to train a reranker it must be 2 or more (the paper: 16)",
        )
    if shares_reading(linker.model):
        raise PelError(
            f'the retriever of "{linker.name}" shares what another component reads, and a reranker '
            "is trained before that runs",
            "train it with a retriever that reads by itself",
        )
    linker.kb.check_fingerprint(linker.retriever.entity_fingerprint())


def resumed_trainer(linker: ProxyLinker, mentions: Iterable[GoldMention]) -> Trainer:
    """The trainer of a linker that was saved, to go on with these mentions.

    Raises PelError as the others do.
    """
    if linker.reranker_model is not None:
        return reranker_trainer(linker)
    if linker.freeze_entities:
        return mention_trainer(linker)
    if len(linker.kb) > _RESUMED_SEARCH:
        logger.warning(
            '"%s" goes on from a saved pipeline: until "finish_training" it searches %d entities '
            "of the KB, drawn at random, which may lack those of dev; for figures that say more, "
            "start from @misc = spacy-pel.TrainedEncoder.v1 in place of a source",
            linker.name,
            _RESUMED_SEARCH,
        )
    return retriever_trainer(linker, {n for m in mentions for n in m.golds}, _RESUMED_SEARCH)


def note_trained(linker: ProxyLinker, numbers: set[int]) -> None:
    """Have the linker know that it is trained on these entities: they are no longer unseen."""
    new = numbers - linker.trained_numbers
    if new:
        ids = {id for id, _ in linker.kb.labels(sorted(new))}
        linker.cfg["trained_entities"] = sorted(ids.union(linker.cfg["trained_entities"]))
        linker.trained_numbers |= new


def vocabulary_texts(kb: KnowledgeBase, examples: Iterable[Example]) -> Iterator[str]:
    """The texts that a vocabulary is learned from."""
    for entity in kb:
        yield from entity.names
        yield from entity.types
        yield entity.definition or ""
    for example in examples:
        yield example.reference.text


def _rng() -> np.random.Generator:
    # thinc seeds numpy's global generator from [training.seed].
    return np.random.default_rng(np.random.randint(2**31))
