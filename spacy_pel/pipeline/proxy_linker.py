"""The pipeline component ``proxy_linker``: links the mentions of a Doc to a knowledge base."""

import json
import logging
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer

from ..architectures import linker_folder, tok2vec_of, unpack_retriever
from ..kb.knowledge_base import KnowledgeBase
from ..linking.calibration import FittedWeight
from ..linking.exact_names import ExactNameBonus, SoleOwnersFirst
from ..linking.link import Searchable, link, without_candidates
from ..linking.nil import Sure
from ..linking.reranking import Reranking
from ..linking.retriever import Retriever
from ..reading.proxies import check_row_kind
from ..spans import mention_spans
from ..training.retriever_trainer import RetrieverTrainer
from ..training.trainer import Trainer
from .annotations import LinkedSpans, answers, install_extensions, write_answers
from .doc_mentions import agreeing, begin_reading, mentions_of, search_filters
from .encoders import Encoders, packed_reranker, packed_retriever, unpacked_reranker
from .fitted import Fitted, FittedScore
from .kb_reference import KB_REFERENCE, KBReference
from .learning import Learning
from .runtime import Runtime, use_one_thread_in_a_worker
from .saving import Saved, SavedFile, SavedPipe, content
from .settings import Settings, attribute_of, give_settings

if TYPE_CHECKING:
    from ..linking.reranker import Reranker

logger = logging.getLogger(__name__)


class ProxyLinker(SavedPipe, TrainablePipe):
    """Links mentions to entities of a knowledge base.

    It encodes each mention in its context and searches the proxies, the vectors that stand for
    entities, that are nearest to it. If it has a reranker, that reads the best candidates again,
    each together with the mention. See PEL (Wiatrak et al. 2022), sections 4 and 5, appendix B.

    Each of the settings is an attribute, which may be changed between texts:
    ``linker.threshold = 0.1``. What the linker does, its parts do.

    ``factory.DEFAULT_CONFIG`` explains its arguments.

    Raises:
        PelError: There is no such row kind or runtime.

    Attributes:
        kb_reference: Finds and opens the KB.
        encoders: The retriever and the reranker, as far as they are trained.
        runtime: Computes the encoders when the linker links.
        fitted: What ``pel calibrate`` has fitted to the scores.
        learning: Trains the retriever or the reranker.
        model: The thinc model of the retriever, with or without weights.
        reranker_model: The thinc model of the reranker; None: there is no reranker.
        cfg: What belongs to the weights and is saved with them, as plain data: the ``row_kind``,
            the ids of the ``trained_entities``, and the state of the loss.
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
        settings: Settings,
    ):
        """Construct the component; opens nothing."""
        self.vocab = vocab
        self.name = name
        self.scorer = scorer
        self.settings = settings
        self.model = model
        self.reranker_model = self._configured_reranker = reranker
        self.cfg: dict[str, Any] = {
            "row_kind": check_row_kind(row_kind),
            "trained_entities": [],
            # What the loss took from the first batch: the bias of the proxy-based loss.
            "loss": {},
        }
        self.fitted = Fitted(nil_threshold, configured_nil_threshold=nil_threshold)
        self.kb_reference = KBReference(name, self.factory, kb)
        self.runtime = Runtime(runtime)
        self.learning = Learning(self)
        self._path = path
        self._said_of: tuple[Any, set[str]] = (None, set())  # a calibration, labels warned of
        self.forget_weights()
        install_extensions()

    # What of its parts users and commands need

    @property
    def kb(self) -> KnowledgeBase:
        """The knowledge base, opened; PelError if there is none."""
        return self.kb_reference.kb

    @property
    def retriever(self) -> Retriever:
        """The trained bi-encoder; PelError if it has no weights."""
        return self.encoders.retriever

    @property
    def reranker(self) -> "Reranker":
        """The trained cross-encoder; PelError if there is none."""
        return self.encoders.reranker

    nil_threshold = attribute_of("fitted", "nil_threshold")
    calibration = attribute_of("fitted", "calibration")
    rerank_weight = attribute_of("fitted", "rerank_weight")
    name_weight = attribute_of("fitted", "name_weight")
    joint = attribute_of("fitted", "joint")

    # Linking

    def predict(self, docs: Iterable[Doc]) -> LinkedSpans | None:
        """Link the mentions of docs; changes nothing on the docs.

        Returns:
            The mentions and their results; None if there is no mention.

        Raises:
            PelError: There is no KB, or there are no weights, or they do not fit.
        """
        docs, settings, fitted = list(docs), self.settings, self.fitted
        spans = [mention_spans(doc, settings.spans_key) for doc in docs]
        if not any(spans):
            return None
        documents, _ = begin_reading(self.model, docs, is_train=False)
        mentions = mentions_of(docs, spans, documents, settings.resolve_abbreviations)
        use_one_thread_in_a_worker()
        filters = search_filters(spans, settings.types, settings.sources, settings.label_types)
        reranking, least = self.reranking, settings.sure_probability
        # In a training session weights change, and only torch follows them. Evaluations show what
        # the encoder has learnt, not what names know.
        training = self.learning.trainer is not None
        computed = [] if training else self.encoders.berts(reranking is not None)
        with self.runtime.computes(computed):
            links = link(
                self.retriever,
                self.index,
                mentions,
                settings.candidates,
                nil_threshold=fitted.nil_threshold,
                sure=None if training or least is None else Sure(self.kb, least),
                calibration=self.fitting(fitted.calibration),
                reranking=reranking,
                exact_names=None if training else self.exact_names,
                filters=filters,
                groups=agreeing(spans, mentions, filters) if settings.agree else None,
                known=None if training else self.kb.mentions,
            )
        blank = np.array([not mention.surface.strip() for mention in mentions])
        if blank.any():  # no name of an entity is blank
            links = without_candidates(links, blank, fitted.nil_threshold)
        return LinkedSpans(spans, links)

    def set_annotations(self, docs: Iterable[Doc], linked: LinkedSpans | None) -> None:
        """Write ids, scores, probabilities and candidates on the mentions that ``predict`` linked."""
        if linked is None:
            return
        spans, links = linked
        self._warn_of_labels({span.label_ for own in spans for span in own})
        said, settings = answers(links, self.kb, self.settings), self.settings
        write_answers(docs, spans, said, settings.spans_key, settings.overwrite)

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """What the scorer says of linked docs (``scorer.linking_scores``); nothing without one."""
        if self.scorer is None:
            return {}
        return self.scorer(
            examples,
            kb=self.kb,
            trained_entities=self.cfg["trained_entities"],
            spans_key=self.settings.spans_key,
            nil_threshold=self.nil_threshold,
            **kwargs,
        )

    def add_label(self, label: str) -> int:
        """Refuse: a linker has no labels."""
        raise NotImplementedError("a linker has entities, not labels; add them to the KB")

    @property
    def index(self) -> Searchable:
        """What is searched: the KB, or the proxies under training, encoded by the present weights.

        PelError: the KB has no vectors, or those of another encoder.
        """
        trainer = self.learning.trainer
        if isinstance(trainer, RetrieverTrainer) and trainer.pool.searched:
            return trainer.pool
        return self.encoders.embedded(self.kb)

    @property
    def reranked(self) -> int:
        """The number of candidates of a mention that are ranked again; 0 without a reranker."""
        return 0 if self.reranker_model is None else self.settings.rerank

    @property
    def reranking(self) -> Reranking | None:
        """How candidates are reranked; None if they are not."""
        if not self.reranked:
            return None
        weight = self.fitting(self.fitted.rerank_weight) or FittedWeight(1.0)
        return Reranking(self.reranker, self.kb, self.reranked, weight.value)

    @property
    def exact_names(self) -> ExactNameBonus | SoleOwnersFirst | None:
        """What exact names change in the order of candidates; None: nothing.

        What was fitted goes before the default. A reranker decides by itself.
        """
        weight = self.fitting(self.fitted.name_weight)
        if weight:
            return ExactNameBonus(self.kb, weight.value)
        by_default = self.settings.sole_owners_first and not self.reranked
        return SoleOwnersFirst(self.kb) if by_default else None

    def fitting(self, fitted: FittedScore | None) -> FittedScore | None:
        """What was fitted, if it still applies: the linker reranks as many candidates as then."""
        return fitted if fitted and fitted.reranked == self.reranked else None

    def _warn_of_labels(self, labels: set[str]) -> None:
        """Warn, once for each label, if the probabilities were fitted on other labels alone."""
        calibration = self.fitting(self.fitted.calibration)
        if self._said_of[0] is not calibration:
            self._said_of = calibration, set()
        unknown = calibration.unknown(labels) if calibration else []
        new = [label for label in unknown if label not in self._said_of[1]]
        if new:
            self._said_of[1].update(new)
            logger.warning(
                "%s: the probabilities were fitted on mentions of %s. They may be wrong for "
                "mentions of %s; calibrate on a corpus that has such mentions: python -m spacy pel "
                "calibrate PIPELINE DEV",
                *(self.name, calibration.fitted_on, ", ".join(map(repr, new))),
            )

    # Training

    @property
    def trainer(self) -> Trainer | None:
        """The trainer of the retriever or the reranker; None outside a training session."""
        return self.learning.trainer

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
        self.learning.initialize(
            get_examples,
            nlp=nlp,
            mined_entities=mined_entities,
            searched_entities=searched_entities,
            searched_corpus=searched_corpus,
            searched_row_kind=searched_row_kind,
        )

    def prepare_training(self, examples: Iterable[Example]) -> None:
        """Get ready to go on from a saved pipeline, as the first ``update`` does by itself.

        Evaluations search the entities of the examples, among others.
        """
        self.learning.prepare(examples)

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Learn from the gold mentions of a batch that have an entity in the KB.

        Without ``sgd`` gradients are kept until ``finish_update``.

        Raises:
            PelError: There is no KB, or there are no weights, or the loss is not a number.
        """
        return self.learning.update(examples, drop=drop, sgd=sgd, losses=losses)

    def finish_update(self, sgd: Optimizer) -> None:
        """Apply the accumulated gradients, and drop what was calibrated on the weights before."""
        self.learning.finish_update(sgd)

    def finish_training(self) -> None:
        """Leave the training session: from now on the KB is searched."""
        self.learning.finish()

    def forget_weights(self) -> None:
        """Drop what was made of the weights before, the training session included."""
        self.encoders = Encoders(self.name, self.model, self.reranker_model, self._path)
        self.runtime.forget()
        self.learning.finish()

    # Saving and loading

    def open(self, path: str | os.PathLike) -> "ProxyLinker":
        """Take the weights, the calibration and the KB of a trained linker; PelError if there is none.

        A reranker or a KB that this component's config names is not replaced. The path is that of the
        linker's folder, its pipeline's, or the name of an installed pipeline.
        """
        exclude = ("vocab",) if self.reranker_model is None else ("vocab", "reranker")
        configured = self.kb_reference.configured  # the other linker's config had its own
        self.from_disk(linker_folder(path), exclude=exclude)
        self.kb_reference.configured = configured
        return self

    def set_kb(self, path: str | os.PathLike) -> None:
        """Use the knowledge base of another folder from now on; PelError if there is none in it."""
        self.kb_reference.set(path)
        self.learning.finish()

    def settings_of_weights(self) -> dict[str, Any]:
        """What is saved with the weights, as plain data: ``cfg``, and what was fitted."""
        return {**self.fitted.as_data(), **self.cfg}

    def saved_files(self) -> dict[str, SavedFile]:
        """Settings and weights, and where the KB is. The KB itself is not copied."""
        reranker = self.reranker_model
        return {
            "cfg": SavedFile(
                lambda _: json.dumps(self.settings_of_weights()).encode(), self._load_settings
            ),
            "model": SavedFile(lambda _: packed_retriever(self.model), self._load_retriever),
            "reranker": SavedFile(
                None if reranker is None else lambda _: packed_reranker(reranker),
                lambda saved: self._take_reranker(unpacked_reranker(saved)),
                missing=lambda: self._take_reranker(self._configured_reranker),
            ),
            KB_REFERENCE: self.kb_reference.saved_file(),
        }

    def _load_settings(self, saved: Saved) -> None:
        data = json.loads(content(saved))
        self.fitted = Fitted.of(data, self.fitted.configured_nil_threshold)
        self.cfg = {name: data.get(name, value) for name, value in self.cfg.items()}

    def _load_retriever(self, saved: Saved) -> None:
        # What it listens to, if it does, is in the pipeline's config.
        self.model = unpack_retriever(saved, tok2vec_of(self.model))
        self.forget_weights()

    def _take_reranker(self, model: Model | None) -> None:
        self.reranker_model = model
        self.forget_weights()


give_settings(ProxyLinker)
