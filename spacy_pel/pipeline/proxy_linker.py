"""The pipeline component ``proxy_linker``: links the mentions of a Doc to a knowledge base."""

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from functools import cached_property, partial
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc, Span
from spacy.training import Example, validate_examples
from thinc.api import Model, Optimizer

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..linking.corrections import DecidedMention, decisions_about, with_decisions
from ..linking.link import SEARCH_DEPTH, LinkOptions, Links, Ordering, link, ranking_input
from ..linking.nil import NilPolicy
from ..linking.ordering import RankingInput, Reranking, unambiguous_names_first
from ..linking.reranker import Reranker
from ..linking.retriever import Retriever
from ..models.architectures import (
    Tower,
    check_choice,
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
from ..text.mention_inputs import DocumentContext, MentionInContext
from ..training.optimizer import apply_gradients
from ..training.pool import NegativePool
from ..training.retriever_trainer import RetrieverTrainer
from ..training.trainer import Trainer
from . import training_session as learning
from .annotations import Prediction, predictions, write_predictions
from .doc_mentions import RECOGNISER, mentions_in_context, read_documents, search_filters
from .fitted import Fitted, FittedScore, fitted_value
from .kb_component import KBComponent, Saved, SavedFile, content
from .kb_ner import OwnReader, packed_reader, reader_beside, unpacked_reader
from .runtime import Runtime
from .settings import OutputSettings, SearchSettings, TrainingSettings

logger = logging.getLogger(__name__)

MAX_CANDIDATES = 10_000  # of a mention: each takes memory in several arrays


class Linked(NamedTuple):
    """What the linker says of documents with mentions."""

    spans: list[list[Span]]  # the mentions of each
    links: Links  # of all mentions
    predictions: list[Prediction]  # what is to be written on each mention


# The group of each setting.
_GROUPS = {
    field.name: group
    for group, settings in (
        ("search", SearchSettings),
        ("output", OutputSettings),
        ("training", TrainingSettings),
    )
    for field in fields(settings)
}


class ProxyLinker(KBComponent, TrainablePipe):
    """Links mentions to entities of a knowledge base.

    It encodes each mention in its context and searches the proxies, the vectors that stand for
    entities, that are nearest to it. If it has a reranker, that reads the best candidates again,
    each together with the mention. See PEL (Wiatrak et al. 2022), sections 4 and 5, appendix B.

    ``factory.DEFAULT_CONFIG`` explains the arguments. Most are attributes,
    which may be changed between texts: ``linker.output.threshold = 0.1``.

    Raises:
        PelError: There is no such index unit or runtime, ``rerank`` is negative, ``candidates`` is not
            from 1 to MAX_CANDIDATES, a setting has a
            meaning in scispaCy alone, or the linker at ``path`` cannot be opened.

    Attributes:
        runtime: Computes the encoders when the linker links.
        fitted: What ``pel calibrate`` has fitted to the scores.
        model: The thinc model of the retriever, with or without weights.
        reranker_model: The thinc model of the reranker; None: there is no reranker.
        reader: Reads docs for a retriever that listens, where the pipeline has no component to
            listen to: the copy of a "kb_ner".
        trainer: Trains the retriever or the reranker; None outside a training session.
        cfg: What belongs to the weights and is saved with them, as plain data: the ``index_unit``,
            the ids of the ``trained_entities``, and the state of the loss.
    """

    factory = "proxy_linker"

    def __init__(
        self,
        nlp: Language,
        name: str = "proxy_linker",
        *,
        model: Model,
        reranker: Model | None,
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
        """Construct the component. Nothing but the linker of ``path`` is opened."""
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
        self.spans_key = spans_key  # where the mentions of a doc are
        self.search = search
        self.output = output
        self.training = training
        self.sure_probability = sure_probability

        self.model = model
        self.reranker_model = self._configured_reranker = reranker
        self.cfg: dict[str, Any] = {
            "index_unit": index_unit,
            "trained_entities": [],
            # What the loss took from the first batch: the bias of the proxy-based loss.
            "loss": {},
        }
        self.fitted = Fitted(nil_threshold, configured_nil_threshold=nil_threshold)
        self.refer_to_kb(kb)
        self.runtime = Runtime(runtime)
        self.reader: OwnReader | None = None
        self.trainer: Trainer | None = None
        self._path = path
        self._fitting_kb: str | None = None  # the fingerprint of the KB that was checked
        self._warned_of: set[tuple[str, str]] = set()  # what was fitted on, and labels
        self._known_labels: set[str] = set()  # those of ``label_types`` that were checked
        self._checked = ""  # the KB and the settings that were compared with it
        # A saved pipeline loads weights and a KB of its own next: its config may name some that are gone.
        is_saved = name in nlp._meta.get("components", ())
        if path is not None and not (is_saved and pipeline_folder(path) is None):
            self.open(path)
            if kb is not None and not is_saved:
                KnowledgeBase.open(kb).close()  # it will be opened when it is needed

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse a setting outside of its group, where it would have no effect."""
        if group := _GROUPS.get(name):
            problem = f'"{name}" is no attribute of the linker, but of its settings'
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
        return Retriever(self.model)

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
        """As spaCy's. With the runtime "exact" each doc is computed by itself."""
        return super().pipe(stream, batch_size=self.runtime.batch_size(batch_size))

    def predict(self, docs: Iterable[Doc]) -> Linked | None:
        """Link the mentions of docs, and change nothing on the docs; None if there is no mention.

        Raises:
            PelError: There is no KB, or there are no weights, or they do not fit.
        """
        docs = list(docs)
        spans = [mention_spans(doc, self.spans_key) for doc in docs]
        if not any(spans):
            return None
        self.check_kb()
        self._check_labels({span.label_ for own in spans for span in own})
        documents, _ = read_documents(self.model, docs)

        def linked(kb: KnowledgeBase) -> Linked:
            self._check_choices(kb)
            links = self._links(docs, spans, documents, kb)
            return Linked(spans, links, list(predictions(links, kb, self.output)))

        return self.read_kb(linked)

    def _check_choices(self, kb: KnowledgeBase) -> None:
        """PelError if the KB lacks a type, source or vocabulary of the settings; once for each KB."""
        types = (self.search.types, *(self.search.label_types or {}).values())
        chosen = repr((kb.settings["checksum"], types, self.search.sources, self.output.xrefs))
        if self._checked == chosen:
            return
        for own in types:
            kb.of_types(*(own or ()))
        kb.of_sources(*(self.search.sources or ()))
        kb.check_vocabularies(self.output.xrefs or ())
        self._checked = chosen

    def _check_labels(self, labels: set[str]) -> None:
        """Warn, once for each, of labels of ``label_types`` that no mention can have.

        They are not those of the first mentions, nor those of the recogniser that the linker listens to.
        """
        asked = set(self.search.label_types or ()) - self._known_labels
        if not asked:
            return
        tok2vec = self.model.maybe_get_ref("tok2vec")
        recogniser = tok2vec and tok2vec.attrs.get(RECOGNISER)
        known = labels.union(recogniser.labels if recogniser else ())
        self._known_labels |= asked
        if unknown := sorted(asked - known):
            logger.warning(
                '%s: "label_types" names %s, but the labels of mentions are %s: types are not '
                "limited for a label that is not named exactly so",
                *(self.name, *(", ".join(map(repr, names)) for names in (unknown, sorted(known)))),
            )

    def _links(
        self,
        docs: Sequence[Doc],
        spans: Sequence[Sequence[Span]],
        documents: Sequence[DocumentContext],
        kb: KnowledgeBase,
    ) -> Links:
        """Link all mentions to a KB."""
        mentions = self._mentions(docs, spans, documents, kb)
        options = self._options(spans, mentions, kb)
        with self.runtime.use([] if self.trainer else self.towers):
            index = self.searched(kb)
            links = link(self.retriever, index, mentions, self.search.candidates, options)
        if self.trainer is None:
            links = self._corrected(links, docs, spans, mentions, options.groups, kb)
        return links

    def _mentions(
        self,
        docs: Sequence[Doc],
        spans: Sequence[Sequence[Span]],
        documents: Sequence[DocumentContext],
        kb: KnowledgeBase,
    ) -> list[MentionInContext]:
        resolve, acronyms = self.search.resolve_abbreviations, kb.acronyms
        return [
            mention
            for doc, own_spans, document in zip(docs, spans, documents)
            for mention in mentions_in_context(doc, own_spans, document, resolve, acronyms)
        ]

    def _options(
        self,
        spans: Sequence[Sequence[Span]],
        mentions: Sequence[MentionInContext],
        kb: KnowledgeBase,
    ) -> LinkOptions:
        labels, search = [span.label_ for own in spans for span in own], self.search
        filters = search_filters(mentions, labels, search.types, search.sources, search.label_types)
        groups = None
        if search.one_entity_per_name:
            # One answer for those of a doc with the same words, ignoring case, and the same filter.
            owners = (number for number, own in enumerate(spans) for _ in own)
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
        # In a training session weights change. Evaluations show what the encoder has learnt, not what
        # names know.
        if self.trainer is not None:
            return options
        return replace(
            options,
            nil_policy=NilPolicy(kb, self.sure_probability),
            ordering=self._ordering(labels, kb),
            known=kb.mentions if kb.settings["mentions"] else None,
        )

    def _ordering(self, labels: Sequence[str], kb: KnowledgeBase) -> Ordering | None:
        """What was fitted goes before the default. A reranker decides by itself."""
        if ranking := self.fitting(self.ranking):
            return partial(ranking.ordered, kb, labels)
        if self.search.unambiguous_names_first and not self.reranked:
            return partial(unambiguous_names_first, kb)
        return None

    def ranking_inputs(self, docs: Sequence[Doc]) -> RankingInput | None:
        """Search the candidates of the mentions of docs, for calibration; None if there is no mention.

        They are as many as a ranking orders, at least. The docs do not change.
        """
        spans = [mention_spans(doc, self.spans_key) for doc in docs]
        if not any(spans):
            return None
        kb = self.kb
        self.check_kb()
        self._check_choices(kb)
        documents, _ = read_documents(self.model, docs)
        mentions = self._mentions(docs, spans, documents, kb)
        options = self._options(spans, mentions, kb)
        depth = max(self.search.candidates, SEARCH_DEPTH)
        with self.runtime.use(self.towers):
            vectors = self.retriever.mention_vectors(mentions)
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
        """Put first what people decided, and the ids that rules gave to mentions."""
        in_docs = ((doc, span) for doc, own in zip(docs, spans) for span in own)
        decided = [
            DecidedMention(
                (span.text, mention.surface),
                *(span.label_, span.start_char),
                text=lambda doc=doc: doc.text,
                given=span.id_ if span.id_ and span.id_ in kb else "",
            )
            for (doc, span), mention in zip(in_docs, mentions, strict=True)
        ]
        if not kb.corrections and not any(mention.given for mention in decided):
            return links
        return with_decisions(links, kb, decisions_about(kb, decided, groups))

    def set_annotations(self, docs: Iterable[Doc], linked: Linked | None) -> None:
        """Write ids, scores, probabilities and candidates on the mentions that ``predict`` linked."""
        if linked is None:
            return
        spans = linked.spans
        if ranking := self.fitting(self.ranking):
            # Warn, once for each label, if the probabilities were fitted on other labels alone.
            known = {label.casefold() for label in ranking.labels}
            labels = {span.label_ for own in spans for span in own}
            unknown = {(ranking.fitted_on, x) for x in labels if x.casefold() not in known}
            new = sorted(unknown - self._warned_of)
            if new and len(unknown) < len(labels):  # if all, then they are named in another way
                self._warned_of |= unknown
                logger.warning(
                    "%s: the probabilities were fitted on mentions of %s. They may be wrong for "
                    "mentions of %s; calibrate on a corpus that has such mentions: python -m spacy "
                    "pel calibrate PIPELINE DEV",
                    *(self.name, ranking.fitted_on, ", ".join(repr(label) for _, label in new)),
                )
        write_predictions(
            docs, spans, iter(linked.predictions), self.spans_key, self.output.overwrite
        )

    def score(self, examples: Iterable[Example], **kwargs: Any) -> dict[str, Any]:
        """What the scorer says of linked docs (``scorer.linking_scores``); nothing without one."""
        own = {"spans_key": self.spans_key, "nil_threshold": self.nil_threshold}
        return super().score(examples, kb=self.kb, **own, **kwargs) if self.scorer else {}

    def check_kb(self) -> None:
        """Check that the KB has vectors of this linker's encoder; PelError if not."""
        with self._building:  # else each thread would make the retriever at the first doc
            _ = self.retriever  # missing weights are reported before a missing KB
            self.retriever, self.searched(self.kb)

    def searched(self, kb: KnowledgeBase) -> KnowledgeBase | NegativePool:
        """Return what is searched: the KB, or the proxies under training, encoded by the present weights.

        Raises:
            PelError: The KB has no vectors, or those of another encoder.
        """
        if isinstance(self.trainer, RetrieverTrainer) and self.trainer.pool.searched:
            return self.trainer.pool
        if self._fitting_kb != kb.fingerprint:
            kb.check_fingerprint(self.retriever.entity_fingerprint())
            if kb.mentions:
                kb.mentions.check_fingerprint(self.retriever.fingerprint(), kb.path)
            self._fitting_kb = kb.fingerprint
        return kb

    @property
    def towers(self) -> list[Tower]:
        """What computes when mentions are linked: the retriever's towers, and the reranker's."""
        return [*self.model.layers, *([self.reranker.model] if self.reranked else ())]

    @property
    def reranked(self) -> int:
        """The number of candidates of a mention that are ranked again; 0 without a reranker."""
        return 0 if self.reranker_model is None else self.search.rerank

    def fitting(self, fitted: FittedScore | None) -> FittedScore | None:
        """What was fitted, if it still applies: the linker reranks as many candidates as then."""
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
        """Fetch or build the encoder, and get ready for training.

        With ``nlp.initialize()``, which has no examples, the encoder is fetched or built, and nothing
        else. The linker then links once the KB has its vectors.

        If the config has a reranker, that is trained on the candidates of a trained retriever, which
        stays as it is. The candidates of all training mentions are searched now and kept.

        To encode a large KB again and again would take longer than the training. So hard negatives are
        mined in a part of it, and evaluations during training search a part: their figures are higher
        than on the whole KB, and comparable with each other. A linker with a reranker, or with frozen
        entities, always searches the whole KB.

        Args:
            get_examples: Gives the training examples.
            nlp: The pipeline, for ``searched_corpus``.
            mined_entities: The number of entities that hard negatives are mined among: the training
                entities, and others drawn at random. None: the whole KB.
            searched_entities: The number of entities that evaluations search: the training
                entities, those of ``searched_corpus``, and others drawn at random. None: the whole
                KB. It changes no weights.
            searched_corpus: Gives examples whose entities evaluations search as well, usually dev.
                It changes no weights.
            searched_index_unit: What a row that evaluations search stands for; None: ``index_unit``. With
                "title", aliases of a dev corpus are not found by being rows themselves. The training
                entities are then searched only if they are drawn.

        Raises:
            PelError: No example has a mention in the KB; a reranker has no trained retriever, or
                the KB has no vectors of it.
        """
        evaluated = searched_corpus and (lambda: searched_corpus(nlp))
        sizes = mined_entities, searched_entities, searched_index_unit
        learning.begin(self, get_examples, evaluated, *sizes)

    def prepare_training(self, examples: Iterable[Example]) -> None:
        """Get ready to go on from a saved pipeline, as the first ``update`` does by itself.

        Evaluations search the entities of the examples, among others.
        """
        learning.resume(self, examples)

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
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        validate_examples(examples, "ProxyLinker.update")
        docs = [example.predicted for example in examples]
        documents, backprop = read_documents(self.model, docs, is_train=True)
        mentions = learning.trainable(self, examples, documents)
        if mentions:
            if self.trainer is None:
                self.prepare_training(examples)
            learning.note_trained(self, {n for mention in mentions for n in mention.golds})
            set_dropout(self.learner, drop)
            losses[self.name] += sum(self.trainer.step(mentions))
            if self.training.loss is not None and self.reranker_model is None:
                self.cfg["loss"] = self.training.loss.state()
        backprop()
        if mentions and sgd not in (None, False):
            self.finish_update(sgd)
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        """Apply the accumulated gradients, and drop what was calibrated on the weights before."""
        apply_gradients(self.learner, sgd)
        self.runtime.forget()
        reranks = self.reranker_model is not None
        self.fitted.forget(keep_threshold=reranks)
        if not reranks:
            self._fitting_kb = None
        if self.trainer is not None:
            self.trainer.note_update()

    def finish_training(self) -> None:
        """Leave the training session: from now on the KB is searched."""
        self.trainer = None

    @property
    def learner(self) -> Model:
        """What training changes: the reranker, if there is one, and otherwise the retriever."""
        return self.model if self.reranker_model is None else self.reranker_model

    def forget_weights(self) -> None:
        """Drop what was made of the weights before, the training session included."""
        for made in ("retriever", "reranker"):
            vars(self).pop(made, None)
        self._fitting_kb = None
        self.runtime.forget()
        self.finish_training()

    # Saving and loading

    def open(self, path: str | os.PathLike) -> "ProxyLinker":
        """Take the weights, the calibration and the KB of a trained linker; PelError if there is none.

        A reranker or a KB that this component's config names is not replaced. The path is that of the
        linker's folder, its pipeline's, or the name of an installed pipeline. A linker that listens to
        a "kb_ner" there takes a copy of it along.
        """
        exclude = ("vocab",) if self.reranker_model is None else ("vocab", "reranker")
        configured = self.configured_kb  # the other linker's config had its own
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
        """What is saved with the weights, as plain data: ``cfg``, and what was fitted."""
        return {**self.fitted.as_data(), **self.cfg}

    def saved_files(self) -> dict[str, SavedFile]:
        """Settings and weights, and where the KB is. The KB itself is not copied."""
        return {
            "cfg": SavedFile(
                lambda _: json.dumps(self.settings_of_weights()).encode(), self._load_settings
            ),
            "reader": SavedFile(
                lambda _: self.reader and packed_reader(self.reader),
                self._load_reader,
                optional=True,
            ),
            "model": SavedFile(self._dump_retriever, self._load_retriever),
            "reranker": SavedFile(
                lambda _: self.reranker_model and pack_model(self.reranker_model),
                self._load_reranker,
                optional=True,
            ),
            **super().saved_files(),
        }

    def _load_settings(self, saved: Saved) -> None:
        data = json.loads(content(saved))
        self.fitted = Fitted.of(data, self.fitted.configured_nil_threshold)
        if "row_kind" in data:  # UNTIL PACKAGE 0.8: that of package 0.7
            data["index_unit"] = data.pop("row_kind")
        self.cfg = {name: data.get(name, value) for name, value in self.cfg.items()}

    def _dump_retriever(self, _: object) -> bytes:
        if self.reader is None:
            learning.check_listens(self.model)
        return pack_retriever(self.model)

    def _load_reader(self, saved: Saved | None) -> None:
        if saved is not None:
            self.reader = unpacked_reader(content(saved), self)

    def _load_retriever(self, saved: Saved) -> None:
        # What it listens to, if it does, is in the pipeline's config.
        self.model = unpack_retriever(saved, self.reader or self.model.maybe_get_ref("tok2vec"))
        self.forget_weights()

    def _load_reranker(self, saved: Saved | None) -> None:
        self.reranker_model = self._configured_reranker
        if saved is not None:
            self.reranker_model = unpack_model(saved, CrossEncoder)
        self.forget_weights()
