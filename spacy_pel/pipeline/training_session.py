"""Begin a training session of a linker: its weights, its trainer, and the trainer's indexes."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from spacy.pipeline import TrainablePipe
from spacy.training import Example

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..models.architectures import AnyModel, entity_fingerprint, is_initialized
from ..spans import mention_spans
from ..text.mention_inputs import GoldMention
from ..training.pool import GoldMentionIndex, NegativePool, StoredRows, entity_index
from ..training.reranker_trainer import RerankerTrainer
from ..training.retriever_trainer import RetrieverTrainer
from .doc_mentions import gold_numbers, trainable_mentions

logger = logging.getLogger(__name__)

# The number of entities among which hard negatives are mined, and that evaluations search, if training
# continues without ``initialize``.
RESUMED_SEARCH = 20_000


class IndexSizes(NamedTuple):
    """The indexes of a training session; see the arguments of ``ProxyLinker.initialize``."""

    mined_entities: int | None
    searched_entities: int | None
    searched_index_unit: str | None = None


def begin(
    linker: TrainablePipe,
    get_examples: Callable[[], Iterable[Example]],
    evaluated_examples: Callable[[], Iterable[Example]] | None,
    sizes: IndexSizes,
) -> None:
    """Fetch or build the encoder, and make the trainer (``ProxyLinker.initialize``)."""
    kb, key, reranks = linker.kb, linker.spans_key, linker.reranker_model is not None
    # nlp.initialize() without examples gives one example without a mention.
    first = [mention_spans(e.reference, key) for e in islice(get_examples(), 2)]
    is_placeholder = not reranks and first == [[]]
    trained = set() if is_placeholder else gold_numbers(get_examples(), kb, key)
    if not trained and not is_placeholder:
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
    mentions = None
    if reranks or linker.training.coreference:
        resolve = linker.search.resolve_abbreviations
        mentions = trainable_mentions(get_examples(), kb, key, resolve)
    if reranks:
        reranker_trainer = _reranker_trainer(linker)
        reranker_trainer.retrieve(mentions or [])
        linker.trainer = reranker_trainer
    else:
        check_listens(linker.model)
        evaluated = set()
        if evaluated_examples and not linker.training.freeze_entities:
            evaluated = gold_numbers(evaluated_examples(), kb, key)
        linker.cfg["loss"], linker.cfg["trained_entities"] = {}, []
        linker.trainer = _retriever_trainer(linker, mentions, trained, evaluated, sizes)
    note_trained(linker, trained)
    _drop_calibration(linker)


def resume(linker: TrainablePipe, examples: Iterable[Example]) -> None:
    """Make the trainer of a saved linker whose training continues.

    Evaluations also search the entities of the examples.
    """
    _drop_calibration(linker)
    if linker.reranker_model is not None:
        _check_candidates(linker)
        linker.trainer = _reranker_trainer(linker)
        return
    if not linker.training.freeze_entities and len(linker.kb) > RESUMED_SEARCH:
        logger.warning(
            '"%s" continues a saved pipeline: until "finish_training" it searches a random '
            "sample of %d entities of the KB, which may lack the entities of dev; for more reliable "
            "figures, start from @misc = spacy-pel.TrainedEncoder.v1 instead of a source",
            linker.name,
            RESUMED_SEARCH,
        )
    trained = gold_numbers(examples, linker.kb, linker.spans_key)
    sizes = IndexSizes(RESUMED_SEARCH, RESUMED_SEARCH)
    linker.trainer = _retriever_trainer(linker, None, trained, set(), sizes)


def note_trained(linker: TrainablePipe, numbers: set[int]) -> None:
    """Add entities, by their numbers, to the ``trained_entities`` of a linker."""
    ids = {id for id, _ in linker.kb.labels(sorted(numbers - linker.trainer.trained))}
    linker.cfg["trained_entities"] = sorted(ids.union(linker.cfg["trained_entities"]))
    linker.trainer.trained |= numbers


def _drop_calibration(linker: TrainablePipe) -> None:
    """Drop the calibration of a linker whose weights will change."""
    linker.fitted.forget(keep_threshold=linker.reranker_model is not None)


def check_listens(retriever: AnyModel) -> None:
    """Raise PelError if a retriever has no listener, but a copy of its recogniser.

    It can be neither trained nor saved.
    """
    tok2vec = retriever.maybe_get_ref("tok2vec")
    if tok2vec is not None and not any(hasattr(node, "upstream_name") for node in tok2vec.walk()):
        raise PelError(
            "a linker that shares the encoder of another component cannot read by itself",
            "use a listener (spacy-transformers.TransformerListener.v1 or spacy.Tok2VecListener.v1), and do "
            "not replace it (nlp.replace_listeners, or replace_listeners in a config)",
        )


def _texts(kb: KnowledgeBase, examples: Iterable[Example]) -> Iterator[str]:
    """Yield the texts of a KB and of examples, to learn a vocabulary."""
    for entity in kb:
        yield from entity.names
        yield from entity.types
        yield entity.definition or ""
    for example in examples:
        yield example.reference.text


def _check_candidates(linker: TrainablePipe) -> None:
    """Raise PelError if there are no candidates that the reranker can be trained on."""
    if not is_initialized(linker.model):
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
            f'the retriever of "{linker.name}" shares the encoder of another component, '
            "which does not run before a reranker is trained",
            "train it with a retriever that reads by itself",
        )
    linker.kb.check_fingerprint(entity_fingerprint(linker.retriever))


def _rng() -> np.random.Generator:
    """Return a generator; thinc seeds numpy's global generator from [training.seed]."""
    return np.random.default_rng(np.random.randint(2**31))


def _reranker_trainer(linker: TrainablePipe) -> RerankerTrainer:
    return RerankerTrainer(
        linker.reranker,
        linker.retriever,
        linker.kb,
        linker.search.rerank,
        linker.training.regularizer,
        _rng(),
        linker.training.views,
    )


def _retriever_trainer(
    linker: TrainablePipe,
    mentions: Sequence[GoldMention] | None,
    trained: set[int],
    evaluated: set[int],
    sizes: IndexSizes,
) -> RetrieverTrainer:
    """Return the trainer of the retriever.

    Args:
        linker: The linker.
        mentions: All training mentions, which ``coreference`` needs; None: unknown.
        trained: The numbers of the gold entities of the training mentions.
        evaluated: The numbers of further entities that evaluations search.
        sizes: The sizes of the indexes.
    """
    rng, training = _rng(), linker.training
    if training.loss is not None:
        training.loss.restore(linker.cfg["loss"])
    if training.freeze_entities:
        pool = _pool_of_vectors(linker)
    else:
        pool = _pool_of_encoded(linker, rng, mentions, trained, evaluated, sizes)
    return RetrieverTrainer(
        linker.retriever,
        pool,
        training.loss,
        training.negatives,
        rng,
        fgsm=training.regularizer,
        coreference=training.coreference,
        pair_loss=training.pair_loss,
        views=training.views,
    )


def _pool_of_encoded(
    linker: TrainablePipe,
    rng: np.random.Generator,
    mentions: Sequence[GoldMention] | None,
    trained: set[int],
    evaluated: set[int],
    sizes: IndexSizes,
) -> NegativePool:
    """Return entities that are encoded again while the retriever learns; see ``_retriever_trainer``."""
    kb, retriever, index_unit = linker.kb, linker.retriever, linker.cfg["index_unit"]
    mention_index = None
    if linker.training.coreference is not None:
        if mentions is None:
            raise PelError(
                "training continues a saved pipeline, and the gold clusters of its mentions are unknown",
                "start from @misc = spacy-pel.TrainedEncoder.v1 in place of a source",
            )
        mention_index = GoldMentionIndex(mentions, retriever)
    # A generator of its own keeps the draws of steps independent of the indexes. Both indexes take
    # entities in the same random order, so that most entities are in both.
    numbers = kb.numbers()
    drawn = rng.spawn(1)[0].permutation(np.setdiff1d(numbers, list(trained)))

    def with_random(chosen: set[int], n: int | None) -> np.ndarray:
        """Return n entities: the chosen ones and a random sample; None: all."""
        if n is None or n >= len(numbers):
            return numbers
        others = drawn[~np.isin(drawn, list(chosen))][: max(0, n - len(chosen))]
        return np.sort(np.concatenate([list(chosen), others])).astype(int)

    mined = with_random(trained, sizes.mined_entities)
    golds = evaluated if sizes.searched_index_unit else trained | evaluated
    searched = with_random(golds, sizes.searched_entities)
    mined_index = searched_index = entity_index(kb, retriever, index_unit, mined)
    searched_unit = sizes.searched_index_unit or index_unit
    if searched_unit != index_unit or not np.array_equal(mined, searched):
        searched_index = entity_index(kb, retriever, searched_unit, searched)
    name_dropout = linker.training.name_dropout
    return NegativePool(kb, index_unit, name_dropout, mined_index, searched_index, mention_index)


def _pool_of_vectors(linker: TrainablePipe) -> NegativePool:
    """Return entities with the KB's vectors; PelError if the mention tower cannot be trained alone."""
    kb, retriever, index_unit = linker.kb, linker.retriever, linker.cfg["index_unit"]
    freezes, vectors = f'"{linker.name}" freezes its entities', f"{kb.path}: its vectors"
    if len(retriever.layers) == 1:
        raise PelError(
            f"{freezes}, but both towers are one encoder", 'set "shared" of its model to false'
        )
    if linker.training.regularizer is not None:
        raise PelError(f"{freezes}, and FGSM would encode them", 'set its "regularizer" to null')
    if linker.training.coreference is not None:
        raise PelError(
            f"{freezes}, and gold clusters are made of entities under training",
            'set its "freeze_entities" to false, or its "coreference" to null',
        )
    if kb.fingerprint != entity_fingerprint(retriever):
        raise PelError(
            f"{vectors} were made by another encoder than the entity tower that is to be frozen",
            "start from the pipeline that made them (@misc = spacy-pel.TrainedEncoder.v1)"
            ", with its similarity, entity_length and pooling of entities",
        )
    if kb.index_unit != index_unit:
        raise PelError(
            f'{vectors} have the index unit "{kb.index_unit}", but "{linker.name}" has "{index_unit}"',
            f'set its "index_unit" to "{kb.index_unit}"',
        )
    return NegativePool(kb, index_unit, linker.training.name_dropout, StoredRows(kb))
