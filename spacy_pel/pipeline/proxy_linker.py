"""The pipeline component ``proxy_linker``: links the mentions of a Doc to a knowledge base."""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer

from .. import architectures
from ..architectures.sources import linker_folder
from ..errors import PelError
from ..linking.link import Links, Searchable, link
from ..linking.retriever import Retriever
from ..models.adversarial import FGSM
from ..models.losses import ScoreLoss
from ..reading.gold_mention import GoldMention
from ..reading.proxies import check_row_kind
from ..spans import mention_spans
from ..training.negatives import Sampler
from ..training.optimizer import apply_gradients
from ..training.trainer import RetrieverTrainer, Trainer
from . import learning
from .annotations import answers, write_answers
from .calibrated import NOT_CALIBRATED, CalibratedPipe
from .extensions import install_extensions
from .gold import trainable_mentions
from .kb_ents import offered
from .kb_reference import KB_REFERENCE
from .mentions import agreeing, mentions_of, search_limits
from .reading import begin_reading, packed_retriever, read_texts
from .runtime import Runtime, encoders_of
from .saving import Part, Saved, content
from .workers import use_one_thread_in_a_worker

if TYPE_CHECKING:
    from ..linking.reranker import Reranker


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
        spans_key: str | None,
        resolve_abbreviations: bool,
        types: list[str] | None,
        sources: list[str] | None,
        label_types: dict[str, list[str]] | None,
        agree: bool,
        candidates: int,
        nil_threshold: float | None,
        threshold: float | None,
        no_definition_threshold: float,
        filter_for_definitions: bool,
        max_entities_per_mention: int,
        row_kind: str,
        name_dropout: float,
        freeze_entities: bool,
        gradient_caching: bool,
        overwrite: bool,
        loss: ScoreLoss,
        regularizer: FGSM | None,
        negatives: Sampler,
        reranker: Model | None,
        rerank: int,
        runtime: str,
        scorer: Callable | None,
    ):
        """Construct the component; opens nothing. The arguments are those of the factory."""
        self.vocab = vocab
        self.model = model
        self.reranker_model = self._configured_reranker = reranker
        self.rerank = rerank
        self.runtime = Runtime(runtime)
        self.name = name
        self.spans_key = spans_key
        self.resolve_abbreviations = resolve_abbreviations
        self.types = types
        self.sources = sources
        self.label_types = label_types
        self.agree = agree
        self.candidates = candidates
        self.threshold = threshold
        self.no_definition_threshold = no_definition_threshold
        self.filter_for_definitions = filter_for_definitions
        self.max_entities_per_mention = max_entities_per_mention
        self.overwrite = overwrite
        self.loss = loss
        self.regularizer = regularizer
        self.negatives = negatives
        self.scorer = scorer
        self.name_dropout = name_dropout
        self.freeze_entities = freeze_entities
        self.gradient_caching = gradient_caching
        # What belongs to the weights and is saved with them.
        self.cfg: dict[str, Any] = {
            **NOT_CALIBRATED,
            "nil_threshold": nil_threshold,
            "configured_nil_threshold": nil_threshold,
            "row_kind": check_row_kind(row_kind),
            "trained_entities": [],
        }
        self._path = path
        self.refer_to(kb)
        self._retriever: Retriever | None = None
        self._reranker: Reranker | None = None
        self._checked_fingerprint: str | None = None  # of a KB whose vectors fit
        self._trainer: Trainer | None = None
        self.trained_numbers: set[int] = set()  # those of cfg["trained_entities"], in a session
        install_extensions()

    # Knowledge base and weights

    @property
    def retriever(self) -> Retriever:
        """The trained bi-encoder. Raises PelError, with the remedy, if it has no weights."""
        if self._retriever is None:
            if not architectures.is_initialized(self.model):
                gone = f"there is no trained linker at {self._path}; " if self._path else ""
                raise PelError(
                    f'{gone}"{self.name}" has no weights',
                    'train it with "python -m spacy train", '
                    'or open a trained one: nlp.add_pipe("proxy_linker", config={"path": FOLDER})',
                )
            self._retriever = Retriever(self.model)
        return self._retriever

    @property
    def reranker(self) -> "Reranker":
        """The trained cross-encoder. Raises PelError, with the remedy, if there is none."""
        if self._reranker is None:
            model = self.reranker_model
            if model is None or not architectures.is_initialized(model):
                raise PelError(
                    f'"{self.name}" has no trained reranker',
                    "train one (project/configs/"
                    "demo_rerank.cfg shows how), or link without: rerank = 0",
                )
            # Imported here: without a reranker nothing of it is loaded.
            from ..linking.reranker import Reranker

            self._reranker = Reranker(model)
        return self._reranker

    @property
    def reranked(self) -> int:
        """How many candidates of a mention are ranked again; 0 without a reranker."""
        return 0 if self.reranker_model is None else self.rerank

    @property
    def index(self) -> Searchable:
        """What is searched: the KB, or, in a training session, the proxies as they are now.

        Raises PelError if the KB has no vectors, or those of another encoder.
        """
        if isinstance(self._trainer, RetrieverTrainer):
            return self._trainer.pool
        if self._checked_fingerprint != self.kb.fingerprint:
            self.kb.check_fingerprint(self.retriever.entity_fingerprint())
            self._checked_fingerprint = self.kb.fingerprint
        return self.kb

    # Linking

    def predict(self, docs: Iterable[Doc]) -> Links | None:
        """What linking says of the docs' mentions, in their order; None if there is no mention."""
        docs = list(docs)
        if not any(mention_spans(doc, self.spans_key) for doc in docs):
            return None
        texts = read_texts(self.model, docs)
        mentions = mentions_of(docs, self.spans_key, self.resolve_abbreviations, texts)
        use_one_thread_in_a_worker()
        only = search_limits(
            docs,
            self.spans_key,
            types=self.types,
            sources=self.sources,
            label_types=self.label_types,
        )
        with self.runtime.computes(encoders_of(self)):
            return link(
                self.retriever,
                self.index,
                mentions,
                self.candidates,
                nil_threshold=self.nil_threshold,
                calibration=self.fitting(self.calibration),
                reranking=self.reranking,
                naming=self.naming,
                only=only,
                groups=agreeing(docs, self.spans_key, mentions, only) if self.agree else None,
            )

    def set_annotations(self, docs: Iterable[Doc], links: Links | None) -> None:
        """Write ids, scores, probabilities and candidates on the mentions."""
        if links is None:
            return
        chosen = offered(
            links,
            self.kb,
            threshold=self.threshold,
            no_definition_threshold=self.no_definition_threshold,
            filter_for_definitions=self.filter_for_definitions,
            max_entities_per_mention=self.max_entities_per_mention,
        )
        write_answers(docs, answers(links, self.kb, chosen), self.spans_key, self.overwrite)

    # Training

    @property
    def trainer(self) -> Trainer | None:
        """What trains the retriever, or the reranker; None outside a training session."""
        return self._trainer

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
        trained = learning.gold_entities(self, get_examples())
        texts = learning.vocabulary_texts(self.kb, get_examples())
        if self.reranker_model is None:
            self.model.initialize(X=texts)
            self._retriever = None
            others = searched_corpus(nlp) if searched_corpus else ()
            self._trainer = learning.new_trainer(self, trained, others, searched_entities)
            self.cfg["trained_entities"] = []
        else:
            learning.check_candidates(self)
            self.reranker_model.initialize(X=texts)
            self._reranker = None
            self._trainer = learning.reranker_trainer(self)
            self._trainer.retrieve(self._trainable(get_examples()))
        self.trained_numbers = set()
        learning.note_trained(self, trained)

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
            if self._trainer is None:
                self.prepare_training(examples)
            learning.note_trained(self, {n for mention in mentions for n in mention.golds})
            architectures.set_dropout(self._trained_model, drop)
            architectures.set_gradient_caching(self._trained_model, self.gradient_caching)
            losses[self.name] += sum(self._trainer.step(mentions))
        backprop()
        if mentions and sgd not in (None, False):
            self.finish_update(sgd)
        return losses

    def prepare_training(self, examples: Iterable[Example]) -> None:
        """Get ready to go on from a saved pipeline, as the first ``update`` does by itself."""
        self._trainer = learning.resumed_trainer(self, self._trainable(examples))

    def finish_update(self, sgd: Optimizer) -> None:
        """Apply the accumulated gradients; what was calibrated on the weights before is dropped."""
        apply_gradients(self._trained_model, sgd)
        self.runtime.forget()
        self.calibration = self.name_weight = self.rerank_weight = None
        if self.reranker_model is None:
            self.nil_threshold = self.cfg["configured_nil_threshold"]
            self._checked_fingerprint = None
        if self._trainer is not None:
            self._trainer.note_update()

    def _trainable(
        self, examples: Iterable[Example], texts: Sequence[str] | None = None
    ) -> list[GoldMention]:
        resolved = self.resolve_abbreviations
        return trainable_mentions(examples, self.kb, self.spans_key, resolved, texts)

    @property
    def _trained_model(self) -> Model:
        """What training changes: the reranker, if there is one, and then nothing else."""
        return self.model if self.reranker_model is None else self.reranker_model

    def finish_training(self) -> None:
        """Leave the training session: search the KB from now on, not its part under training."""
        self._trainer = None

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

    def parts(self) -> dict[str, Part]:
        """Weights and settings, and where the KB is; the KB itself stays where it is."""
        reranker = self.reranker_model
        return {
            "cfg": Part(lambda _: json.dumps(self.cfg).encode(), self._set_cfg),
            "model": Part(lambda _: packed_retriever(self.model), self._set_model),
            "reranker": Part(
                (lambda _: architectures.pack_model(reranker)) if reranker is not None else None,
                self._set_reranker,
                missing=self._unset_reranker,
            ),
            KB_REFERENCE: self.kb_part(),
        }

    def _set_cfg(self, saved: Saved) -> None:
        """Take what was saved, but for a threshold that the config names and did not then."""
        configured = self.cfg["configured_nil_threshold"]
        self.cfg = {**NOT_CALIBRATED, **json.loads(content(saved))}
        if configured not in (None, self.cfg["configured_nil_threshold"]):
            self.cfg.update(nil_threshold=configured, configured_nil_threshold=configured)

    def _set_model(self, saved: Saved) -> None:
        tok2vec = architectures.tok2vec_of(self.model)  # it is of the pipeline's config
        self.model = architectures.from_packed(saved, tok2vec)
        self._retriever = self._checked_fingerprint = self._trainer = None
        self.runtime.forget()

    def _set_reranker(self, saved: Saved) -> None:
        from ..architectures.crossencoder import from_packed

        self.reranker_model = from_packed(saved)
        self._reranker = self._trainer = None
        self.runtime.forget()

    def _unset_reranker(self) -> None:
        self.reranker_model, self._reranker = self._configured_reranker, None

    def forget_kb(self) -> None:
        self._trainer, self.trained_numbers = None, set()
