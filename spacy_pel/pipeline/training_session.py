"""How a training session of a linker begins: its weights, its trainer and what that searches."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from spacy.pipeline import TrainablePipe
from spacy.training import Example
from thinc.api import Model

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..models import architectures
from ..spans import mention_spans
from ..text.mention_inputs import DocumentContext, GoldMention
from ..training.pool import GoldMentionIndex, NegativePool, StoredRows, entity_index
from ..training.reranker_trainer import RerankerTrainer
from ..training.retriever_trainer import RetrieverTrainer
from ..training.trainer import Trainer
from .doc_mentions import gold_numbers, trainable_mentions

logger = logging.getLogger(__name__)

# The number of entities that hard negatives are mined among, and that evaluations search, if
# training goes on without ``initialize``.
RESUMED_SEARCH = 20_000


def begin(
    linker: TrainablePipe,
    get_examples: Callable[[], Iterable[Example]],
    evaluated_examples: Callable[[], Iterable[Example]] | None,
    *sizes: Any,
) -> None:
    """Fetch or build the encoder, and make the trainer (``ProxyLinker.initialize``)."""
    kb, key, reranks = linker.kb, linker.spans_key, linker.reranker_model is not None
    # As nlp.initialize() makes it: one example without a mention.
    first = [mention_spans(e.reference, key) for e in islice(get_examples(), 2)]
    is_placeholder = not reranks and first == [[]]
    wanted = set() if is_placeholder else gold_numbers(get_examples(), kb, key)
    if not wanted and not is_placeholder:
        raise PelError(
            f"no mention of the training examples has an entity in {kb.path}",
            "check that the corpus and the KB use the same identifiers; to leave a linker as "
            "it is, give it a source in the config, or name it among the frozen_components",
        )
    if reranks:
        _check_candidates(linker)
    linker.learner.initialize(X=_texts(kb, get_examples()))
    linker.forget_weights()
    if is_placeholder:
        return
    if reranks:
        linker.trainer = _trainer(linker)
        linker.trainer.retrieve(trainable(linker, get_examples()))
    else:
        check_listens(linker.model)
        evaluated = set()
        if evaluated_examples and not linker.training.freeze_entities:
            evaluated = gold_numbers(evaluated_examples(), kb, key)
        known = trainable(linker, get_examples()) if linker.training.coreference else None
        linker.cfg["loss"], linker.cfg["trained_entities"] = {}, []
        linker.trainer = _trainer(linker, known, wanted, evaluated, *sizes)
    note_trained(linker, wanted)


def resume(linker: TrainablePipe, examples: Iterable[Example]) -> None:
    """Make the trainer of a linker that was loaded (``ProxyLinker.prepare_training``)."""
    if linker.reranker_model is not None:
        _check_candidates(linker)
    elif not linker.training.freeze_entities and len(linker.kb) > RESUMED_SEARCH:
        logger.warning(
            '"%s" goes on from a saved pipeline: until "finish_training" it searches %d '
            "entities of the KB, drawn at random, which may lack those of dev; for figures "
            "that say more, start from @misc = spacy-pel.TrainedEncoder.v1 in place of a source",
            *(linker.name, RESUMED_SEARCH),
        )
    wanted = gold_numbers(examples, linker.kb, linker.spans_key)
    linker.trainer = _trainer(linker, None, wanted, set(), RESUMED_SEARCH, RESUMED_SEARCH, None)


def trainable(
    linker: TrainablePipe,
    examples: Iterable[Example],
    documents: Sequence[DocumentContext] | None = None,
) -> list[GoldMention]:
    """The mentions of examples that a linker can learn from (``trainable_mentions``)."""
    resolved = linker.search.resolve_abbreviations
    return trainable_mentions(examples, linker.kb, linker.spans_key, resolved, documents)


def note_trained(linker: TrainablePipe, numbers: set[int]) -> None:
    """Remember that these entities were trained on: they are no longer unseen."""
    before = set(linker.cfg["trained_entities"])
    after = before.union(id for id, _ in linker.kb.labels(sorted(numbers)))
    if after != before:
        linker.cfg["trained_entities"] = sorted(after)


def check_listens(retriever: Model) -> None:
    """PelError for a retriever that listens by a reader of its own, which nobody trains or saves."""
    tok2vec = retriever.maybe_get_ref("tok2vec")
    if tok2vec is not None and not any(hasattr(node, "upstream_name") for node in tok2vec.walk()):
        raise PelError(
            "a linker that shares what another component reads cannot read by itself",
            "let it "
            "listen (spacy-transformers.TransformerListener.v1, spacy.Tok2VecListener.v1), and do "
            "not replace its listener (nlp.replace_listeners, replace_listeners in a config)",
        )


def _texts(kb: KnowledgeBase, examples: Iterable[Example]) -> Iterator[str]:
    """What a vocabulary may be learnt from."""
    for entity in kb:
        yield from entity.names
        yield from entity.types
        yield entity.definition or ""
    for example in examples:
        yield example.reference.text


def _check_candidates(linker: TrainablePipe) -> None:
    """PelError if there are no candidates that the reranker can be trained on."""
    if not architectures.is_initialized(linker.model):
        raise PelError(
            f'the reranker of "{linker.name}" is trained on the candidates of a trained retriever',
            'give the folder of one as its "path" in the config, such as training/model-best',
        )
    if linker.search.rerank < 2:
        raise PelError(
            f'"rerank" of "{linker.name}" is {linker.search.rerank}',
            "to train a reranker it must be 2 or more (the paper: 16)",
        )
    if linker.model.attrs["architecture"].listens:
        raise PelError(
            f'the retriever of "{linker.name}" shares what another component reads, and a '
            "reranker is trained before that runs",
            "train it with a retriever that reads by itself",
        )
    linker.kb.check_fingerprint(linker.retriever.entity_fingerprint())


def _trainer(linker: TrainablePipe, *indexed: Any) -> Trainer:
    """The trainer of the reranker, or of the retriever: ``indexed`` is for ``_pool_of_encoded``."""
    # thinc seeds numpy's global generator from [training.seed].
    rng = np.random.default_rng(np.random.randint(2**31))
    retriever, fgsm, views = linker.retriever, linker.training.regularizer, linker.training.views
    if linker.reranker_model is not None:
        encoders = linker.reranker, retriever
        return RerankerTrainer(*encoders, linker.kb, linker.search.rerank, fgsm, rng, views)
    if linker.training.loss is not None:
        linker.training.loss.restore(linker.cfg["loss"])
    frozen = linker.training.freeze_entities
    return RetrieverTrainer(
        retriever,
        _pool_of_vectors(linker) if frozen else _pool_of_encoded(linker, rng, *indexed),
        linker.training.loss,
        linker.training.negatives,
        rng,
        fgsm=fgsm,
        coreference=linker.training.coreference,
        pair_loss=linker.training.pair_loss,
        views=views,
    )


def _pool_of_encoded(
    linker: TrainablePipe,
    rng: np.random.Generator,
    mentions: Sequence[GoldMention] | None,
    trained: set[int],
    evaluated: set[int],
    n_mined: int | None,
    n_searched: int | None,
    searched_index_unit: str | None,
) -> NegativePool:
    """Entities that are encoded again while the retriever learns.

    ``mentions`` are all training mentions, if they are known. ``trained`` and ``evaluated`` are the
    numbers of the gold entities. PelError: ``coreference`` needs mentions that are not known.
    """
    kb, retriever, index_unit = linker.kb, linker.retriever, linker.cfg["index_unit"]
    if linker.training.coreference is not None and mentions is None:
        raise PelError(
            "training goes on from a saved pipeline, and the gold clusters of its mentions are "
            "not known",
            "start from @misc = spacy-pel.TrainedEncoder.v1 in place of a source",
        )
    known = (
        GoldMentionIndex(mentions, retriever) if linker.training.coreference is not None else None
    )
    # Drawn by a generator of its own, so that the steps draw the same whatever is indexed. Both
    # indexes take what is drawn in one order, so that most entities are in both.
    numbers = kb.numbers()
    drawn = rng.spawn(1)[0].permutation(np.setdiff1d(numbers, list(trained)))

    def filled_up(wanted: set[int], n: int | None) -> np.ndarray:
        if n is None or n >= len(numbers):
            return numbers
        others = drawn[~np.isin(drawn, list(wanted))][: max(0, n - len(wanted))]
        return np.sort(np.concatenate([list(wanted), others])).astype(int)

    mined = filled_up(trained, n_mined)
    searched = filled_up(evaluated if searched_index_unit else trained | evaluated, n_searched)
    of_mined = of_searched = entity_index(kb, retriever, index_unit, mined)
    searched_index_unit = searched_index_unit or index_unit
    if searched_index_unit != index_unit or not np.array_equal(mined, searched):
        of_searched = entity_index(kb, retriever, searched_index_unit, searched)
    return NegativePool(kb, index_unit, linker.training.name_dropout, of_mined, of_searched, known)


def _pool_of_vectors(linker: TrainablePipe) -> NegativePool:
    """Entities by the vectors that the KB has; PelError if the mention tower cannot learn alone."""
    kb, retriever, index_unit = linker.kb, linker.retriever, linker.cfg["index_unit"]
    freezes, its = f'"{linker.name}" freezes its entities', f"{kb.path}: its vectors"
    if len(retriever.model.layers) == 1:
        raise PelError(f"{freezes}, but its towers are one", 'set "shared" of its model to false')
    if linker.training.regularizer is not None:
        raise PelError(f"{freezes}, and FGSM would encode them", 'set its "regularizer" to null')
    if linker.training.coreference is not None:
        raise PelError(
            f"{freezes}, and gold clusters are made of entities under training",
            'set its "freeze_entities" to false, or its "coreference" to null',
        )
    if kb.fingerprint != retriever.entity_fingerprint():
        raise PelError(
            f"{its} were made by another encoder than the entity tower that is to be frozen",
            "start from the pipeline that made them (@misc = spacy-pel.TrainedEncoder.v1)"
            ", with its similarity, entity_length and pooling of entities",
        )
    if kb.index_unit != index_unit:
        raise PelError(
            f'{its} are of the index unit "{kb.index_unit}", and "{linker.name}" is set to "{index_unit}"',
            f'set its "index_unit" to "{kb.index_unit}"',
        )
    return NegativePool(kb, index_unit, linker.training.name_dropout, StoredRows(kb))
