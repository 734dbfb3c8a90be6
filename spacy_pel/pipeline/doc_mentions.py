"""The mentions of docs as encoders read them, and how their searches are confined and grouped."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import repeat

import numpy as np
from spacy.attrs import IDX, LENGTH
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import filter_spans
from thinc.api import Model

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase, SearchFilter
from ..kb.records.plain_text import PlainText, plain
from ..spans import gold_ids, mention_spans
from ..text.abbreviations import at_long_forms, defined_abbreviations, expanded
from ..text.coordination import coordinated
from ..text.lower_case import with_capitals
from ..text.mention_inputs import DocumentContext, GoldMention, MentionInContext

# What a blank mention finds: no name of an entity is blank.
_NOTHING = SearchFilter(ids=("",))


_REMEMBERED = 10_000  # words that are known to be a name or none
# The attribute of a listener that has the recogniser it listens to.
RECOGNISER = "recogniser"


def read_documents(
    retriever: Model, docs: Sequence[Doc], is_train: bool = False
) -> tuple[list[DocumentContext], Callable[[], object]]:
    """The contexts of docs, with the states of their tokens if the retriever listens.

    A doc that a "kb_ner" should have read and has not, such as one of given mentions alone, is read by
    it now, unless it is for training. Neither mentions nor ``doc.tensor`` change by that.

    Returns:
        The contexts, and for training a function to call once when the gradients of their states
        are known. Call it even if there is no mention: the last component that listens is the one
        that makes the shared component learn from all.

    Raises:
        PelError: The retriever listens to a component before it, and none has read a doc.
    """
    tok2vec = retriever.maybe_get_ref("tok2vec")
    if tok2vec is None:
        return [DocumentContext() for _ in docs], lambda: None
    all_states, backprop = tok2vec(list(docs), is_train)
    read = [
        np.ascontiguousarray(tok2vec.ops.to_numpy(states), dtype=np.float32)
        for states in all_states
    ]
    width = tok2vec.maybe_get_dim("nO")  # a tensor of another width is another component's
    unread = [
        place
        for place, (doc, states) in enumerate(zip(docs, read))
        if (not states.any() or width not in (None, states.shape[1])) and doc.text.strip()
    ]
    if unread:  # blanks have no states
        recogniser = tok2vec.attrs.get(RECOGNISER)
        if recogniser is None or is_train:
            raise PelError(
                "the linker shares what another component reads, which has not read this doc",
                "run the pipeline with it; in a pipeline without it, open the linker by its path: "
                'nlp.add_pipe("proxy_linker", config={"path": PIPELINE}); when training, freeze it '
                "only as one of the annotating_components",
            )
        now = recogniser.token_states([docs[place] for place in unread])
        for place, states in zip(unread, now):
            read[place] = states
    contexts = []
    for doc, values in zip(docs, read):
        offsets = token_offsets(doc, PlainText(doc.text))
        contexts.append(DocumentContext(values, offsets, np.zeros_like(values)))

    def finish() -> object:
        return backprop([tok2vec.ops.asarray(own.gradient) for own in contexts])

    return contexts, finish


def text_of(doc: Doc, acronyms: Collection[str]) -> PlainText:
    """The text of a doc as it is read: plain, with acronyms of a KB in capitals (``with_capitals``)."""
    text = PlainText(doc.text)
    text.text = with_capitals(text.text, acronyms)
    return text


def token_offsets(doc: Doc, text: PlainText) -> np.ndarray:
    """The first character of each token in the plain text, and the one after its last: int64 [t, 2]."""
    starts, lengths = doc.to_array([IDX, LENGTH]).astype(np.int64).reshape(-1, 2).T
    return text.places(np.stack([starts, starts + lengths], axis=1))


def plain_offsets(spans: Iterable[Span], text: PlainText) -> list[tuple[int, int]]:
    """The start and the end of each span of a doc in its plain text."""
    offsets = [(span.start_char, span.end_char) for span in spans]
    return list(map(tuple, text.places(np.array(offsets, np.int64).reshape(-1, 2)).tolist()))


def span_of(
    doc: Doc, text: PlainText, start: int, end: int, label: str = "", *, whole: bool = False
) -> Span | None:
    """The tokens of a doc that a mention in its plain text touches, in which it is read as it stands.

    None if they reach beyond the mention, and only ``whole`` tokens are wanted. They may if they are not
    ASCII: spaCy parts words at "-", and at no other hyphen.
    """
    first, after = text.given(np.array([start]), np.array([end]))
    span = doc.char_span(int(first[0]), int(after[0]), label=label, alignment_mode="expand")
    if plain_offsets([span], text) == [(start, end)]:
        return span
    if not span.text.isascii():
        span._.read_as = text.text[start:end]
    return None if whole and span.text.isascii() else span


def mentions_in_context(
    doc: Doc,
    spans: Sequence[Span],
    document: DocumentContext | None,
    resolve_abbreviations: bool,
    known: Collection[str] = (),
) -> list[MentionInContext]:
    """The spans of a doc in its text (``text_of``), in which acronyms may be replaced by long forms.

    Nothing can be replaced in a text that another component has read: an acronym is read there where
    its long form stands. ``document`` is the context of the doc; None is a new one, without states.
    """
    document = document or DocumentContext()
    text = text_of(doc, known)
    acronyms = long_forms(doc, text.text) if resolve_abbreviations and spans else {}
    read = expanded if document.states is None else at_long_forms
    mentions = read(text.text, plain_offsets(spans, text), acronyms, document)
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
    """Whether words, or without a plural's "s", are a name of an entity that is wanted.

    ``is_wanted`` is bool [entities] or [entities, labels], by the numbers of the KB's entities.
    """

    def __init__(self, kb: KnowledgeBase, is_wanted: np.ndarray):
        super().__init__()
        self.kb, self.is_wanted = kb, is_wanted

    def __missing__(self, words: str) -> bool:
        if len(self) > _REMEMBERED:
            self.clear()
        found = (self.kb.numbers_named(form) for form in {words, words.removesuffix("s")})
        # If the KB was refreshed meanwhile, it has entities that are not known here.
        known = (numbers[numbers < len(self.is_wanted)] for numbers in found)
        self[words] = is_name = any(self.is_wanted[numbers].any() for numbers in known)
        return is_name  # another thread may have cleared the words


def with_parts(doc: Doc, text: PlainText, spans: Iterable[Span], names: NameTest) -> list[Span]:
    """The spans of a doc, but those that share words (``coordinated``) in parts.

    Each part has ``read_as``: all its words.
    """
    spans, parts = list(spans), []
    places = plain_offsets(spans, text)
    for number, (span, place) in enumerate(zip(spans, places)):
        found = coordinated(text.text, *place, names.__getitem__)
        # None takes words from another mention that has more.
        if any(
            start < other[1] and other[0] < end and not start <= other[0] < other[1] <= end
            for other in [*places[:number], *places[number + 1 :]]
            for start, end, _ in found
        ):
            continue
        for start, end, words in found:
            part = span_of(doc, text, start, end, span.label)
            if plain(part.text) != words:
                part._.read_as = words
            parts.append(part)
    parts = filter_spans(parts)
    taken = {number for part in parts for number in range(part.start, part.end)}
    others = [span for span in spans if taken.isdisjoint(range(span.start, span.end))]
    return sorted([*parts, *others])


def long_forms(doc: Doc, text: str) -> Mapping[str, str]:
    """From the acronyms that a doc, whose plain text is given, defines to their long forms.

    They are those that scispaCy's AbbreviationDetector has found, if it is in the pipeline and has
    found any. Otherwise they are those of ``defined_abbreviations``.
    """
    if not Doc.has_extension("abbreviations") or not doc._.abbreviations:
        return defined_abbreviations(text)
    found = {}
    for each in reversed(doc._.abbreviations):  # of several, the first
        if isinstance(each, dict):  # of make_serializable
            found[plain(each["short_text"])] = plain(each["long_text"])
        else:
            found[plain(each.text)] = plain(str(each._.long_form))
    return found


def search_filters(
    mentions: Sequence[MentionInContext],
    labels: Sequence[str],
    types: Sequence[str] | None,
    sources: Sequence[str] | None,
    label_types: Mapping[str, Sequence[str]] | None,
) -> list[SearchFilter | None] | None:
    """What the search for each mention is confined to; None: nothing. None alone if no mention is."""
    for_all = SearchFilter(tuple(types or ()), tuple(sources or ()))
    of_label = {
        label: for_all._replace(types=tuple(own)) for label, own in (label_types or {}).items()
    }
    found = [
        of_label.get(label, for_all) if mention.surface.strip() else _NOTHING
        for mention, label in zip(mentions, labels)
    ]
    return [each if any(each) else None for each in found] if any(map(any, found)) else None


# Gold mentions, which training learns from


def trainable_mentions(
    examples: Iterable[Example],
    kb: KnowledgeBase,
    spans_key: str | None,
    resolve_abbreviations: bool = False,
    documents: Iterable[DocumentContext] | None = None,
) -> list[GoldMention]:
    """The gold mentions of examples that have an entity in the KB.

    ``documents`` are the contexts of the predicted docs, if another component has read them.
    """
    mentions = []
    for example, document in zip(examples, documents or repeat(None)):
        spans = mention_spans(example.reference, spans_key)
        text = example.reference.text
        how = document, resolve_abbreviations, kb.acronyms
        contexts = mentions_in_context(example.reference, spans, *how)
        for span, context in zip(spans, contexts):
            if golds := _numbers(kb, span):
                mentions.append(GoldMention(context, golds, text))
    return mentions


def gold_numbers(examples: Iterable[Example], kb: KnowledgeBase, spans_key: str | None) -> set[int]:
    """The numbers of the gold entities of the examples that the KB has."""
    spans = (span for e in examples for span in mention_spans(e.reference, spans_key))
    return {number for span in spans for number in _numbers(kb, span)}


def _numbers(kb: KnowledgeBase, span: Span) -> tuple[int, ...]:
    """The numbers of the gold entities of a mention that the KB has."""
    numbers = map(kb.number, gold_ids(span))
    return tuple(dict.fromkeys(number for number in numbers if number is not None))
