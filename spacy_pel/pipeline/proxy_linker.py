"""The pipeline component ``proxy_linker``: links the mentions of a Doc to a knowledge base."""

import os
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model

from ..architectures import linker_folder
from ..linking.link import link, without_candidates
from ..reading.proxies import check_row_kind
from ..spans import mention_spans
from .annotations import LinkedSpans, answers, write_answers
from .calibrated import NOT_CALIBRATED
from .doc_mentions import agreeing, mentions_of, search_filters
from .extensions import install_extensions
from .kb_ents import offered, warn_of_threshold
from .kb_reference import KB_REFERENCE
from .learning import LearningPipe
from .listening import read_documents
from .saving import SavedFile
from .settings import (
    AnswerSettings,
    MentionSettings,
    SearchSettings,
    TrainingSettings,
    has_settings_as_attributes,
)
from .workers import use_one_thread_in_a_worker


@has_settings_as_attributes
class ProxyLinker(LearningPipe, TrainablePipe):
    """Links mentions to entities of a knowledge base.

    It encodes each mention in its context and searches the proxies, the vectors that stand for
    entities, that are nearest to it. If it has a reranker, that reads the best candidates again,
    each together with the mention. See PEL (Wiatrak et al. 2022), sections 4 and 5, appendix B.

    Each setting of the config is an attribute, which may be changed between texts:
    ``linker.threshold = 0.1``.

    Attributes:
        mention_settings: Where the mentions are, and how they are read.
        search_settings: Which entities are searched, and how candidates are ordered.
        answer_settings: What is written on a mention.
        training_settings: How the retriever is trained.
        cfg: What belongs to the weights and is saved with them, as plain data.
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
        """Construct the component; opens nothing.

        Args:
            vocab: The pipeline's vocabulary.
            model: The thinc model of the retriever, with or without weights.
            name: The component's name in the pipeline.
            kb: The folder of the knowledge base.
            path: The trained linker that the config names, for errors.
            nil_threshold: A mention whose best score is below it is NIL.
            row_kind: What a row of the index stands for; see ``reading.proxies``.
            reranker: The thinc model of the reranker, if there is one.
            runtime: The name of a ``Runtime``, such as "torch".
            scorer: What ``score`` calls.
            mention_settings: Where the mentions are, and how they are read.
            search_settings: Which entities are searched, and how candidates are ordered.
            answer_settings: What is written on a mention.
            training_settings: How the retriever is trained.

        Raises:
            PelError: There is no such row kind or runtime.
        """
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
            # What the loss took from the first batch: the bias of the proxy-based loss.
            "loss": {},
        }
        self.refer_to(kb)
        self.take_encoders(model, reranker, runtime, path)
        install_extensions()

    # Linking

    def predict(self, docs: Iterable[Doc]) -> LinkedSpans | None:
        """Link the mentions of docs; changes nothing on the docs.

        Args:
            docs: Docs with mentions.

        Returns:
            The mentions and their results; None if there is no mention.

        Raises:
            PelError: There is no KB, or there are no weights, or they do not fit.
        """
        docs = list(docs)
        spans = [mention_spans(doc, self.spans_key) for doc in docs]
        if not any(spans):
            return None
        documents = read_documents(self.model, docs)
        mentions = mentions_of(docs, spans, documents, self.resolve_abbreviations)
        use_one_thread_in_a_worker()
        search = self.search_settings
        filters = search_filters(
            spans, types=search.types, sources=search.sources, label_types=search.label_types
        )
        # In a training session weights change, and only torch follows them.
        encoders = [] if self._session else self.linking_encoders()
        with self.runtime.computes(encoders):
            links = link(
                self.retriever,
                self.index,
                mentions,
                search.candidates,
                nil_threshold=self.nil_threshold,
                calibration=self.fitting(self.calibration),
                reranking=self.reranking,
                # Evaluations in training show what the encoder has learnt, not what names know.
                exact_names=None if self._session else self.exact_names,
                filters=filters,
                groups=agreeing(spans, mentions, filters) if search.agree else None,
                known=None if self._session else self.kb.mentions,
            )
        blank = np.array([not mention.surface.strip() for mention in mentions])
        if blank.any():  # no name of an entity is blank
            links = without_candidates(links, blank, self.nil_threshold)
        return LinkedSpans(spans, links)

    def set_annotations(self, docs: Iterable[Doc], linked: LinkedSpans | None) -> None:
        """Write ids, scores, probabilities and candidates on the mentions.

        Args:
            docs: The docs that were given to ``predict``.
            linked: What it returned.
        """
        if linked is None:
            return
        spans, links = linked
        self.warn_of_labels({span.label_ for own in spans for span in own})
        settings = self.answer_settings
        warn_of_threshold(links, settings)
        chosen = offered(links, self.kb, settings)
        said = answers(links, self.kb, chosen, settings.xrefs or ())
        if settings.vectors:
            said = (answer._replace(vector=own) for answer, own in zip(said, links.vectors))
        write_answers(docs, spans, said, self.spans_key, settings.overwrite)

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Score linked docs.

        Args:
            examples: The docs, with their gold mentions.
            **kwargs: More arguments of the scorer.

        Returns:
            What the scorer returns (see ``scorer.linking_scores``); nothing without a scorer.
        """
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
        """Refuse: a linker has no labels."""
        raise NotImplementedError("a linker has entities, not labels; add them to the KB")

    # Saving and loading

    def open(self, path: str | os.PathLike) -> "ProxyLinker":
        """Take the weights, the calibration and the KB of a trained linker.

        A reranker or a KB that this component's config names is not replaced.

        Args:
            path: The linker's folder, its pipeline's, or the name of an installed pipeline.

        Returns:
            This component.

        Raises:
            PelError: There is no trained linker.
        """
        exclude = ("vocab",) if self.reranker_model is None else ("vocab", "reranker")
        configured = self._configured_kb  # by this config: the other linker's had its own
        self.from_disk(linker_folder(path), exclude=exclude)
        self._configured_kb = configured
        return self

    def saved_files(self) -> dict[str, SavedFile]:
        """Settings and weights, and where the KB is. The KB itself is not copied."""
        return {
            "cfg": self.cfg_file(),
            **self.encoder_files(),
            KB_REFERENCE: self.kb_reference_file(),
        }
