"""The pipeline component ``proxy_linker``: links the mentions of a Doc to a knowledge base."""

import json
import os
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, Optional

import numpy as np
import spacy.util
from spacy.language import Language
from spacy.pipeline import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from spacy.vocab import Vocab
from thinc.api import Model, Optimizer

from .. import architectures
from ..errors import PelError
from ..inputs import MentionInContext
from ..kb.knowledge_base import KnowledgeBase
from ..linking import Calibration, Links, Searchable, link
from ..models.adversarial import FGSM
from ..models.losses import ScoreLoss
from ..proxies import check_row_kind
from ..retriever import Retriever
from ..training.corpus import gold_mentions
from ..training.negatives import Sampler
from ..training.proxy_pool import ProxyPool
from ..training.trainer import RetrieverTrainer
from .annotations import answers, write_answers
from .extensions import install_extensions
from .gold import gold_numbers, trainable_mentions
from .kb_reference import KB_REFERENCE, found_kb, kb_reference
from .workers import use_one_thread_in_a_worker


# Of a linker that was saved before there was any of this.
_NOT_CALIBRATED = {"nil_threshold": None, "configured_nil_threshold": None, "calibration": None}


class ProxyLinker(TrainablePipe):
    """Links mentions to entities: encodes each in its context, finds the nearest proxies.

    DOCS: the README; PEL (Wiatrak et al. 2022), sections 4 and 5.
    """

    def __init__(
        self,
        vocab: Vocab,
        model: Model,
        name: str = "proxy_linker",
        *,
        kb: Optional[str],
        path: Optional[str],
        spans_key: Optional[str],
        candidates: int,
        nil_threshold: Optional[float],
        row_kind: str,
        name_dropout: float,
        overwrite: bool,
        loss: ScoreLoss,
        regularizer: Optional[FGSM],
        negatives: Sampler,
        scorer: Optional[Callable],
    ):
        """Construct the component; opens nothing. The arguments are those of the factory."""
        self.vocab = vocab
        self.model = model
        self.name = name
        self.spans_key = spans_key
        self.candidates = candidates
        self.overwrite = overwrite
        self.loss = loss
        self.regularizer = regularizer
        self.negatives = negatives
        self.scorer = scorer
        self.name_dropout = name_dropout
        # What belongs to the weights and is saved with them.
        self.cfg: Dict[str, Any] = {
            "nil_threshold": nil_threshold,
            "configured_nil_threshold": nil_threshold,
            "calibration": None,
            "row_kind": check_row_kind(row_kind),
            "architecture": architectures.settings(model),
            "trained_entities": [],
        }
        self._path = path
        self._configured_kb = self._kb_path = kb
        self._kb: Optional[KnowledgeBase] = None
        self._retriever: Optional[Retriever] = None
        self._checked_fingerprint: Optional[str] = None  # of a KB whose vectors fit
        self._trainer: Optional[RetrieverTrainer] = None
        install_extensions()

    # Knowledge base and weights

    @property
    def kb(self) -> KnowledgeBase:
        """The knowledge base. Raises PelError, with the remedy, if there is none."""
        if self._kb is None:
            if self._kb_path is None:
                raise PelError(
                    f'"{self.name}" has no knowledge base; build one with "python -m spacy pel kb '
                    'build SOURCE KB" and give its folder: nlp.add_pipe("proxy_linker", '
                    'config={"kb": "KB"}) or linker.set_kb("KB")'
                )
            self._kb = KnowledgeBase.open(self._kb_path)
        return self._kb

    def set_kb(self, path: os.PathLike) -> None:
        """Link to the knowledge base in this folder from now on.

        Raises PelError if there is no knowledge base in it.
        """
        self._kb = KnowledgeBase.open(path)
        self._kb_path = str(path)
        self._trainer = None

    @property
    def retriever(self) -> Retriever:
        """The trained bi-encoder. Raises PelError, with the remedy, if it has no weights."""
        if self._retriever is None:
            if not architectures.is_initialized(self.model):
                gone = f"there is no trained linker at {self._path}; " if self._path else ""
                raise PelError(
                    f'{gone}"{self.name}" has no weights; train it with "python -m spacy train", '
                    'or open a trained one: nlp.add_pipe("proxy_linker", config={"path": FOLDER})'
                )
            self._retriever = Retriever(self.model)
        return self._retriever

    @property
    def index(self) -> Searchable:
        """What is searched: the KB, or, in a training session, the proxies as they are now.

        Raises PelError if the KB has no vectors, or those of another encoder.
        """
        if self._trainer is not None:
            return self._trainer.pool
        if self._checked_fingerprint != self.kb.fingerprint:
            self.kb.check_fingerprint(self.retriever.fingerprint())
            self._checked_fingerprint = self.kb.fingerprint
        return self.kb

    # Linking

    @property
    def nil_threshold(self) -> Optional[float]:
        """A mention whose best score is below it is NIL; None: no mention is."""
        return self.cfg["nil_threshold"]

    @nil_threshold.setter
    def nil_threshold(self, threshold: Optional[float]) -> None:
        self.cfg["nil_threshold"] = threshold

    @property
    def calibration(self) -> Optional[Calibration]:
        """What makes probabilities of scores; None before ``pel calibrate``."""
        return self.cfg["calibration"] and Calibration(*self.cfg["calibration"])

    @calibration.setter
    def calibration(self, calibration: Optional[Calibration]) -> None:
        self.cfg["calibration"] = calibration and list(calibration)

    def predict(self, docs: Iterable[Doc]) -> Optional[Links]:
        """What linking says of the docs' mentions, in their order; None if there is no mention."""
        mentions = [
            MentionInContext(doc.text, span.start_char, span.end_char)
            for doc in docs
            for span in gold_mentions(doc, self.spans_key)
        ]
        if not mentions:
            return None
        use_one_thread_in_a_worker()
        return link(
            self.retriever,
            self.index,
            mentions,
            self.candidates,
            nil_threshold=self.nil_threshold,
            calibration=self.calibration,
        )

    def set_annotations(self, docs: Iterable[Doc], links: Optional[Links]) -> None:
        """Write ids, scores, probabilities and candidates on the mentions."""
        if links is not None:
            write_answers(docs, answers(links, self.kb), self.spans_key, self.overwrite)

    # Training

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Optional[Language] = None,
        searched_entities: Optional[int] = 20000,
        searched_corpus: Optional[Callable[[Language], Iterable[Example]]] = None,
    ) -> None:
        """Fetch or build the encoder, and get ready for training.

        get_examples: the training examples.
        searched_entities: how many entities evaluation during training searches, null for all: the
            training entities, those of searched_corpus, and as many others drawn at random.
        searched_corpus: usually the dev corpus; its entities are among those searched, so that
            the figures seen while training are high but comparable. Evaluate on the whole KB at
            the end: python -m spacy pel evaluate.
        Raises PelError if no example has a mention whose entity is in the KB.
        """
        kb = self.kb
        trained = gold_numbers(get_examples(), kb, self.spans_key)
        if not trained:
            raise PelError(
                f"no mention of the training examples has an entity in {kb.path}; check that the "
                "corpus and the KB use the same identifiers"
            )
        self.model.initialize(X=self._texts(get_examples))
        self._retriever = None
        others = searched_corpus(nlp) if searched_corpus else ()
        also = gold_numbers(others, kb, self.spans_key)
        self.cfg["trained_entities"] = [id for id, _ in kb.labels(sorted(trained))]
        self._trainer = self._make_trainer(trained | also, searched_entities)

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optional[Optimizer] = None,
        losses: Optional[Dict[str, float]] = None,
    ) -> Dict[str, float]:
        """Learn from the gold mentions of a batch; those without an entity in the KB teach nothing.

        Raises PelError if the pipe has no KB or weights, and if the loss is not a number.
        """
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        validate_examples(examples, "ProxyLinker.update")
        if self._trainer is None:  # training goes on from a saved pipeline
            wanted = gold_numbers(examples, self.kb, self.spans_key)
            self._trainer = self._make_trainer(wanted, 20000)
        mentions = trainable_mentions(examples, self.kb, self.spans_key)
        if not mentions:
            return losses
        architectures.set_dropout(self.model, drop)
        losses[self.name] += sum(self._trainer.step(mentions))
        if sgd not in (None, False):
            self.finish_update(sgd)
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        """Apply the accumulated gradients; what was calibrated on the weights before is dropped."""
        self.model.finish_update(sgd)
        self.nil_threshold, self.calibration = self.cfg["configured_nil_threshold"], None
        self._checked_fingerprint = None
        if self._trainer is not None:
            self._trainer.pool.note_update()

    def finish_training(self) -> None:
        """Leave the training session: search the KB from now on, not its part under training."""
        self._trainer = None

    def score(self, examples: Iterable[Example], **kwargs: Any) -> Dict[str, Any]:
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

    def _make_trainer(self, wanted: set, searched_entities: Optional[int]) -> RetrieverTrainer:
        # thinc seeds numpy's global generator from [training.seed].
        rng = np.random.default_rng(np.random.randint(2**31))
        searched = self.kb.numbers()
        if searched_entities is not None and searched_entities < len(searched):
            others = rng.permutation(np.setdiff1d(searched, list(wanted)))
            n_others = max(0, searched_entities - len(wanted))
            searched = np.sort(np.concatenate([list(wanted), others[:n_others]])).astype(int)
        pool = ProxyPool(
            self.kb, self.retriever, self.cfg["row_kind"], searched, self.name_dropout
        )
        return RetrieverTrainer(
            self.retriever, pool, self.loss, self.regularizer, self.negatives, rng
        )

    def _texts(self, get_examples: Callable[[], Iterable[Example]]) -> Iterator[str]:
        """The texts that a vocabulary is learned from."""
        for entity in self.kb:
            yield from entity.names
            yield from entity.types
            yield entity.definition or ""
        for example in get_examples():
            yield example.reference.text

    # Saving and loading

    def open(self, path: os.PathLike) -> "ProxyLinker":
        """Take weights, settings and KB of a trained linker: its folder, or its pipeline's.

        Raises PelError if there is none.
        """
        folder = Path(path)
        if not (folder / "model").is_file():
            folder = folder / "proxy_linker"
        if not (folder / "model").is_file():
            raise PelError(
                f'no trained linker in {path}; give the folder of a pipeline with a "proxy_linker",'
                " such as training/model-best"
            )
        return self.from_disk(folder, exclude=("vocab",))

    def to_disk(self, path: os.PathLike, *, exclude: Iterable[str] = tuple()) -> None:
        """Save weights and settings, and where the KB is; the KB itself stays where it is."""
        path = Path(path)
        serialize: Dict[str, Callable] = {
            "cfg": lambda p: p.write_text(json.dumps(self.cfg), encoding="utf8"),
            "model": lambda p: p.write_bytes(self.model.to_bytes()),
            KB_REFERENCE: lambda p: p.write_text(
                json.dumps(kb_reference(self._kb_path, self._configured_kb, p)), "utf8"
            ),
        }
        spacy.util.to_disk(path, serialize, exclude)

    def from_disk(self, path: os.PathLike, *, exclude: Iterable[str] = tuple()) -> "ProxyLinker":
        """Load what ``to_disk`` saved."""
        deserialize: Dict[str, Callable] = {
            "cfg": lambda p: self._set_cfg(json.loads(p.read_text("utf8"))),
            "model": lambda p: self._set_weights(p.read_bytes()),
            KB_REFERENCE: lambda p: self._set_kb_reference(json.loads(p.read_text("utf8")), p),
        }
        spacy.util.from_disk(Path(path), deserialize, exclude)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = tuple()) -> bytes:
        """Weights, settings and the KB's path, as bytes."""
        serialize: Dict[str, Callable] = {
            "cfg": lambda: json.dumps(self.cfg).encode(),
            "model": self.model.to_bytes,
            KB_REFERENCE: lambda: json.dumps(
                kb_reference(self._kb_path, self._configured_kb)
            ).encode(),
        }
        return spacy.util.to_bytes(serialize, exclude)

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = tuple()) -> "ProxyLinker":
        """Load what ``to_bytes`` gave."""
        deserialize: Dict[str, Callable] = {
            "cfg": lambda b: self._set_cfg(json.loads(b)),
            "model": self._set_weights,
            KB_REFERENCE: lambda b: self._set_kb_reference(json.loads(b), None),
        }
        spacy.util.from_bytes(data, deserialize, exclude)
        return self

    def _set_cfg(self, cfg: Dict[str, Any]) -> None:
        """Take what was saved, but for a threshold that the config names and did not then."""
        configured = self.cfg["configured_nil_threshold"]
        self.cfg = {**_NOT_CALIBRATED, **cfg}
        if configured not in (None, self.cfg["configured_nil_threshold"]):
            self.cfg.update(nil_threshold=configured, configured_nil_threshold=configured)
        self.model = architectures.from_settings(cfg["architecture"])

    def _set_weights(self, data: bytes) -> None:
        self.model.from_bytes(data)
        self._retriever = self._checked_fingerprint = self._trainer = None

    def _set_kb_reference(self, reference: Dict[str, Any], file: Optional[Path]) -> None:
        """Link to the KB that was saved, but for one that the config names and did not then."""
        if self._configured_kb not in (None, reference["configured"]):
            return
        self._configured_kb = reference["configured"]
        path = found_kb(reference, file)
        if path is not None:
            self._kb_path, self._kb = path, None
