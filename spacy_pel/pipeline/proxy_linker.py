"""The pipeline component ``proxy_linker``: links the mentions of a Doc to a knowledge base."""

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from functools import cached_property, partial
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc, Span
from spacy.training import Example, validate_examples
from thinc.api import Optimizer

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..linking.apply_corrections import DecidedMention, decisions_about, with_decisions
from ..linking.link import SEARCH_DEPTH, LinkOptions, Links, Ordering, link, ranking_input
from ..linking.nil import NilPolicy
from ..linking.ordering import RankingInput, Reranking, unambiguous_names_first
from ..linking.reranker import Reranker
from ..models.architectures import (
    AnyModel,
    Retriever,
    Tower,
    check_choice,
    entity_fingerprint,
    fingerprint,
    is_initialized,
    linker_folder,
    pack_model,
    pack_retriever,
    pipeline_folder,
    set_dropout,
    unpack_model,
    unpack_retriever,
)
from ..models.architectures.crossencoder import CrossEncoder
from ..spans import mention_spans
from ..text.entity_texts import INDEX_UNITS
from ..text.mention_inputs import MentionInContext
from ..training.optimizer import apply_gradients
from ..training.pool import NegativePool
from ..training.retriever_trainer import RetrieverTrainer
from ..training.trainer import Trainer
from . import training_session as learning
from .annotations import Prediction, predictions, write_predictions
from .doc_mentions import (
    RECOGNISER,
    drop_states,
    mentions_in_context,
    read_documents,
    search_filters,
    trainable_mentions,
)
from .fitted import Fitted, FittedScore, fitted_value
from .kb_component import KBComponent, Saved, SavedFile, content
from .recogniser_copy import RecogniserCopy, packed_reader, reader_beside, unpacked_reader
from .runtime import Runtime
from .settings import OutputSettings, SearchSettings, TrainingSettings

logger = logging.getLogger(__name__)

MAX_CANDIDATES = 10_000  # of a mention; each takes memory in several arrays


class Linked(NamedTuple):
    """The predictions of the linker for documents with mentions."""

    spans: list[list[Span]]  # the mentions of each document
    links: Links  # of all mentions
    predictions: list[Prediction]  # the attributes to write on each mention


_GROUPS = {
    field.name: group
    for group, settings in (
        ("search", SearchSettings),
        ("output", OutputSettings),
        ("training", TrainingSettings),
    )
    for field in fields(settings)
}


class ProxyLinker(KBComponent, TrainablePipe):  # type: ignore[misc]  # spaCy has no stub of TrainablePipe
    """Links mentions to entities of a knowledge base.

    It encodes each mention in its context and searches the nearest proxies, the vectors of entities. A
    reranker, if there is one, reads the best candidates again, each together with the mention. See PEL
    (Wiatrak et al. 2022), sections 4 and 5, appendix B.

    ``factory.DEFAULT_CONFIG`` explains the arguments. Most are attributes, which may be changed between
    texts: ``linker.output.threshold = 0.1``.

    Raises:
        PelError: The index unit or the runtime is unknown, ``rerank`` is negative, ``candidates`` is not
            from 1 to MAX_CANDIDATES, or the linker at ``path`` cannot be opened.

    Attributes:
        runtime: Computes the encoders when the linker links.
        fitted: The results of ``pel calibrate``.
        model: The thinc model of the retriever, with or without weights.
        reranker_model: The thinc model of the reranker; None without a reranker.
        reader: A copy of the "kb_ner" that the retriever listens to, for a pipeline without it.
        trainer: Trains the retriever or the reranker; None outside a training session.
        cfg: The plain data that is saved with the weights: the ``index_unit``, the ids of the
            ``trained_entities``, and the state of the loss.
    """

    factory = "proxy_linker"

    def __init__(
        self,
        nlp: Language,
        name: str = "proxy_linker",
        *,
        model: AnyModel,
        reranker: AnyModel | None,
        search: SearchSettings,
        output: OutputSettings,
        training: TrainingSettings,
        nil_threshold: float | None,
        sure_probability: float | None,
        index_unit: str,
        kb: str | None,
        path: str | None,
        spans_key: str | None,
        runtime: str,
        scorer: Callable[..., dict[str, Any]] | None,
    ):
        """Construct the component. Only the linker at ``path`` is opened."""
        if search.rerank < 0:
            raise PelError(
                f'"rerank" of "{name}" is {search.rerank}', "set it to 0 for no reranking"
            )
        if not 1 <= search.candidates <= MAX_CANDIDATES:
            remedy = f"choose 1 to {MAX_CANDIDATES:,}"
            raise PelError(f'"candidates" of "{name}" is {search.candidates}', remedy)
        check_choice("index_unit", index_unit, *INDEX_UNITS)
        self.vocab = nlp.vocab
        self.name = name
        self.scorer = scorer
        self.spans_key = spans_key
        self.search = search
        self.output = output
        self.training = training
        self.sure_probability = sure_probability

        self.model = model
        self.reranker_model = self._configured_reranker = reranker
        self.cfg: dict[str, Any] = {
            "index_unit": index_unit,
            "trained_entities": [],
            "loss": {},  # for the proxy-based loss, its bias from the first batch
        }
        self.fitted = Fitted(nil_threshold, configured_nil_threshold=nil_threshold)
        self.refer_to_kb(kb)
        self.runtime = Runtime(runtime)
        self.reader: RecogniserCopy | None = None
        self.trainer: Trainer | None = None
        self._path = path
        self._fitting_kb: str | None = None  # the fingerprint of the KB whose vectors fit
        self._warned_of: set[tuple[str, str]] = set()  # labels of the calibration, and a label
        self._known_labels: set[str] = set()  # the labels of ``label_types`` that were checked
        self._checked = ""  # the KB and the settings that were checked against it
        # spaCy loads the weights and the KB of a saved pipeline next. Its ``path`` may be gone.
        is_saved = name in nlp._meta.get("components", ())
        if path is not None and not (is_saved and pipeline_folder(path) is None):
            self.open(path)
            if kb is not None and not is_saved:
                KnowledgeBase.open(kb).close()  # to raise errors now

    def __setattr__(self, name: str, value: object) -> None:
        """Raise PelError for a setting that is set on the linker, where it would have no effect."""
        if group := _GROUPS.get(name):
            problem = f'"{name}" is a setting of the linker, not an attribute'
            raise PelError(problem, f"set linker.{group}.{name}")
        super().__setattr__(name, value)

    nil_threshold = fitted_value("nil_threshold")
    ranking = fitted_value("ranking")
    joint = fitted_value("joint")

    @cached_property
    def retriever(self) -> Retriever:
        """The trained bi-encoder; PelError if it has no weights."""
        if not is_initialized(self.model):
            gone = f"there is no trained linker at {self._path}; " if self._path else ""
            raise PelError(
                f'{gone}"{self.name}" has no weights',
                'train it with "python -m spacy train", '
                'or open a trained one: nlp.add_pipe("proxy_linker", config={"path": FOLDER})',
            )
        return self.model

    @cached_property
    def reranker(self) -> Reranker:
        """The trained cross-encoder; PelError if there is none."""
        if self.reranker_model is None or not is_initialized(self.reranker_model):
            raise PelError(
                f'"{self.name}" has no trained reranker',
                "train one (project/configs/"
                "demo_rerank.cfg shows how), or link without: rerank = 0",
            )
        return Reranker(self.reranker_model)

    # Linking

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Link the mentions of a stream of docs; with the runtime "exact", one doc at a time."""
        for docs in self.runtime.batches(stream, batch_size):
            yield from super().pipe(docs, batch_size=len(docs))

    def predict(self, docs: Iterable[Doc]) -> Linked | None:
        """Link the mentions of docs without changing the docs; None if there is no mention.

        Raises:
            PelError: There is no KB, there are no weights, or they do not fit.
        """
        docs = list(docs)
        spans = [mention_spans(doc, self.spans_key) for doc in docs]
        if not any(spans):
            return None

        def linked(kb: KnowledgeBase) -> Linked:
            index, k = self.searched(kb), self.search.candidates
            mentions, options = self._query(docs, spans, kb)
            with self.runtime.use([] if self.trainer else self.towers):
                links = link(self.model, index, mentions, k, options)
            if self.trainer is None:
                links = self._corrected(links, docs, spans, mentions, options.groups, kb)
            read_as = [mention.read_as for mention in mentions]
            return Linked(spans, links, list(predictions(links, kb, self.output, read_as)))

        _ = self.retriever  # missing weights are reported before a missing KB
        return self.read_kb(linked)

    def _check_choices(self, kb: KnowledgeBase) -> None:
        """Raise PelError if the KB lacks a type, source or vocabulary of the settings; once for a KB."""
        types = (self.search.types, *(self.search.label_types or {}).values())
        chosen = repr((kb.settings["checksum"], types, self.search.sources, self.output.xrefs))
        if self._checked == chosen:
            return
        for names in types:
            kb.of_types(*(names or ()))
        kb.of_sources(*(self.search.sources or ()))
        kb.check_vocabularies(self.output.xrefs or ())
        self._checked = chosen

    def _check_labels(self, labels: set[str]) -> None:
        """Warn once of each label of ``label_types`` that no mention seems to have.

        Neither these ``labels`` of mentions nor the recogniser that the linker listens to have it.
        """
        unchecked = set(self.search.label_types or ()) - self._known_labels
        if not unchecked:
            return
        tok2vec = self.model.maybe_get_ref("tok2vec")
        recogniser = tok2vec and tok2vec.attrs.get(RECOGNISER)
        known = labels.union(recogniser.labels if recogniser else ())
        self._known_labels |= unchecked
        if unknown := sorted(unchecked - known):
            logger.warning(
                '%s: "label_types" names %s, but the labels of mentions are %s: types are not '
                "limited for a label that is not named exactly so",
                self.name,
                ", ".join(map(repr, unknown)),
                ", ".join(map(repr, sorted(known))),
            )

    def _query(
        self,
        docs: Sequence[Doc],
        spans: Sequence[Sequence[Span]],
        kb: KnowledgeBase,
    ) -> tuple[list[MentionInContext], LinkOptions]:
        """Return the mentions of docs as the retriever reads them, and the options to link them."""
        self._check_choices(kb)
        search = self.search
        labels = [span.label_ for span in chain.from_iterable(spans)]
        if search.label_types:
            self._check_labels(set(labels))
        documents, _ = read_documents(self.model, docs)
        mentions = [
            mention
            for doc, doc_spans, document in zip(docs, spans, documents)
            for mention in mentions_in_context(
                doc, doc_spans, document, search.resolve_abbreviations, kb.acronyms
            )
        ]
        if self.trainer is None:
            names = kb.respelled([mention.surface for mention in mentions])
            mentions = [m._replace(read_as=name) if name else m for m, name in zip(mentions, names)]
        filters = search_filters(mentions, labels, search.types, search.sources, search.label_types)
        groups = None
        if search.one_entity_per_name:
            # Mentions of a doc with the same words, ignoring case, and the same filter are one group.
            owners = (number for number, doc_spans in enumerate(spans) for _ in doc_spans)
            words = (mention.surface.casefold() for mention in mentions)
            numbers: dict[tuple[object, ...], int] = {}
            keys = zip(owners, words, filters or repeat(None))
            groups = np.array([numbers.setdefault(key, len(numbers)) for key in keys])
        options = LinkOptions(
            nil_threshold=self.fitted.nil_threshold,
            reranking=Reranking(self.reranker, kb, self.reranked) if self.reranked else None,
            filters=filters,
            groups=groups,
        )
        # A training session evaluates the encoder alone, whose weights change.
        if self.trainer is not None:
            return mentions, options
        ordering: Ordering | None = None
        if ranking := self.fitting(self.ranking):
            ordering = partial(ranking.ordered, kb, labels)
        elif search.unambiguous_names_first and not self.reranked:
            ordering = partial(unambiguous_names_first, kb)
        return mentions, replace(
            options,
            named_in=None if self.reranked else kb,
            nil_policy=NilPolicy(kb, self.sure_probability),
            ordering=ordering,
            known=kb.mentions if kb.settings["mentions"] else None,
        )

    def ranking_inputs(self, docs: Sequence[Doc]) -> RankingInput | None:
        """Search at least SEARCH_DEPTH candidates of each mention of docs, for calibration.

        Returns:
            The candidates; None if there is no mention. The docs do not change.
        """
        spans = [mention_spans(doc, self.spans_key) for doc in docs]
        if not any(spans):
            return None
        self.check_kb()
        kb = self.kb
        mentions, options = self._query(docs, spans, kb)
        depth = max(self.search.candidates, SEARCH_DEPTH)
        with self.runtime.use(self.towers):
            vectors = self.model.predict(mentions)
            return ranking_input(kb, mentions, vectors, depth, options)[0]

    def _corrected(
        self,
        links: Links,
        docs: Sequence[Doc],
        spans: Sequence[Sequence[Span]],
        mentions: Sequence[MentionInContext],
        groups: np.ndarray | None,
        kb: KnowledgeBase,
    ) -> Links:
        """Apply the corrections of the KB, and the ids that rules have set on spans, to links."""
        ids = [
            span.id_ if span.id_ and span.id_ in kb else "" for span in chain.from_iterable(spans)
        ]
        if not kb.corrections and not any(ids):
            return links
        decided: list[DecidedMention] = []
        for doc, doc_spans in zip(docs, spans):
            text = doc.text
            for span in doc_spans:
                words = span.text, mentions[len(decided)].surface
                id = ids[len(decided)]
                decided.append(DecidedMention(words, span.label_, span.start_char, text, id))
        return with_decisions(links, kb, decisions_about(kb, decided, groups))

    def set_annotations(self, docs: Iterable[Doc], linked: Linked | None) -> None:
        """Write ids, scores, probabilities and candidates on the mentions that ``predict`` linked.

        Also ``drop_states``.
        """
        docs = list(docs)
        drop_states(self.model, self.name, docs)
        if linked is None:
            return
        spans = linked.spans
        if ranking := self.fitting(self.ranking):
            # Warn, once for each label, if the probabilities were not fitted on it.
            known = {label.casefold() for label in ranking.labels}
            labels = {span.label_ for span in chain.from_iterable(spans)}
            unknown = {(ranking.fitted_on, x) for x in labels if x.casefold() not in known}
            new = sorted(unknown - self._warned_of)
            if new and len(unknown) < len(labels):  # if all are unknown, they only have other names
                self._warned_of |= unknown
                logger.warning(
                    "%s: the probabilities were fitted on mentions of %s. They may be wrong for "
                    "mentions of %s; calibrate on a corpus that has such mentions: python -m spacy "
                    "pel calibrate PIPELINE DEV",
                    self.name,
                    ranking.fitted_on,
                    ", ".join(repr(label) for _, label in new),
                )
        write_predictions(
            docs, spans, iter(linked.predictions), self.spans_key, self.output.overwrite
        )

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """Return the scores of linked docs (``scorer.linking_scores``); {} without a scorer."""
        if self.scorer is None:
            return {}
        settings = {"spans_key": self.spans_key, "nil_threshold": self.nil_threshold}
        scores: dict[str, Any] = super().score(examples, kb=self.kb, **settings, **kwargs)
        return scores

    def check_kb(self) -> None:
        """Raise PelError if the linker has no weights, or the KB has no vectors of its encoder."""
        _ = self.retriever  # missing weights are reported before a missing KB
        self.searched(self.kb)

    def searched(self, kb: KnowledgeBase) -> KnowledgeBase | NegativePool:
        """Return the index to search: the KB, or the proxies under training with the present weights.

        Raises:
            PelError: The KB has no vectors, or those of another encoder.
        """
        if isinstance(self.trainer, RetrieverTrainer) and self.trainer.pool.searched:
            return self.trainer.pool
        if self._fitting_kb != kb.fingerprint:
            with self._building:  # otherwise each thread would check the KB at the first doc
                if self._fitting_kb != kb.fingerprint:
                    kb.check_fingerprint(entity_fingerprint(self.retriever))
                    if kb.mentions:
                        kb.mentions.check_fingerprint(fingerprint(self.retriever), kb.path)
                    self._fitting_kb = kb.fingerprint
        return kb

    @property
    def towers(self) -> list[Tower]:
        """The towers that linking uses: those of the retriever, and the reranker."""
        return [*self.model.layers, *([self.reranker.model] if self.reranked else ())]

    @property
    def reranked(self) -> int:
        """The number of candidates of a mention that are reranked; 0 without a reranker."""
        return 0 if self.reranker_model is None else self.search.rerank

    def fitting(self, fitted: FittedScore | None) -> FittedScore | None:
        """Return fitted parameters, or None if the linker no longer reranks the same number of candidates."""
        return fitted if fitted and fitted.reranked == self.reranked else None

    # Training

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        mined_entities: int | None = 20000,
        searched_entities: int | None = 20000,
        searched_corpus: Callable[[Language], Iterable[Example]] | None = None,
        searched_index_unit: str | None = None,
    ) -> None:
        """Fetch or build the encoder, and begin a training session.

        ``nlp.initialize()``, which has no examples, only fetches or builds the encoder. The linker then
        links once the KB has its vectors.

        A reranker is trained on the candidates of a trained retriever, which does not change. The
        candidates of all training mentions are searched now.

        Encoding a large KB repeatedly would take longer than the training. So hard negatives are mined in
        a part of the KB, and evaluations during training search a part: their figures are higher than on
        the whole KB, but comparable with each other. A linker with a reranker or with frozen entities
        always searches the whole KB.

        Args:
            get_examples: Returns the training examples.
            nlp: The pipeline, for ``searched_corpus``.
            mined_entities: The number of entities among which hard negatives are mined: the training
                entities and a random sample. None: the whole KB.
            searched_entities: The number of entities that evaluations search: the training entities, the
                entities of ``searched_corpus``, and a random sample. None: the whole KB. It does not
                affect weights.
            searched_corpus: Returns examples, usually dev, whose entities evaluations also search. It
                does not affect weights.
            searched_index_unit: The index unit of evaluations; None: ``index_unit``. With "title", the
                aliases in a dev corpus are not in the index. Then training entities are searched only if
                they are in the sample.

        Raises:
            PelError: No example has a mention in the KB; a reranker has no trained retriever, or the KB
                has no vectors of it.
        """
        evaluated = partial(searched_corpus, nlp) if searched_corpus and nlp else None
        sizes = learning.IndexSizes(mined_entities, searched_entities, searched_index_unit)
        learning.begin(self, get_examples, evaluated, sizes)

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Learn from the gold mentions of a batch that have an entity in the KB.

        Without ``sgd``, gradients add up until ``finish_update``.

        Raises:
            PelError: There is no KB, there are no weights, or the loss is not a number.
        """
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        validate_examples(examples, "ProxyLinker.update")
        docs = [example.predicted for example in examples]
        documents, backprop = read_documents(self.model, docs, is_train=True)
        resolve = self.search.resolve_abbreviations
        mentions = trainable_mentions(examples, self.kb, self.spans_key, resolve, documents)
        if mentions:
            if self.trainer is None:
                learning.resume(self, examples)
            assert self.trainer is not None  # just made
            entities = {number for mention in mentions for number in mention.golds}
            if not entities <= self.trainer.trained:
                learning.note_trained(self, entities)
            set_dropout(self.learner, drop)
            losses[self.name] += self.trainer.step(mentions)
            if self.training.loss is not None and self.reranker_model is None:
                self.cfg["loss"] = self.training.loss.state()
        backprop()
        if mentions and sgd:
            self.finish_update(sgd)
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        """Apply the accumulated gradients."""
        apply_gradients(self.learner, sgd)
        if self.trainer is not None:
            self.trainer.note_update()

    def finish_training(self) -> None:
        """End the training session, so that the linker searches the KB."""
        self.trainer = None
        self._fitting_kb = None
        self.runtime.forget()

    @property
    def learner(self) -> AnyModel:
        """The model that training changes: the reranker if there is one, otherwise the retriever."""
        return self.model if self.reranker_model is None else self.reranker_model

    def forget_weights(self) -> None:
        """Drop the objects that depend on the former weights, and end the training session."""
        for name in ("retriever", "reranker"):  # cached properties
            self.__dict__.pop(name, None)
        self.finish_training()

    # Saving and loading

    def open(self, path: str | os.PathLike) -> "ProxyLinker":
        """Load the weights, the calibration and the KB of a trained linker; PelError if there is none.

        A reranker or a KB in this component's config is kept. ``path`` is the folder of the linker or of
        its pipeline, or the name of an installed pipeline. If the trained linker listens to a "kb_ner",
        that is copied.
        """
        exclude = ("vocab",) if self.reranker_model is None else ("vocab", "reranker")
        configured = self.configured_kb
        folder = linker_folder(path)
        if self.model.maybe_get_ref("tok2vec") is None:
            self.reader = reader_beside(folder, self)
        self.from_disk(folder, exclude=exclude)
        self.configured_kb = configured
        return self

    def set_kb(self, path: str | os.PathLike) -> None:
        """Use the knowledge base of another folder from now on; PelError if there is none in it."""
        super().set_kb(path)
        self.finish_training()

    def settings_of_weights(self) -> dict[str, Any]:
        """Return ``cfg`` and ``fitted``, which are saved with the weights, as plain data."""
        return {**self.fitted.as_data(), **self.cfg}

    def saved_files(self) -> dict[str, SavedFile]:
        """Return the files with settings, weights, and the path of the KB, which is not copied."""
        return {
            "cfg": SavedFile(
                lambda _: json.dumps(self.settings_of_weights()).encode(), self._load_settings
            ),
            "reader": SavedFile(
                lambda _: packed_reader(self.reader) if self.reader else None,
                self._load_reader,
                optional=True,
            ),
            "model": SavedFile(self._dump_retriever, self._load_retriever),
            "reranker": SavedFile(
                lambda _: pack_model(self.reranker_model) if self.reranker_model else None,
                self._load_reranker,
                optional=True,
            ),
            **super().saved_files(),
        }

    def _load_settings(self, saved: Saved) -> None:
        data = json.loads(content(saved))
        self.fitted = Fitted.of(data, self.fitted.configured_nil_threshold)
        self.cfg = {name: data.get(name, value) for name, value in self.cfg.items()}

    def _dump_retriever(self, _: object) -> bytes:
        if self.reader is None:
            learning.check_listens(self.model)
        return pack_retriever(self.model)

    def _load_reader(self, saved: Saved | None) -> None:
        if saved is not None:
            self.reader = unpacked_reader(content(saved), self)

    def _load_retriever(self, saved: Saved) -> None:
        # The listener of the pipeline's config stays.
        self.model = unpack_retriever(saved, self.reader or self.model.maybe_get_ref("tok2vec"))
        self.forget_weights()

    def _load_reranker(self, saved: Saved | None) -> None:
        self.reranker_model = self._configured_reranker
        if saved is not None:
            self.reranker_model = unpack_model(saved, CrossEncoder)
        self.forget_weights()
