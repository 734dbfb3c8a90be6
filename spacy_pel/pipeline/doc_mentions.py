"""The mentions of docs as encoders read them, and the filters of their searches."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import cast
from weakref import WeakKeyDictionary
from zlib import crc32

import numpy as np
from spacy.attrs import IDX, LENGTH
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import filter_spans
from thinc.types import Floats2d

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase, SearchFilter
from ..kb.records.plain_text import PlainText, plain
from ..models.architectures import AnyModel
from ..spans import gold_ids, mention_spans
from ..text.abbreviations import at_long_forms, defined_abbreviations, expanded
from ..text.coordination import coordinated
from ..text.letter_case import in_usual_case
from ..text.mention_inputs import DocumentContext, GoldMention, MentionInContext

_NOTHING = SearchFilter(ids=("",))  # for blank mentions: no name of an entity is blank
CACHE_SIZE = 10_000  # names
_LONG_FORMS = "long_forms"  # the key of abbreviations in ``doc.user_data``
_texts: WeakKeyDictionary[Doc, str] = WeakKeyDictionary()  # of ``plain_text``
RECOGNISER = "recogniser"  # the attribute of a listener that has the recogniser it listens to


def read_documents(
    retriever: AnyModel, docs: Sequence[Doc], is_train: bool = False
) -> tuple[list[DocumentContext], Callable[[], object]]:
    """Return the contexts of docs, with the states of their tokens if the retriever listens.

    In inference, the "kb_ner" that the retriever listens to reads docs that it has not read yet. This does
    not change their mentions or ``doc.tensor``.

    Returns:
        The contexts, and for training a function to call once their states have gradients. Call it even
        if there is no mention: the last component that listens starts the backward pass of the shared
        component.

    Raises:
        PelError: The retriever listens to a component that has not read a doc.
    """
    tok2vec = retriever.maybe_get_ref("tok2vec")
    if tok2vec is None:
        return [DocumentContext() for _ in docs], lambda: None
    arrays, backprop = tok2vec(list(docs), is_train)
    all_states = [
        np.ascontiguousarray(tok2vec.ops.to_numpy(states), dtype=np.float32) for states in arrays
    ]
    width = tok2vec.maybe_get_dim("nO")  # a tensor of another width is another component's
    unread = [
        place
        for place, (doc, states) in enumerate(zip(docs, all_states))
        # Blank docs have no states.
        if (not states.any() or width not in (None, states.shape[1])) and doc.text.strip()
    ]
    if unread:
        recogniser = tok2vec.attrs.get(RECOGNISER)
        if recogniser is None or is_train:
            raise PelError(
                "the linker shares the encoder of another component, which has not read this doc",
                "run the pipeline with it; in a pipeline without it, open the linker by its path: "
                'nlp.add_pipe("proxy_linker", config={"path": PIPELINE}); when training, freeze it '
                "only as one of the annotating_components",
            )
        new_states = recogniser.token_states([docs[place] for place in unread])
        for place, states in zip(unread, new_states):
            all_states[place] = states
    gradients = [np.zeros_like(states) if is_train else None for states in all_states]
    contexts = [
        DocumentContext(states, token_offsets(doc, plain_text(doc)), gradient)
        for doc, states, gradient in zip(docs, all_states, gradients)
    ]

    def finish() -> object:
        return backprop([tok2vec.ops.asarray(cast(Floats2d, gradient)) for gradient in gradients])

    return contexts, finish


def drop_states(retriever: AnyModel, name: str, docs: Iterable[Doc]) -> None:
    """Drop the states of docs if only the linker of this name listens to their "kb_ner"."""
    tok2vec = retriever.maybe_get_ref("tok2vec")
    recogniser = tok2vec and tok2vec.attrs.get(RECOGNISER)
    if tok2vec and recogniser and recogniser.all_listeners == {name}:
        for doc in docs:
            if doc.tensor.shape[1:] == (tok2vec.get_dim("nO"),):  # else another component's
                doc.tensor = np.zeros(0, dtype=np.float32)


def plain_text(doc: Doc) -> PlainText:
    """Return the plain text of a doc. spaCy joins the tokens at each call, so their text is kept."""
    text = _texts.get(doc)
    if text is None:
        text = _texts[doc] = doc.text
    return PlainText(text)


def text_of(doc: Doc, acronyms: Collection[str]) -> PlainText:
    """Return the plain text of a doc in the usual case of words and acronyms (``in_usual_case``)."""
    text = plain_text(doc)
    text.text = in_usual_case(text.text, acronyms)
    return text


def token_offsets(doc: Doc, text: PlainText) -> np.ndarray:
    """Return the start and the end of each token in the plain text, int64 [t, 2]."""
    offsets = doc.to_array([IDX, LENGTH]).astype(np.int64).reshape(-1, 2)
    offsets[:, 1] += offsets[:, 0]
    return text.places(offsets)


def plain_offsets(spans: Iterable[Span], text: PlainText) -> list[tuple[int, int]]:
    """Return the start and the end of each span in the plain text."""
    offsets = [(span.start_char, span.end_char) for span in spans]
    places = text.places(np.array(offsets, np.int64).reshape(-1, 2))
    return [(start, end) for start, end in places.tolist()]


def span_of(doc: Doc, text: PlainText, start: int, end: int, label: str | int = 0) -> Span:
    """Return the tokens of a doc that a mention in its plain text touches.

    spaCy splits words at "-" but at no other hyphen. So tokens that are not ASCII may reach beyond the
    mention. Then the span gets the mention's words as ``read_as``.
    """
    first, after = text.given(np.array([start]), np.array([end]))
    span = doc.char_span(int(first[0]), int(after[0]), label=label, alignment_mode="expand")
    assert span is not None  # expanded to whole tokens
    if not span.text.isascii() and plain_offsets([span], text) != [(start, end)]:
        span._.read_as = text.text[start:end]
    return span


def mentions_in_context(
    doc: Doc,
    spans: Sequence[Span],
    document: DocumentContext | None,
    resolve_abbreviations: bool,
    acronyms: Collection[str] = (),
) -> list[MentionInContext]:
    """Return the spans of a doc in its text (``text_of``).

    If abbreviations are resolved, long forms replace them (``expanded``). A text that another component
    has encoded cannot change: there an abbreviation is read at its long form (``at_long_forms``).

    Args:
        doc: The doc.
        spans: Its mentions.
        document: The context of the doc; None: a new one, without states.
        resolve_abbreviations: Read abbreviations as their long forms.
        acronyms: The acronyms of the KB, in lower case.
    """
    document = document or DocumentContext()
    text = text_of(doc, acronyms)
    abbreviations = long_forms(doc, text.text) if resolve_abbreviations and spans else {}
    read = expanded if document.states is None else at_long_forms
    mentions = read(text.text, plain_offsets(spans, text), abbreviations, document)
    for place, (span, mention) in enumerate(zip(spans, mentions)):
        if span.has_extension("read_as") and (words := span._.read_as):
            mention = mention._replace(read_as=words)
            if document.states is None:
                before, after = mention.text[: mention.start], mention.text[mention.end :]
                end = mention.start + len(words)
                mention = mention._replace(text=f"{before}{words}{after}", end=end)
            mentions[place] = mention
    return mentions


class NameTest(dict[str, bool]):
    """A cache of whether words, with or without a final "s", are a name of a wanted entity.

    ``is_wanted`` is bool [entities] or [entities, labels], by the numbers of the KB's entities.
    """

    def __init__(self, kb: KnowledgeBase, is_wanted: np.ndarray):
        super().__init__()
        self.kb, self.is_wanted = kb, is_wanted

    def __missing__(self, words: str) -> bool:
        return self.look_up([words])[0]

    def look_up(self, names: Sequence[str]) -> list[bool]:
        """Return whether each of several words is a name; faster than one by one."""
        if len(self) + len(names) > CACHE_SIZE:
            self.clear()
        without_s = [words.removesuffix("s") for words in names]
        owners = self.kb.numbers_of_names([*names, *without_s])
        # A KB that was refreshed meanwhile may have new entities.
        wanted = [
            bool(self.is_wanted[numbers[numbers < len(self.is_wanted)]].any()) for numbers in owners
        ]
        are_names = [a or b for a, b in zip(wanted, wanted[len(names) :])]
        self.update(zip(names, are_names))
        return are_names  # not of the cache: another thread may have cleared it


def with_parts(doc: Doc, text: PlainText, spans: Iterable[Span], names: NameTest) -> list[Span]:
    """Return the spans of a doc, in parts if they share words (``coordinated``).

    Each part has all its words as ``read_as``.
    """
    spans = list(spans)
    places = plain_offsets(spans, text)
    parts: list[Span] = []
    for number, (span, place) in enumerate(zip(spans, places)):
        parts_of_span = coordinated(text.text, *place, names.__getitem__)
        # A part must not cut another mention.
        if any(
            start < other[1] and other[0] < end and not start <= other[0] < other[1] <= end
            for other in [*places[:number], *places[number + 1 :]]
            for start, end, _ in parts_of_span
        ):
            continue
        for start, end, words in parts_of_span:
            part = span_of(doc, text, start, end, span.label)
            if plain(part.text) != words:
                part._.read_as = words
            parts.append(part)
    parts = filter_spans(parts)
    taken = {number for part in parts for number in range(part.start, part.end)}
    others = [span for span in spans if taken.isdisjoint(range(span.start, span.end))]
    return sorted([*parts, *others])


def long_forms(doc: Doc, text: str) -> Mapping[str, str]:
    """Return the long form of each abbreviation that a doc with this plain text defines.

    The abbreviations are those of scispaCy's AbbreviationDetector or, if it has found none, those of
    ``defined_abbreviations``. The doc keeps the latter, so that the components of a pipeline and the
    epochs of a training detect them once.
    """
    if Doc.has_extension("abbreviations") and doc._.abbreviations:
        first: dict[str, str] = {}
        for abbreviation in doc._.abbreviations:
            if isinstance(abbreviation, dict):  # of make_serializable
                short, long = abbreviation["short_text"], abbreviation["long_text"]
            else:
                short, long = abbreviation.text, str(abbreviation._.long_form)
            first.setdefault(plain(short), plain(long))
        return first
    if "(" not in text:
        return {}
    # Components read another text if their KBs have other acronyms (``text_of``).
    checksum = crc32(text.encode("utf-8", "surrogatepass"))
    kept = doc.user_data.get(_LONG_FORMS)
    if kept is None or kept[0] != checksum:
        kept = doc.user_data[_LONG_FORMS] = [checksum, defined_abbreviations(text)]
    defined: dict[str, str] = kept[1]
    return defined


def search_filters(
    mentions: Sequence[MentionInContext],
    labels: Sequence[str],
    types: Sequence[str] | None,
    sources: Sequence[str] | None,
    label_types: Mapping[str, Sequence[str]] | None,
) -> list[SearchFilter | None] | None:
    """Return the filter of each mention's search, or None for no filter; None if no mention has one."""
    default = SearchFilter(tuple(types or ()), tuple(sources or ()))
    by_label = {
        label: default._replace(types=tuple(own_types))
        for label, own_types in (label_types or {}).items()
    }
    filters = [
        by_label.get(label, default) if mention.surface.strip() else _NOTHING
        for mention, label in zip(mentions, labels)
    ]
    if not any(map(any, filters)):
        return None
    return [filter if any(filter) else None for filter in filters]


# Gold mentions for training


def trainable_mentions(
    examples: Iterable[Example],
    kb: KnowledgeBase,
    spans_key: str | None,
    resolve_abbreviations: bool = False,
    documents: Iterable[DocumentContext] | None = None,
) -> list[GoldMention]:
    """Return the gold mentions of examples that have an entity in the KB.

    ``documents`` are the contexts of the predicted docs, if another component has read them.
    """
    examples = list(examples)
    contexts = list(documents) if documents else [None] * len(examples)
    spans = [mention_spans(example.reference, spans_key) for example in examples]
    numbers = _numbers_of_ids(kb, chain.from_iterable(spans))
    gold_mentions = []
    for example, document, doc_spans in zip(examples, contexts, spans):
        doc, text = example.reference, example.reference.text
        mentions = mentions_in_context(doc, doc_spans, document, resolve_abbreviations, kb.acronyms)
        for span, mention in zip(doc_spans, mentions):
            golds = dict.fromkeys(numbers[id] for id in gold_ids(span) if id in numbers)
            if golds:
                gold_mentions.append(GoldMention(mention, tuple(golds), text))
    return gold_mentions


def gold_numbers(examples: Iterable[Example], kb: KnowledgeBase, spans_key: str | None) -> set[int]:
    """Return the numbers of the gold entities of the examples that the KB has."""
    spans = (span for e in examples for span in mention_spans(e.reference, spans_key))
    return set(_numbers_of_ids(kb, spans).values())


def _numbers_of_ids(kb: KnowledgeBase, spans: Iterable[Span]) -> dict[str, int]:
    """Return the numbers of the gold ids of spans that the KB has. Each id is looked up once."""
    ids = dict.fromkeys(id for span in spans for id in gold_ids(span))
    return {id: number for id in ids if (number := kb.number(id)) is not None}
