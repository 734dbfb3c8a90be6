"""The pipeline component ``kb_ner``: finds mentions, and is told which names of a KB lie where."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np
import spacy
import srsly
from scipy.sparse import csr_array
from spacy.language import Language
from spacy.pipeline.tok2vec import Tok2Vec, Tok2VecListener
from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from spacy.util import filter_spans
from thinc.api import Config, Model, Optimizer

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..kb.name_finder import NameFinder, NameMatches
from ..kb.pieces import Pieces, paragraph_ends
from ..kb.records.plain_text import PlainText
from ..kb.records.semantic_types import types_meant
from ..linking.ordering import is_acronym
from ..models.architectures import encoder_of, pack_model, set_dropout, unpack_model
from ..models.architectures.tagger import WordTagger
from ..models.bio_tags import Tagged, allowed_tags, tagged_mentions, without_labels
from ..models.losses import summed_loss
from ..spans import add_ents
from ..text.abbreviations import defined_abbreviations, places_of
from ..text.token_inputs import EncoderInputs
from ..text.word_inputs import WordReader
from ..training.optimizer import apply_gradients
from .doc_mentions import (
    RECOGNISER,
    NameTest,
    plain_offsets,
    span_of,
    text_of,
    token_offsets,
    with_parts,
)
from .kb_component import KBComponent, Saved, SavedFile, content
from .runtime import Runtime

# The share of names that are hidden in training, so that the text alone has to tell.
HIDDEN = 0.2
DEFAULT_MODEL = {
    "@architectures": "spacy-pel.WordTagger.v1",
    "encoder": {
        "@misc": "spacy-pel.ScratchEncoder.v1",
        "layers": 2,
        "width": 128,
        "heads": 4,
        "vocab_size": 8000,
        "max_tokens": 256,
    },
}


class Found(NamedTuple):
    """What the recogniser says of documents."""

    texts: list[PlainText]
    mentions: list[list[Tagged]]  # of each plain text
    states: list[np.ndarray] | None  # of the tokens of each, float32 [t, d]; None: nobody listens
    names: NameTest  # of the KB that was read


class KBRecogniser(KBComponent, Tok2Vec):
    """Finds mentions as spaCy's "ner" does, with the names of a knowledge base as a hint.

    A small BERT tags words. It is told at each word whether a name of the KB begins or goes on there,
    and to which labels its entities belong. So a name that no training text has is found where the
    context agrees, and the KB can be another one than in training.

    A corpus need not annotate all labels: outside its mentions a word may have any label that it
    never uses (``summed_loss``).

    Components behind it may listen to it as to spaCy's "tok2vec" (spacy.Tok2VecListener.v1), so that
    a text is read once for all of them, and they train its encoder too. Then ``doc.tensor`` has the
    states of the tokens. Each is the mean of its words' states.

    Args:
        types: The types of the KB's entities that belong to each label, the types below them included.
            Names of other entities are shown as names of no label. So are all names of a KB that has
            none of these types, such as another ontology.
        hints: Other groups of types whose names are told apart, such as enzymes among chemicals.
        add_names: Whether a name that one entity alone has, and no acronym, is a mention even if the
            tags do not say so. Its entity has to belong to one label.
        only: The labels of the mentions that are marked; None: all that were learnt.
        grad_factor: How much the gradients of components that listen count beside its own.
        runtime: What computes the encoder (``Runtime``).

    Attributes:
        cfg: ``annotated``: the labels that each source of the training corpus uses.
    """

    factory = "kb_ner"

    def __init__(
        self,
        nlp: Language,
        name: str = "kb_ner",
        *,
        model: Model,
        kb: str | None,
        types: dict[str, list[str]],
        hints: dict[str, list[str]],
        add_names: bool,
        only: list[str] | None,
        grad_factor: float,
        runtime: str,
        scorer: Callable | None,
    ):
        self.vocab = nlp.vocab
        self.model = model
        self.name = name
        self.types = types
        self.hints = hints
        self.add_names = add_names
        self.only = only
        self.grad_factor = grad_factor
        self.runtime = Runtime(runtime)
        self.stop_words = nlp.Defaults.stop_words  # names that are not looked at, ignoring case
        self.scorer = scorer
        self.cfg: dict[str, Any] = {"annotated": {}}
        self.listener_map: dict[str, list[Tok2VecListener]] = {}
        self._awaited = False  # whether a component that listens has still to give its gradients
        self._optimizer: Optimizer | None = None  # what waits for them
        self.refer_to_kb(kb)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of mentions."""
        return tuple(self.model.attrs["labels"])

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """As spaCy's. With the runtime "exact" each doc is computed by itself."""
        return super().pipe(stream, batch_size=self.runtime.batch_size(batch_size))

    def predict(self, docs: Iterable[Doc]) -> Found:
        """Find the mentions of docs: start and end in the plain text, and the number of the label.

        Raises:
            PelError: The component is not trained, or there is no KB.
        """
        if not encoder_of(self.model).is_loaded:
            raise PelError(
                f'"{self.name}" is not trained',
                "train it with spacy train, or load a pipeline that has it",
            )
        docs = list(docs)
        if unknown := sorted(set(self.only or ()) - set(self.labels)):
            raise PelError(
                f'"only" of "{self.name}" has the label "{unknown[0]}", which it does not mark',
                f"choose of its labels: {', '.join(self.labels)}",
            )
        return self.read_kb(lambda kb: self._found(docs, kb))

    def _found(self, docs: Sequence[Doc], kb: KnowledgeBase) -> Found:
        """The mentions of docs and the states of their tokens, by one KB."""
        texts = [text_of(doc, kb.acronyms) for doc in docs]
        words, sure, scores, states = self._outputs(texts, kb)
        marked = np.array([self.only is None or label in self.only for label in self.labels])
        if not marked.all():
            scores = without_labels(scores, ~marked)
        paragraphs = [  # of words: no mention goes beyond one
            np.split(own, own[:, 0].searchsorted(paragraph_ends(text.text)))
            for text, own in zip(texts, words)
        ]
        tagged = iter(tagged_mentions([part for own in paragraphs for part in own], scores))
        found = [[mention for _ in own for mention in next(tagged)] for own in paragraphs]
        for own, names in zip(found, sure if self.add_names else ()):
            own += [
                name
                for name in names
                if marked[name[2]]
                and not any(name[0] < end and start < name[1] for start, end, _ in own)
            ]
        found = [as_defined(text.text, own) for text, own in zip(texts, found)]
        states = _of_tokens(_shares(words, docs, texts), states) if self.listeners else None
        *_, names = self.cached_for_kb(kb, self._tools)
        return Found(texts, found, states, names)

    def token_states(self, docs: Sequence[Doc]) -> list[np.ndarray]:
        """The states of the tokens of each doc, float32 [t, d], without any look at the mentions."""
        return self.read_kb(lambda kb: self._token_states(docs, kb))

    def _token_states(self, docs: Sequence[Doc], kb: KnowledgeBase) -> list[np.ndarray]:
        texts = [text_of(doc, kb.acronyms) for doc in docs]
        words, _, _, states = self._outputs(texts, kb)
        return _of_tokens(_shares(words, docs, texts), states)

    def _outputs(
        self, texts: Sequence[PlainText], kb: KnowledgeBase
    ) -> tuple[list[np.ndarray], list[list[Tagged]], np.ndarray, np.ndarray]:
        """The words of texts and their sure names (``_read``); the scores and states of all words."""
        words, inputs, sure = self._read([text.text for text in texts], kb)
        with self.runtime.use([self.model]):
            outputs = self.model.predict(inputs)
        return words, sure, *np.split(outputs, [encoder_of(self.model).n_tags], axis=1)

    def set_annotations(self, docs: Iterable[Doc], found: Found) -> None:
        """Add the mentions to ``doc.ents``. What other components put there stays.

        A mention begins and ends with a token. A tokenizer that splits at every hyphen and bracket
        keeps the bounds that were found. Mentions that share words ("breast and ovarian cancer") are
        marked one by one, and ``read_as`` all their words.
        """
        docs = list(docs)
        for doc, text, mentions in zip(docs, found.texts, found.mentions):
            spans = [
                span_of(doc, text, start, end, self.labels[label]) for start, end, label in mentions
            ]
            add_ents(doc, with_parts(doc, text, filter_spans(spans), found.names))
        for doc, states in zip(docs, found.states or ()):
            doc.tensor = states

    def add_listener(self, listener: Tok2VecListener, component_name: str) -> None:
        """As spaCy's. The listener keeps this component, to have it read docs that it has not read."""
        super().add_listener(listener, component_name)
        listener.attrs[RECOGNISER] = self

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        """Fetch or build the encoder, and take the labels.

        ``labels`` are those that are learnt; None: all of the examples, sorted.

        Raises:
            PelError: There is no label, or a label of ``types`` is not learnt.
        """
        annotated = defaultdict(set)
        for example in get_examples():
            annotated[_source(example)] |= {span.label_ for span in example.reference.ents}
        labels = sorted(set().union(*annotated.values())) if labels is None else list(labels)
        if not labels:
            raise PelError(
                f'no mentions to train "{self.name}" on', "give a corpus whose mentions have labels"
            )
        if unknown := sorted(self.types.keys() - set(labels)):
            raise PelError(
                f'"types" of "{self.name}" has the label "{unknown[0]}", which is not learnt',
                f"use the labels of the corpus: {', '.join(labels)}",
            )
        self.cfg["annotated"] = {
            source: sorted(own.intersection(labels)) for source, own in annotated.items()
        }
        texts = (example.reference.text for example in get_examples())
        self.model.attrs["n_hints"] = len(self.hints)
        self.model.initialize(X=texts, Y=labels)
        self._cached_for_kb = None, None  # the labels are others

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Learn from a batch of examples. Without ``sgd`` gradients are kept for ``finish_update``."""
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, "KBRecogniser.update")
        kb = self.kb.snapshot()
        texts = [text_of(example.reference, kb.acronyms) for example in examples]
        words, inputs, _ = self._read([text.text for text in texts], kb, HIDDEN)
        set_dropout(self.model, drop)
        outputs, backprop = self.model.begin_update(inputs)
        allowed = [self._allowed(*each) for each in zip(examples, texts, words)]
        gradient, first = np.zeros_like(outputs), encoder_of(self.model).n_tags
        if inputs.windows:
            scores = np.ascontiguousarray(outputs[:, :first])
            loss, gradient[:, :first] = summed_loss(scores, np.concatenate(allowed))
            losses[self.name] += loss
        docs = [example.predicted for example in examples]
        shares = _shares(words, docs, texts) if self.listeners else []

        def heard(of_tokens: Sequence[np.ndarray]) -> list[np.ndarray]:
            of_words = [own.T @ values for own, values in zip(shares, of_tokens)]
            gradient[:, first:] += self.grad_factor * np.concatenate(of_words)
            return []

        def finish(of_tokens: Sequence[np.ndarray] = ()) -> list[np.ndarray]:
            if len(of_tokens):
                heard(of_tokens)
            backprop(gradient)
            self._awaited = False
            if (optimizer := self._optimizer or sgd) not in (None, False):
                self._optimizer = None
                self.finish_update(optimizer)
            return []

        *others, last = self.listeners or [None]
        if last is None:
            finish()
            return losses
        states, batch = _of_tokens(shares, outputs[:, first:]), Tok2VecListener.get_batch_id(docs)
        for listener in others:
            listener.receive(batch, states, heard)
        last.receive(batch, states, finish)
        self._awaited = True
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        """Apply the accumulated gradients, as soon as all components that listen have given theirs."""
        if self._awaited:
            self._optimizer = sgd
        else:
            apply_gradients(self.model, sgd)
            self.runtime.forget()

    def saved_files(self) -> dict[str, SavedFile]:
        """The weights, what the corpora annotate, and where the KB is."""
        return {
            "model": SavedFile(lambda path: pack_model(self.model), self._load_model),
            "cfg": SavedFile(
                lambda path: json.dumps(self.cfg, indent=2).encode(),
                lambda saved: self.cfg.update(json.loads(content(saved))),
            ),
            **super().saved_files(),
        }

    def _load_model(self, saved: Saved) -> None:
        self.model = unpack_model(saved, WordTagger)
        self._cached_for_kb = None, None  # the labels are others

    def _allowed(self, example: Example, text: PlainText, words: np.ndarray) -> np.ndarray:
        """The tags that may be right for the words of an example, whose plain text is given."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        ents = [ent for ent in example.reference.ents if ent.label_ in numbers]
        mentions = [
            (*place, numbers[ent.label_]) for ent, place in zip(ents, plain_offsets(ents, text))
        ]
        annotated = self.cfg["annotated"].get(_source(example), self.labels)
        is_annotated = np.array([label in annotated for label in self.labels])
        return allowed_tags(words, mentions, is_annotated)

    def _read(
        self, texts: Sequence[str], kb: KnowledgeBase, hidden: float = 0.0
    ) -> tuple[list[np.ndarray], EncoderInputs, list[list[Tagged]]]:
        """Read plain texts with the names of a KB; a share of the names is hidden.

        Returns:
            The words of each text, what the model reads, and the names in each text that one entity
            alone has, if this belongs to one label.
        """
        finder, entity_groups, reader, _ = self.cached_for_kb(kb, self._tools)
        pieces = Pieces(texts)
        names = with_definitions(texts, pieces, finder.find_in(pieces))
        if hidden:
            kept = np.random.random(len(names.first)) >= hidden
            names = NameMatches(*(column[kept] for column in names))
        owners = [finder.owners_of(name) for name in names.names.tolist()]
        groups = np.array([entity_groups[own].any(axis=0) for own in owners])
        groups = groups.reshape(-1, entity_groups.shape[1])
        shown = np.column_stack([groups, ~groups.any(axis=1)])
        labels = groups[:, : len(self.labels)]
        features = np.zeros((len(pieces.words), shown.shape[1], 2), dtype=bool)
        features[names.first, :, 0] = shown
        sure: list[list[Tagged]] = [[] for _ in texts]
        for first, last, kinds, own, of_name in zip(names.first, names.last, shown, labels, owners):
            features[first + 1 : last + 1, kinds, 1] = True
            if len(of_name) == 1 and own.sum() == 1:
                text, start, end = pieces.texts[first], pieces.starts[first], pieces.ends[last]
                if not is_acronym(texts[text][start:end]):
                    sure[text].append((int(start), int(end), int(own.argmax())))
        return *reader.inputs(pieces, features.reshape(len(features), -1)), sure

    def _tools(self, kb: KnowledgeBase) -> tuple[NameFinder, np.ndarray, WordReader, NameTest]:
        """Return what finds names, the labels and hints of entities, the reader of words, and the name test.

        Labels and hints are bool [entities, labels + hints].
        """
        columns = [*self.labels, *self.hints]
        groups = np.zeros((kb.numbers().max(initial=-1) + 1, len(columns)), dtype=bool)
        of_kb = kb.semantic_types
        known = {
            group: [name for name in types if types_meant(name, of_kb)]
            for group, types in (self.types | self.hints).items()
        }
        is_other = not any(known[label] for label in self.types)
        for group, types in {} if is_other else known.items():
            if types or group in self.types:
                chosen = types or self.types[group]  # which the KB refuses
                groups[kb.of_types(*chosen), columns.index(group)] = True
        encoder = encoder_of(self.model)
        length = min(self.model.attrs["length"], encoder.position_limit)
        reader = WordReader(encoder.tokenizer, length)
        finder = kb.name_finder(stop_words=self.stop_words)
        return finder, groups, reader, NameTest(kb, groups[:, : len(self.labels)])


def with_definitions(texts: Sequence[str], pieces: Pieces, names: NameMatches) -> NameMatches:
    """The names found in texts, where an acronym that its text defines counts as its long form.

    It gets the name that ends its long form: in "acute viral hepatitis (AVH)", AVH is hepatitis.
    If there is none, it has no name, whatever the KB calls by these letters.
    """
    ending = {last: number for number, last in enumerate(names.last.tolist())}
    acronyms = []  # first and last piece, and the number of the name or -1
    for number, text in enumerate(texts):
        long_forms = defined_abbreviations(text)
        meant = {}
        for short, long in long_forms.items():
            if (start := text.find(long)) >= 0:
                first, last = pieces.between(number, start, start + len(long))
                name = ending.get(last)
                is_name = name is not None and names.first[name] >= first
                meant[short] = names.names[name] if is_name else -1
        for start, end in places_of(text, meant):
            acronyms.append((*pieces.between(number, start, end), meant[text[start:end]]))
    if not acronyms:
        return names
    first, last, meant = np.array(acronyms, dtype=np.int64).T
    taken = np.zeros(len(pieces.words) + 1, dtype=np.int64)
    np.add.at(taken, first, 1)
    np.add.at(taken, last + 1, -1)
    covered = np.concatenate([[0], (taken.cumsum() > 0).cumsum()])
    kept = covered[names.last + 1] == covered[names.first]
    rows = np.concatenate([np.column_stack(names)[kept], np.array(acronyms)[meant >= 0]])
    return NameMatches(*rows[rows[:, 0].argsort(kind="stable")].T)


def as_defined(text: str, mentions: Sequence[Tagged]) -> list[Tagged]:
    """The mentions in a text, but no acronym that it defines by a long form that does not end in one.

    In "von Hippel-Lindau tumor suppressor gene (VHL)" no mention has the last word: VHL is none either.
    """
    others = set()
    for short, long in defined_abbreviations(text).items():
        end = text.find(long) + len(long)
        if end >= len(long) and not any(start < end <= last for start, last, _ in mentions):
            others.add(short)
    return [mention for mention in mentions if text[mention[0] : mention[1]] not in others]


def _shares(
    words: Sequence[np.ndarray], docs: Sequence[Doc], texts: Sequence[PlainText]
) -> list[csr_array]:
    """For each doc what share of a token each word is: float32 [t, w]; times values of words, means.

    A token that touches no word, such as blanks, has shares of 0.
    """
    shares = []
    for own, doc, text in zip(words, docs, texts):
        tokens = token_offsets(doc, text)
        first = np.searchsorted(own[:, 1], tokens[:, 0], side="right")
        counts = np.searchsorted(own[:, 0], tokens[:, 1], side="left") - first
        counts = np.maximum(counts, 0)
        bounds = np.concatenate([[0], counts.cumsum()])
        touched = np.arange(bounds[-1]) + np.repeat(first - bounds[:-1], counts)
        each = np.repeat(1 / np.maximum(counts, 1), counts).astype(np.float32)
        shares.append(csr_array((each, touched, bounds), shape=(len(tokens), len(own))))
    return shares


def _of_tokens(shares: Sequence[csr_array], of_words: np.ndarray) -> list[np.ndarray]:
    """The values of the tokens of each doc, float32 [t, d], from those of all words."""
    ends = np.cumsum([own.shape[1] for own in shares])[:-1]
    return [own @ values for own, values in zip(shares, np.split(of_words, ends))]


def _source(example: Example) -> str:
    """The corpus file that an example is of, with its folder; "" if its corpus does not say."""
    return "/".join(PurePath(example.reference.user_data.get("source", "")).parts[-2:])


make_kb_ner = Language.factory(
    "kb_ner",
    func=KBRecogniser,
    assigns=["doc.ents", "token.ent_iob", "token.ent_type"],
    default_config={
        "model": DEFAULT_MODEL,
        "kb": None,
        "types": {},
        "hints": {},
        "add_names": False,
        "only": None,
        "grad_factor": 1.0,
        "runtime": "torch",
        "scorer": {"@scorers": "spacy.ner_scorer.v1"},
    },
    default_score_weights={"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0, "ents_per_type": None},
)


# A linker that listens to a recogniser, in a pipeline without it, has a copy and reads by itself

# From docs to the states of their tokens. It takes the place of spaCy's listener, and learns nothing.
OwnReader = Model[list[Doc], list[np.ndarray]]
_PIPELINE, _LINKER = "pipeline", "linker"


def reader_beside(folder: Path, linker: KBComponent) -> OwnReader | None:
    """A copy of the recogniser that a saved linker listens to; None if it listens to none.

    folder: of the saved linker in its pipeline. The copy gets the KB of the linker that is given.
    """
    file = folder.parent / "config.cfg"
    if not file.is_file():
        return None
    components = Config().from_disk(file, interpolate=False)["components"]
    model = components.get(folder.name, {}).get("model", {})
    upstream = (model.get("tok2vec") or {}).get("upstream")
    if components.get(upstream, {}).get("factory") != KBRecogniser.factory:
        return None
    others = [name for name in components if name != upstream]
    return _reading(spacy.load(folder.parent, exclude=others), linker)


def packed_reader(reader: OwnReader) -> bytes:
    """A reader as bytes."""
    nlp = reader.attrs[_PIPELINE]
    return srsly.msgpack_dumps({"config": nlp.config.to_str(), "data": nlp.to_bytes()})


def unpacked_reader(packed: bytes, linker: KBComponent) -> OwnReader:
    """The reader that ``packed_reader`` packed, for a linker."""
    saved = srsly.msgpack_loads(packed)
    nlp = spacy.util.load_model_from_config(Config().from_str(saved["config"]))
    return _reading(nlp.from_bytes(saved["data"]), linker)


def _reading(nlp: spacy.Language, linker: KBComponent) -> OwnReader:
    return Model("own-reader", _forward, attrs={_PIPELINE: nlp, _LINKER: linker})


def _forward(
    model: OwnReader, docs: Sequence[Doc], is_train: bool
) -> tuple[list[np.ndarray], Callable[[object], list]]:
    [(_, recogniser)] = model.attrs[_PIPELINE].pipeline
    recogniser.use_kb(model.attrs[_LINKER].kb)
    return recogniser.token_states(docs), lambda gradients: []
