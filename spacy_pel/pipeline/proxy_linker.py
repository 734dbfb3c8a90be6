"""The pipeline component ``proxy_linker``: links the mentions of a Doc to a knowledge base."""

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer

from .. import architectures
from ..architectures.sources import linker_folder
from ..linking.candidate_search import Searchable
from ..linking.link import Links, link
from ..reading.gold_mention import GoldMention
from ..reading.proxies import check_row_kind
from ..spans import mention_spans
from ..training.optimizer import apply_gradients
from ..training.retriever_trainer import RetrieverTrainer
from ..training.trainer import Trainer
from .annotations import answers, write_answers
from .calibrated import NOT_CALIBRATED, CalibratedPipe
from .extensions import install_extensions
from .gold import gold_numbers, trainable_mentions
from .kb_ents import offered
from .kb_reference import KB_REFERENCE
from .mentions import agreeing, mentions_of, search_limits
from .reading import begin_reading, check_listens, read_texts
from .saving import SavedFile
from .settings import (
    AnswerSettings,
    MentionSettings,
    SearchSettings,
    TrainingSettings,
    has_settings_as_attributes,
)
from .training_session import (
    TrainingSession,
    both_towers_trainer,
    check_candidates,
    mention_tower_trainer,
    reranker_trainer,
    training_entities,
    vocabulary_texts,
)
from .workers import use_one_thread_in_a_worker

logger = logging.getLogger(__name__)

# The number of entities that evaluations search if training goes on without ``initialize``.
RESUMED_SEARCH = 20_000


@has_settings_as_attributes
class ProxyLinker(CalibratedPipe, TrainablePipe):
    """Links mentions to entities: encodes each in its context, finds the nearest proxies, and, if
    it has a reranker, reads the best of them again together with the mention.

    DOCS: the README; PEL (Wiatrak et al. 2022), sections 4 and 5, appendix B.
    """

    factory = "proxy_linker"

    def __init__(
        self,
        vocab: Vocab,
        model: Model,
        name: str = "proxy_linker",
        *,
        kb: str | None,
        path: str | None,
        nil_threshold: float | None,
        row_kind: str,
        reranker: Model | None,
        runtime: str,
        scorer: Callable | None,
        mention_settings: MentionSettings,
        search_settings: SearchSettings,
        answer_settings: AnswerSettings,
        training_settings: TrainingSettings,
    ):
        """Construct the component; opens nothing. The arguments are those of the factory."""
        self.vocab = vocab
        self.name = name
        self.scorer = scorer
        self.mention_settings = mention_settings
        self.search_settings = search_settings
        self.answer_settings = answer_settings
        self.training_settings = training_settings
        # What belongs to the weights and is saved with them.
        self.cfg: dict[str, Any] = {
            **NOT_CALIBRATED,
            "nil_threshold": nil_threshold,
            "configured_nil_threshold": nil_threshold,
            "row_kind": check_row_kind(row_kind),
            "trained_entities": [],
        }
        self.refer_to(kb)
        self.take_encoders(model, reranker, runtime, path)
        self._session: TrainingSession | None = None
        install_extensions()

    # Linking

    @property
    def index(self) -> Searchable:
        """What is searched: the KB, or, in a training session, the proxies as they are now.

        Raises:
            PelError: the KB has no vectors, or those of another encoder.
        """
        if self._session and isinstance(self._session.trainer, RetrieverTrainer):
            return self._session.trainer.pool
        return self.embedded_kb

    def predict(self, docs: Iterable[Doc]) -> Links | None:
        """What linking says of the docs' mentions, in their order; None if there is no mention."""
        docs = list(docs)
        if not any(mention_spans(doc, self.spans_key) for doc in docs):
            return None
        texts = read_texts(self.model, docs)
        mentions = mentions_of(docs, self.spans_key, self.resolve_abbreviations, texts)
        use_one_thread_in_a_worker()
        search = self.search_settings
        only = search_limits(
            docs,
            self.spans_key,
            types=search.types,
            sources=search.sources,
            label_types=search.label_types,
        )
        # In a training session weights change, and only torch follows them.
        encoders = [] if self._session else self.linking_encoders()
        with self.runtime.computes(encoders):
            return link(
                self.retriever,
                self.index,
                mentions,
                search.candidates,
                nil_threshold=self.nil_threshold,
                calibration=self.fitting(self.calibration),
                reranking=self.reranking,
                exact_names=self.exact_names,
                filters=only,
                groups=agreeing(docs, self.spans_key, mentions, only) if search.agree else None,
            )

    def set_annotations(self, docs: Iterable[Doc], links: Links | None) -> None:
        """Write ids, scores, probabilities and candidates on the mentions."""
        if links is None:
            return
        chosen = offered(links, self.kb, self.answer_settings)
        said = answers(links, self.kb, chosen)
        write_answers(docs, said, self.spans_key, self.answer_settings.overwrite)

    # Training

    @property
    def trainer(self) -> Trainer | None:
        """What trains the retriever, or the reranker; None outside a training session."""
        return self._session.trainer if self._session else None

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        searched_entities: int | None = 20000,
        searched_corpus: Callable[[Language], Iterable[Example]] | None = None,
    ) -> None:
        """Fetch or build the encoder, and get ready for training.

        With a reranker in the config it is the reranker that is trained, on the candidates that
        the retriever finds for the training mentions; they are searched now, and kept. The
        retriever has to be trained, and the KB to have its vectors; it stands still.

        get_examples: the training examples.
        searched_entities: how many entities evaluation during training searches, null for all: the
            training entities, those of searched_corpus, and as many others drawn at random.
        searched_corpus: usually the dev corpus; its entities are among those searched, so that
            the figures while training are high but comparable. Evaluate on the whole KB at the
            end, with "pel evaluate". With a reranker the whole KB is always searched.
        Raises PelError if no example has a mention in the KB, and, for a reranker, if there is no
        trained retriever, or the KB has no vectors of it.
        """
        wanted = training_entities(get_examples(), self.kb, self.spans_key)
        texts = vocabulary_texts(self.kb, get_examples())
        if self.reranker_model is None:
            self.model.initialize(X=texts)
            self._retriever = None
            check_listens(self.model)
            if searched_corpus and not self.training_settings.freeze_entities:
                others = gold_numbers(searched_corpus(nlp), self.kb, self.spans_key)
            else:
                others = set()
            self._begin_session(wanted | others, searched_entities)
            self.cfg["trained_entities"] = []
        else:
            self._check_candidates()
            self.reranker_model.initialize(X=texts)
            self._reranker = None
            self._begin_session(wanted, None)
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
        """Learn from the gold mentions of a batch; those without an entity in the KB teach nothing.

        Raises PelError without KB or weights, and if the loss is not a number.
        """
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        validate_examples(examples, "ProxyLinker.update")
        texts, backprop = begin_reading(self.model, [example.predicted for example in examples])
        mentions = self._trainable(examples, texts)
        if mentions:
            if self._session is None:
                self.prepare_training(examples)
            self._note_trained({n for mention in mentions for n in mention.golds})
            caching = self.training_settings.gradient_caching
            architectures.set_dropout(self._model_in_training, drop)
            architectures.set_gradient_caching(self._model_in_training, caching)
            losses[self.name] += sum(self._session.trainer.step(mentions))
        backprop()
        if mentions and sgd not in (None, False):
            self.finish_update(sgd)
        return losses

    def prepare_training(self, examples: Iterable[Example]) -> None:
        """Get ready to go on from a saved pipeline, as the first ``update`` does by itself."""
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
        self._begin_session(wanted, RESUMED_SEARCH)

    def finish_update(self, sgd: Optimizer) -> None:
        """Apply the accumulated gradients; what was calibrated on the weights before is dropped."""
        apply_gradients(self._model_in_training, sgd)
        self.runtime.forget()
        self.calibration = self.name_weight = self.rerank_weight = None
        if self.reranker_model is None:
            self.nil_threshold = self.cfg["configured_nil_threshold"]
            self._checked_fingerprint = None
        if self._session is not None:
            self._session.trainer.note_update()

    def _trainable(
        self, examples: Iterable[Example], texts: Sequence[str] | None = None
    ) -> list[GoldMention]:
        resolved = self.resolve_abbreviations
        return trainable_mentions(examples, self.kb, self.spans_key, resolved, texts)

    def _begin_session(self, wanted: set[int], searched_entities: int | None) -> None:
        """Make the trainer; the arguments are those of ``both_towers_trainer``."""
        kb, settings, row_kind = self.kb, self.training_settings, self.cfg["row_kind"]
        trainer: Trainer
        if self.reranker_model is not None:
            candidates, fgsm = self.search_settings.rerank, settings.regularizer
            trainer = reranker_trainer(kb, self.retriever, self.reranker, candidates, fgsm)
        elif settings.freeze_entities:
            trainer = mention_tower_trainer(self.name, kb, self.retriever, row_kind, settings)
        else:
            trainer = both_towers_trainer(
                kb, self.retriever, row_kind, settings, wanted, searched_entities
            )
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
        """Leave the training session: search the KB from now on, not its part under training."""
        self._session = None

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Scores of the pipeline's scorer; see ``scorer.linking_scores``."""
        if self.scorer is None:
            return {}
        return self.scorer(
            examples,
            kb=self.kb,
            trained_entities=self.cfg["trained_entities"],
            spans_key=self.spans_key,
            nil_threshold=self.nil_threshold,
            **kwargs,
        )

    def add_label(self, label: str) -> int:
        raise NotImplementedError("a linker has entities, not labels; add them to the KB")

    # Saving and loading

    def open(self, path: os.PathLike) -> "ProxyLinker":
        """Take weights, settings and KB of a trained linker: its folder, or its pipeline's.

        A reranker that the config names is not replaced by the saved one.
        Raises PelError if there is none.
        """
        exclude = ("vocab",) if self.reranker_model is None else ("vocab", "reranker")
        configured = self._configured_kb  # by this config, whatever was by that of the other
        self.from_disk(linker_folder(Path(path)), exclude=exclude)
        self._configured_kb = configured
        return self

    def saved_files(self) -> dict[str, SavedFile]:
        """Settings and weights, and where the KB is. The KB itself is not copied."""
        return {
            "cfg": self.cfg_file(),
            **self.encoder_files(),
            KB_REFERENCE: self.kb_reference_file(),
        }

    def forget_weights(self) -> None:
        """Drop what was made of the weights before, the training session included."""
        super().forget_weights()
        self._session = None

    def forget_kb(self) -> None:
        """Drop what was made of the KB before: the training session."""
        self._session = None
