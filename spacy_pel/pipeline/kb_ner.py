"""The pipeline component ``kb_ner``: a recogniser of mentions whose input has the names of a KB."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np
from spacy.language import Language
from spacy.pipeline.tok2vec import Tok2Vec, Tok2VecListener
from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from spacy.util import filter_spans
from thinc.api import Optimizer

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..kb.name_finder import NameFinder, NameMatches
from ..kb.pieces import Pieces, paragraph_ends, runs
from ..kb.records.plain_text import PlainText
from ..kb.records.semantic_types import types_meant
from ..linking.ordering import is_acronym
from ..models.architectures import AnyModel, encoder_of, pack_model, set_dropout, unpack_model
from ..models.architectures.tagger import WordTagger
from ..models.bio_tags import Tagged, allowed_tags, tagged_mentions, without_labels
from ..models.losses import summed_loss
from ..spans import add_ents
from ..text.abbreviations import places_of
from ..text.token_inputs import EncoderInputs
from ..text.word_inputs import WordReader
from ..training.optimizer import apply_gradients
from .doc_mentions import (
    RECOGNISER,
    NameTest,
    long_forms,
    plain_offsets,
    span_of,
    text_of,
    token_offsets,
    with_parts,
)
from .kb_component import KBComponent, Saved, SavedFile, content
from .mention_bounds import as_defined, with_first_words, with_names, without_modifiers
from .runtime import Runtime

# The share of names that training hides, so that the model also learns from the text alone.
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


class Recognised(NamedTuple):
    """The predictions of the recogniser for documents."""

    texts: list[PlainText]
    mentions: list[list[Tagged]]  # of each plain text
    # Of the tokens of each document, float32 [t, d]; None: no component listens.
    states: list[np.ndarray] | None
    names: NameTest  # of the KB that was read


class _Tools(NamedTuple):
    """The objects that the recogniser makes for a KB."""

    finder: NameFinder
    # bool [entities, labels + hints], the labels and hints of each entity
    groups: np.ndarray
    reader: WordReader
    names: NameTest


class KBRecogniser(KBComponent, Tok2Vec):
    """Finds mentions as spaCy's "ner" does, with the names of a knowledge base as a hint.

    A small BERT tags words. Features of each word tell whether a name of the KB begins or continues there,
    and to which labels its entities belong. So it finds names that are not in training texts, and the KB
    need not be the KB of the training.

    A corpus need not annotate all labels: outside its mentions, a word may have any label that the
    corpus does not annotate (``summed_loss``).

    Later components may listen to it as to spaCy's "tok2vec" (spacy.Tok2VecListener.v1). Then a text is
    encoded once for all of them, and they also train the encoder. ``doc.tensor`` has the state of each
    token, the mean of the states of its words. If only a linker listens, it drops the states once it has
    linked the doc: of a saved abstract they are 380 kB, and all the rest is 54 kB.

    Args:
        nlp: The pipeline.
        name: The component's name in the pipeline.
        model: The thinc model, a ``WordTagger``.
        kb: The folder of the knowledge base.
        types: The types of the KB's entities that belong to each label, with the types below them. Names
            of other entities are features without a label. So are all names of a KB that has none of
            these types.
        hints: Further groups of types with features of their own, such as enzymes among chemicals.
        add_names: Mark each name of one entity alone, unless it is an acronym, even if the tags
            differ. Its entity has to belong to one label.
        only: The labels of the mentions that are marked; None: all labels.
        grad_factor: The weight of the gradients of components that listen.
        runtime: Computes the encoder (``Runtime``).
        scorer: spaCy's scorer of entities.

    Attributes:
        cfg: "annotated" has the labels that each source of the training corpus annotates. "marked_names" has
            names in lower case that are marked as with ``add_names``, such as "antibiotics".
    """

    factory = "kb_ner"

    def __init__(
        self,
        nlp: Language,
        name: str = "kb_ner",
        *,
        model: AnyModel,
        kb: str | None,
        types: dict[str, list[str]],
        hints: dict[str, list[str]],
        add_names: bool,
        only: list[str] | None,
        grad_factor: float,
        runtime: str,
        scorer: Callable[..., dict[str, Any]] | None,
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
        self.stop_words = nlp.Defaults.stop_words  # names that are ignored, in any case
        self.scorer = scorer
        self.cfg: dict[str, Any] = {"annotated": {}, "marked_names": []}
        self.listener_map: dict[str, list[Tok2VecListener]] = {}
        self.all_listeners: set[str] = set()  # spaCy's map lacks components that are disabled
        # Between ``update`` and the backward pass of the last listener, the optimizer waits.
        self._awaits_gradients = False
        self._optimizer: Optimizer | None = None
        self.refer_to_kb(kb)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of mentions."""
        return tuple(self.model.attrs["labels"])

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Find the mentions of a stream of docs; with the runtime "exact", one doc at a time."""
        for docs in self.runtime.batches(stream, batch_size):
            yield from super().pipe(docs, batch_size=len(docs))

    def predict(self, docs: Iterable[Doc]) -> Recognised:
        """Return the mentions of docs: start and end in the plain text, and the number of the label.

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
                f'"only" of "{self.name}" has the label "{unknown[0]}", which it did not learn',
                f"choose from its labels: {', '.join(self.labels)}",
            )
        return self.read_kb(lambda kb: self._recognised(docs, kb))

    def _recognised(self, docs: Sequence[Doc], kb: KnowledgeBase) -> Recognised:
        texts = [text_of(doc, kb.acronyms) for doc in docs]
        abbreviations = [long_forms(doc, text.text) for doc, text in zip(docs, texts)]
        words, names, scores, states = self._outputs(texts, abbreviations, kb)
        marked = np.array([self.only is None or label in self.only for label in self.labels])
        if not marked.all():
            scores = without_labels(scores, ~marked)
        paragraphs = [  # of words: no mention goes beyond one
            np.split(offsets, offsets[:, 0].searchsorted(paragraph_ends(text.text)))
            for text, offsets in zip(texts, words)
        ]
        tagged = iter(tagged_mentions(list(chain.from_iterable(paragraphs)), scores))
        all_mentions = [[m for _ in of_text for m in next(tagged)] for of_text in paragraphs]
        all_mentions = [
            with_first_words(without_modifiers(text.text, mentions, of_text), of_text)
            for text, mentions, of_text in zip(texts, all_mentions, names)
        ]
        listed = frozenset(self.cfg["marked_names"])
        if self.add_names or listed:
            all_mentions = [
                with_names(
                    text.text,
                    mentions,
                    [name for name in of_text if marked[name[2]]],
                    listed,
                    self.add_names,
                )
                for text, mentions, of_text in zip(texts, all_mentions, names)
            ]
        return Recognised(
            texts,
            [
                as_defined(text.text, mentions, of_text)
                for text, mentions, of_text in zip(texts, all_mentions, abbreviations)
            ],
            _word_shares(words, docs, texts).means(states) if self.listeners else None,
            self.cached_for_kb(kb, self._tools).names,
        )

    def token_states(self, docs: Sequence[Doc]) -> list[np.ndarray]:
        """Return the states of the tokens of each doc, float32 [t, d]."""

        def read(kb: KnowledgeBase) -> list[np.ndarray]:
            texts = [text_of(doc, kb.acronyms) for doc in docs]
            abbreviations = [long_forms(doc, text.text) for doc, text in zip(docs, texts)]
            words, _, _, states = self._outputs(texts, abbreviations, kb)
            return _word_shares(words, docs, texts).means(states)

        return self.read_kb(read)

    def _outputs(
        self,
        texts: Sequence[PlainText],
        abbreviations: Sequence[Mapping[str, str]],
        kb: KnowledgeBase,
    ) -> tuple[list[np.ndarray], list[list[Tagged]], np.ndarray, np.ndarray]:
        """Return the words of texts, their names (``_read``), and the scores and states of all words."""
        words, inputs, names = self._read([text.text for text in texts], abbreviations, kb)
        with self.runtime.use([self.model]):
            outputs = self.model.predict(inputs)
        n_tags = encoder_of(self.model).n_tags
        return words, names, outputs[:, :n_tags], outputs[:, n_tags:]

    def set_annotations(self, docs: Iterable[Doc], recognised: Recognised) -> None:
        """Add the mentions to ``doc.ents``. Entities from other components stay.

        A mention begins and ends with a token: use a tokenizer that splits at every hyphen and bracket.
        Mentions that share words ("breast and ovarian cancer") are marked one by one, with all their
        words as ``read_as``.
        """
        docs = list(docs)
        texts_and_mentions = zip(recognised.texts, recognised.mentions)
        words = {
            text.text[start:end]
            for text, mentions in texts_and_mentions
            for start, end, _ in mentions
        }
        recognised.names.look_up(sorted(words - recognised.names.keys()))
        for doc, text, mentions in zip(docs, recognised.texts, recognised.mentions):
            spans = [
                span_of(doc, text, start, end, self.labels[label]) for start, end, label in mentions
            ]
            add_ents(doc, with_parts(doc, text, filter_spans(spans), recognised.names))
        for doc, states in zip(docs, recognised.states or ()):
            doc.tensor = states

    def add_listener(self, listener: Tok2VecListener, component_name: str) -> None:
        """Register a listener, which can then ask this component to read docs (``read_documents``)."""
        super().add_listener(listener, component_name)
        self.all_listeners.add(component_name)
        listener.attrs[RECOGNISER] = self

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        """Fetch or build the encoder, and set the labels.

        Args:
            get_examples: Returns the training examples.
            nlp: Unused; spaCy's signature.
            labels: The labels to learn; None: all of the examples, sorted.

        Raises:
            PelError: There is no label, or ``labels`` lacks a label of ``types``.
        """
        annotated: defaultdict[str, set[str]] = defaultdict(set)
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
            source: sorted(used.intersection(labels)) for source, used in annotated.items()
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
        """Learn from a batch of examples. Without ``sgd``, gradients add up until ``finish_update``."""
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        examples = list(examples)
        validate_examples(examples, "KBRecogniser.update")
        kb = self.kb.snapshot()
        references = [example.reference for example in examples]
        texts = [text_of(doc, kb.acronyms) for doc in references]
        abbreviations = [long_forms(doc, text.text) for doc, text in zip(references, texts)]
        words, inputs, _ = self._read([text.text for text in texts], abbreviations, kb, HIDDEN)
        set_dropout(self.model, drop)
        outputs, backprop = self.model.begin_update(inputs)
        gradient, n_tags = np.zeros_like(outputs), encoder_of(self.model).n_tags
        if inputs.windows:
            allowed = [self._allowed(*arguments) for arguments in zip(examples, texts, words)]
            scores = np.ascontiguousarray(outputs[:, :n_tags])
            loss, d_scores = summed_loss(scores, np.concatenate(allowed))
            gradient[:, :n_tags] = d_scores
            losses[self.name] += loss
        docs = [example.predicted for example in examples]
        shares = _word_shares(words, docs, texts)

        def add_gradients(d_tokens: Sequence[np.ndarray]) -> list[np.ndarray]:
            gradient[:, n_tags:] += self.grad_factor * shares.of_words(d_tokens)
            return []

        def finish(d_tokens: Sequence[np.ndarray] = ()) -> list[np.ndarray]:
            if len(d_tokens):
                add_gradients(d_tokens)
            backprop(gradient)
            self._awaits_gradients = False
            if optimizer := self._optimizer or sgd:
                self._optimizer = None
                self.finish_update(optimizer)
            return []

        if not self.listeners:
            finish()
            return losses
        states = shares.means(outputs[:, n_tags:])
        batch = Tok2VecListener.get_batch_id(docs)
        for listener in self.listeners[:-1]:
            listener.receive(batch, states, add_gradients)
        self.listeners[-1].receive(batch, states, finish)
        self._awaits_gradients = True
        return losses

    def finish_update(self, sgd: Optimizer) -> None:
        """Apply the accumulated gradients, once all components that listen have added theirs."""
        if self._awaits_gradients:
            self._optimizer = sgd
        else:
            apply_gradients(self.model, sgd)
            self.runtime.forget()

    def saved_files(self) -> dict[str, SavedFile]:
        """Return the files with the weights, the annotated labels, and the path of the KB."""
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
        """Return the tags that may be correct for each word of an example with this plain text."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        ents = [ent for ent in example.reference.ents if ent.label_ in numbers]
        mentions = [
            (*place, numbers[ent.label_]) for ent, place in zip(ents, plain_offsets(ents, text))
        ]
        annotated = self.cfg["annotated"].get(_source(example), self.labels)
        is_annotated = np.array([label in annotated for label in self.labels])
        return allowed_tags(words, mentions, is_annotated)

    def _read(
        self,
        texts: Sequence[str],
        abbreviations: Sequence[Mapping[str, str]],
        kb: KnowledgeBase,
        hidden: float = 0.0,
    ) -> tuple[list[np.ndarray], EncoderInputs, list[list[Tagged]]]:
        """Read plain texts, their ``long_forms`` and the names of a KB, without a hidden share.

        Returns:
            The words of each text, the inputs of the model, and the names in each text that one entity
            alone has, if this belongs to one label.
        """
        finder, entity_groups, reader, _ = self.cached_for_kb(kb, self._tools)
        pieces = Pieces(texts)
        names = with_definitions(texts, abbreviations, pieces, finder.find_in(pieces))
        if hidden:
            kept = np.random.random(len(names.first)) >= hidden
            names = NameMatches(*(column[kept] for column in names))
        owners, counts = finder.owners_of_all(names.names)
        groups = np.logical_or.reduceat(entity_groups[owners], counts.cumsum() - counts)
        shown = np.column_stack([groups, ~groups.any(axis=1)])
        labels = groups[:, : len(self.labels)]
        features = np.zeros((len(pieces.words), shown.shape[1], 2), dtype=bool)
        features[names.first, :, 0] = shown
        lengths = names.last - names.first
        features[runs(names.first + 1, lengths), :, 1] = shown.repeat(lengths, axis=0)
        is_clear = (counts == 1) & (labels.sum(axis=1) == 1)
        first, last = names.first[is_clear], names.last[is_clear]
        columns = pieces.texts[first], pieces.starts[first], pieces.ends[last]
        unambiguous: list[list[Tagged]] = [[] for _ in texts]
        for text, *name in np.column_stack([*columns, labels[is_clear].argmax(axis=1)]).tolist():
            if not is_acronym(texts[text][slice(*name[:2])]):
                unambiguous[text].append(tuple(name))
        words, inputs = reader.inputs(pieces, features.reshape(len(features), -1))
        return words, inputs, unambiguous

    def _tools(self, kb: KnowledgeBase) -> _Tools:
        columns = [*self.labels, *self.hints]
        groups = np.zeros((kb.numbers().max(initial=-1) + 1, len(columns)), dtype=bool)
        kb_types = kb.semantic_types
        known = {
            group: [name for name in types if types_meant(name, kb_types)]
            for group, types in (self.types | self.hints).items()
        }
        if any(known[label] for label in self.types):  # otherwise it is another ontology
            for group, types in known.items():
                if types or group in self.types:
                    chosen = types or self.types[group]  # unknown types: the KB raises
                    groups[kb.of_types(*chosen), columns.index(group)] = True
        encoder = encoder_of(self.model)
        length = min(self.model.attrs["length"], encoder.position_limit)
        reader = WordReader(encoder.tokenizer, length, self.model.attrs["whole_words"])
        finder = kb.name_finder(stop_words=self.stop_words)
        return _Tools(finder, groups, reader, NameTest(kb, groups[:, : len(self.labels)]))


def with_definitions(
    texts: Sequence[str],
    abbreviations: Sequence[Mapping[str, str]],
    pieces: Pieces,
    names: NameMatches,
) -> NameMatches:
    """Return the names in texts, with the names of long forms at abbreviations.

    An abbreviation that its text defines gets the name at the end of its long form: in "acute viral
    hepatitis (AVH)", AVH is hepatitis. Without such a name it is no name, even if the KB has one of
    these letters.
    """
    ending = {last: number for number, last in enumerate(names.last.tolist())}
    acronyms = []  # first and last piece, and the number of the name or -1
    for number, (text, of_text) in enumerate(zip(texts, abbreviations)):
        meant: dict[str, int] = {}
        for short, long in of_text.items():
            if (start := text.find(long)) >= 0:
                first, last = pieces.between(number, start, start + len(long))
                name = ending.get(last)
                is_name = name is not None and names.first[name] >= first
                meant[short] = int(names.names[name]) if is_name else -1
        for start, end in places_of(text, meant):
            acronyms.append((*pieces.between(number, start, end), meant[text[start:end]]))
    if not acronyms:
        return names
    firsts, lasts, meant_names = np.array(acronyms, dtype=np.int64).T
    taken = np.zeros(len(pieces.words) + 1, dtype=np.int64)
    np.add.at(taken, firsts, 1)
    np.add.at(taken, lasts + 1, -1)
    covered = np.concatenate([[0], (taken.cumsum() > 0).cumsum()])
    kept = covered[names.last + 1] == covered[names.first]
    rows = np.concatenate([np.column_stack(names)[kept], np.array(acronyms)[meant_names >= 0]])
    return NameMatches(*rows[rows[:, 0].argsort(kind="stable")].T)


class _WordShares(NamedTuple):
    """The words that the tokens of docs touch, p pairs in order. A token, such as blanks, may touch none."""

    tokens: np.ndarray  # int64 [p], ascending
    words: np.ndarray  # int64 [p], ascending
    weights: np.ndarray  # float32 [p, 1], one divided by the number of words of the token
    docs: list[int]  # the number of tokens before each doc, and that of all
    n_words: int

    def means(self, of_words: np.ndarray) -> list[np.ndarray]:
        """Return the mean of the words of each token of each doc, float32 [t, d], or 0."""
        means = _summed(of_words, self.words, self.tokens, self.weights, self.docs[-1])
        return [means[start:end] for start, end in pairwise(self.docs)]

    def of_words(self, of_docs: Sequence[np.ndarray]) -> np.ndarray:
        """Return the gradient by words, float32 [w, d], from those by the means of each doc."""
        of_tokens = np.concatenate(of_docs)
        return _summed(of_tokens, self.tokens, self.words, self.weights, self.n_words)


def _summed(
    values: np.ndarray, rows: np.ndarray, places: np.ndarray, weights: np.ndarray, n: int
) -> np.ndarray:
    """Return n sums of rows of values [..., d], given the place and the weight of each row: [n, d]."""
    if not len(rows):
        return np.zeros((n, values.shape[1]), dtype=values.dtype)
    row_of = np.zeros(n, dtype=np.int64)
    row_of[places] = rows
    sums = values[row_of]
    # Slow, but few places have several rows or none.
    is_sum = np.bincount(places, minlength=n) != 1
    is_sum[places[weights[:, 0] != 1]] = True
    sums[is_sum], added = 0, is_sum[places]
    np.add.at(sums, places[added], values[rows[added]] * weights[added])
    return sums


def _word_shares(
    words: Sequence[np.ndarray], docs: Sequence[Doc], texts: Sequence[PlainText]
) -> _WordShares:
    """Return which words the tokens of docs touch."""
    before = list(accumulate((len(text.text) for text in texts), initial=0))
    word_starts, word_ends = np.concatenate([o + n for o, n in zip(words, before)]).T
    offsets = [token_offsets(doc, text) + n for doc, text, n in zip(docs, texts, before)]
    starts, ends = np.concatenate(offsets).T
    first = word_ends.searchsorted(starts, side="right")
    counts = np.maximum(word_starts.searchsorted(ends, side="left") - first, 0)
    weights = np.repeat(1 / np.maximum(counts, 1), counts).astype(np.float32)[:, None]
    tokens = np.repeat(np.arange(len(counts)), counts)
    bounds = list(accumulate(map(len, docs), initial=0))
    return _WordShares(tokens, runs(first, counts), weights, bounds, len(word_starts))


def _source(example: Example) -> str:
    """Return the corpus file of an example, with its folder; "" if unknown."""
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
