"""The pipeline component ``kb_matcher``: marks the names of a knowledge base as mentions."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc, Span
from spacy.util import filter_spans, minibatch

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..kb.name_finder import NameFinder, NameMatches
from ..kb.pieces import Pieces
from ..kb.records.entity import Entity
from ..linking.ordering import is_acronym, unambiguous_owner
from ..spans import add_ents
from ..text.abbreviations import WithLongForms
from .doc_mentions import (
    CACHE_SIZE,
    NameTest,
    long_forms,
    plain_offsets,
    span_of,
    text_of,
    with_parts,
)
from .kb_component import KBComponent

ANY = "ENTITY"  # the default label
_MIN_ARTICLE = 1000  # words and punctuation marks


class KBMatcher(KBComponent, Pipe):
    """Marks the names of a KB's entities as mentions, for pipelines without a trained "ner".

    It finds names, and ``proxy_linker`` chooses their entities. A name of one entity alone gets its id at
    once (``linking.ordering.unambiguous_owner``). A name begins and ends at the edge of a token. In "palmar
    and plantar pits" both names are marked (``text.coordination``). Of overlapping names, only one is
    marked (``kb.name_finder.NameFinder``).

    Args:
        nlp: The pipeline.
        name: The component's name in the pipeline.
        kb: The folder of the knowledge base.
        types: The types of the entities whose names are marked, with the types below them; None: all
            entities.
        label: The label of the mentions. None: the first type of the entity that alone has the name, or
            "ENTITY".
        spans_key: Mentions are written to ``doc.spans[spans_key]``; None: to ``doc.ents``.
        nested: Also mark names inside another name, as "colitis" in "ulcerative colitis", if their entity
            is an ancestor of the entity of the longer name. This needs a ``spans_key``, because entities
            cannot overlap.
        min_length: The minimum number of characters of a name, except of acronyms.
        stop_words: Names that are not marked, such as "role" or "lead", in any case; None: the stop words
            of the language. Acronyms are still marked.
    """

    factory = "kb_matcher"

    def __init__(
        self,
        nlp: Language,
        name: str = "kb_matcher",
        *,
        kb: str | None,
        types: list[str] | None,
        label: str | None,
        spans_key: str | None,
        nested: bool,
        min_length: int,
        stop_words: list[str] | None,
    ):
        if nested and not spans_key:
            raise PelError(f'"{name}" marks nested names only in doc.spans', 'set a "spans_key"')
        self.vocab = nlp.vocab
        self.name = name
        self.types = types
        self.label = label
        self.spans_key = spans_key
        self.nested = nested
        self.min_length = min_length
        self.stop_words = list(nlp.Defaults.stop_words if stop_words is None else stop_words)
        self.refer_to_kb(kb)

    def read_names(
        self,
        progress: Callable[[Iterable[Entity]], Iterable[Entity]] = iter,
        kb: KnowledgeBase | None = None,
    ) -> tuple[NameFinder, NameTest, dict[str, Entity | None]]:
        """Open the names of the KB at the first call; otherwise the first doc does it.

        The names are in a file in the KB's folder. If it is missing, it is made: for the 280,000 names of
        MeSH, 6 MB in 3 s.

        Args:
            progress: Wraps the entities whose names are read.
            kb: A snapshot of the KB; None: its current state.

        Returns:
            The finder of names, the test of names, and a cache of the owners of names.

        Raises:
            PelError: There is no KB, or it lacks one of the types.
        """

        def make(kb: KnowledgeBase) -> tuple[NameFinder, NameTest, dict[str, Entity | None]]:
            numbers = kb.numbers()
            entities = None if self.types is None else kb.of_types(*self.types)
            is_wanted = np.zeros(numbers.max(initial=-1) + 1, dtype=bool)
            is_wanted[numbers if entities is None else entities] = True
            choice = {"min_length": self.min_length, "stop_words": self.stop_words}
            finder = kb.name_finder(progress, entities=entities, **choice)
            return finder, NameTest(kb, is_wanted), {}

        return self.cached_for_kb(kb or self.kb.snapshot(), make)

    def __call__(self, doc: Doc) -> Doc:
        """Mark the names in a doc, with the ids of unambiguous names.

        With ``spans_key`` they replace the spans in ``doc.spans[spans_key]``. Otherwise they are added to
        ``doc.ents``, except for names that overlap an entity there.

        Raises:
            PelError: See ``read_names``.
        """
        self._mark([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Mark the names in a stream of docs in batches; see ``__call__``."""
        for docs in minibatch(stream, batch_size):
            try:
                self._mark(docs)
            except Exception as error:
                self.get_error_handler()(self.name, self, docs, error)
            else:
                yield from docs

    def _mark(self, docs: Sequence[Doc]) -> None:
        names = self.read_kb(lambda kb: self._names(docs, kb))
        for doc, spans in zip(docs, names):
            if self.spans_key:
                doc.spans[self.spans_key] = spans
            else:
                add_ents(doc, spans)

    def _names(self, docs: Sequence[Doc], kb: KnowledgeBase) -> list[list[Span]]:
        """Return the names in each doc."""
        texts = [text_of(doc, kb.acronyms) for doc in docs]
        stays = partial(_is_name_of_kb, kb)
        read = [
            WithLongForms(text.text, long_forms(doc, text.text), stays)
            for doc, text in zip(docs, texts)
        ]
        pieces = Pieces([text.text for text in read])
        finder, names, owners = self.read_names(kb=kb)
        matches = finder.find_in(pieces, self.nested)
        first, last, _ = NameMatches(
            *(x[_is_meant(matches, finder, pieces, read)] for x in matches)
        )
        bounds = pieces.texts[first].searchsorted(np.arange(len(docs) + 1))
        all_spans: list[list[Span]] = [[] for _ in docs]
        for number, (begin, stop) in enumerate(pairwise(bounds.tolist())):
            starts, ends = pieces.starts[first[begin:stop]], pieces.ends[last[begin:stop]]
            places = (*read[number].given(starts, ends), starts, ends)
            for start, end, is_whole, is_short, *long in zip(*(x.tolist() for x in places)):
                if not is_whole:
                    continue
                span = span_of(docs[number], texts[number], start, end)
                # A name ends with a token, except at a hyphen that is not ASCII (``span_of``).
                if span.text.isascii() and plain_offsets([span], texts[number]) != [(start, end)]:
                    continue
                if span.text in read[number].kept:
                    span._.read_as = span.text
                if is_short:
                    span._.read_as = read[number].text[slice(*long)]
                all_spans[number].append(span)
        for number, (doc, text) in enumerate(zip(docs, texts)):
            spans = all_spans[number] if self.nested else filter_spans(all_spans[number])
            spans = with_parts(doc, text, spans, names)
            spans = [self._with_owner(span, names.kb, owners) for span in spans]
            all_spans[number] = list(_without_unrelated(spans, names.kb)) if self.nested else spans
        return all_spans

    def _with_owner(self, span: Span, kb: KnowledgeBase, owners: dict[str, Entity | None]) -> Span:
        """Return the span with its label and, for an unambiguous name, its id."""
        words = span._.read_as or span.text
        try:
            owner = owners[words]
        except KeyError:  # not "in": another thread may clear the cache
            if len(owners) >= CACHE_SIZE:
                owners.clear()
            number = unambiguous_owner(kb, words)
            owners[words] = owner = None if number is None else kb.entities([number])[0]
        label = self.label or (owner.types[0] if owner and owner.types else ANY)
        id = owner.concept_id if owner else ""
        return Span(span.doc, span.start, span.end, label=label, kb_id=id)


def _is_meant(
    matches: NameMatches, finder: NameFinder, pieces: Pieces, texts: Sequence[WithLongForms]
) -> np.ndarray:
    """Return which names are meant, bool [n]: all but those that an article leaves unexplained.

    An article defines its acronyms, or mentions their entity by another name. Acronyms that are the canonical
    name of an entity, such as "DNA", need no explanation, and notes give none. Ordinary words, such as
    "reduced", name a reaction if the article also has "reduction reaction".
    """
    is_meant = np.ones(len(matches.first), bool)
    starts, ends = pieces.starts[matches.first], pieces.ends[matches.last]
    bounds = pieces.texts[matches.first].searchsorted(np.arange(len(texts) + 1))
    for text, size, (begin, stop) in zip(texts, np.diff(pieces.first).tolist(), pairwise(bounds)):
        if size < _MIN_ARTICLE:
            continue
        doubtful, explained = [], set[int]()
        for place in range(begin, stop):
            words, name = text.text[starts[place] : ends[place]], int(matches.names[place])
            is_unexplained = is_acronym(words) and words not in text.kept
            if finder.ordinary[name] or is_unexplained and not finder.is_canonical(name):
                doubtful.append((place, name))
            else:
                explained.update(finder.owners_of(name).tolist())
        for place, name in doubtful:
            is_meant[place] = not explained.isdisjoint(finder.owners_of(name).tolist())
    return is_meant


def _is_name_of_kb(kb: KnowledgeBase, short: str, long: str) -> bool:
    """Tell whether an abbreviation is a name of the KB, and its long form another wording of this name.

    The KB has siRNA as "small interfering RNA", and the text as "short interfering RNA".
    """
    numbers = kb.numbers_named(short)
    if not len(numbers) or len(kb.numbers_named(long)):
        return False
    last = long.casefold().split()[-1]
    names = (name for entity in kb.entities(numbers) for name in entity.names)
    return any(name.casefold().split()[-1] == last for name in names)


def _without_unrelated(spans: Sequence[Span], kb: KnowledgeBase) -> Iterator[Span]:
    """Yield the spans from left to right, without inner spans whose entity is no ancestor of the outer one's.

    Curators mark the colitis in "ulcerative colitis", but no nevus in "basal cell nevus", a carcinoma.
    """
    open_spans: list[Span] = []
    for span in spans:
        open_spans = [other for other in open_spans if other.end > span.start]
        if all(_is_above(span, other, kb) for other in open_spans if other.end >= span.end):
            yield span
        open_spans.append(span)


def _is_above(span: Span, other: Span, kb: KnowledgeBase) -> bool:
    """Tell whether the entity of a span is that of another one or its ancestor; true if unknown."""
    reached = [other.kb_id_]
    for id in reached:
        parents = kb[id].parents if id in kb else ()
        reached += [parent for parent in parents if parent not in reached]
    return span.kb_id_ in reached or not span.kb_id_ or len(reached) == 1


make_kb_matcher = Language.factory(
    "kb_matcher",
    func=KBMatcher,
    assigns=["doc.ents", "token.ent_kb_id"],
    default_config={
        "kb": None,
        "types": None,
        "label": ANY,
        "spans_key": None,
        "nested": False,
        "min_length": 3,
        "stop_words": None,
    },
)
