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
from ..kb.name_finder import NameFinder
from ..kb.pieces import Pieces
from ..kb.records.entity import Entity
from ..kb.records.plain_text import PlainText
from ..linking.ordering import unambiguous_owner
from ..spans import add_ents
from ..text.abbreviations import WithLongForms
from .doc_mentions import NameTest, span_of, with_parts
from .kb_component import KBComponent

# The label of mentions of which nothing is said.
ANY = "ENTITY"
_REMEMBERED = 10_000  # names whose owner is kept


class KBMatcher(KBComponent, Pipe):
    """Marks the names of a KB's entities as mentions, for pipelines without a trained "ner".

    It says where a name is, and ``proxy_linker`` says which entity is meant: "MS" is marked once. A
    name that only one entity has gets its id at once (``linking.ordering.unambiguous_owner``). A name
    begins and ends at the edge of a token. Of "palmar and plantar pits" both names are marked
    (``text.coordination``). If names overlap, only one is marked; see
    ``kb.name_finder.NameFinder``, which also says what a name is. It is its own factory, and opens
    nothing yet.

    Args:
        nlp: The pipeline.
        name: The component's name in the pipeline.
        kb: The folder of the knowledge base.
        types: The types of the entities whose names are marked, the types below them included;
            None: all entities.
        label: The label of the mentions. None: the first type of the entity that alone has the name,
            or else "ENTITY".
        spans_key: Mentions are written to ``doc.spans[spans_key]``; None: to ``doc.ents``.
        nested: Whether names that begin inside another name are marked too, as "colitis" in "ulcerative
            colitis", if their entity is above that of the longer one. It needs a ``spans_key``, because
            entities do not overlap.
        min_length: Shorter names, in characters, are not marked. Acronyms may be shorter.
        stop_words: Names that are not marked, such as "role" or "lead", ignoring case; None: the
            stop words of the language. Acronyms are marked even so.
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
            raise PelError(f'"{name}" marks nested names in doc.spans alone', 'set a "spans_key"')
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
        """Open the names of the KB at the first call. Without a call, the first doc does it.

        The names are in a file in the KB's folder, which is made if it is not there: in 3 s for the
        280,000 names of MeSH, for which it has 6 MB. Then it is only mapped. ``progress`` wraps the
        entities whose names are read. ``kb`` is a snapshot of the KB; None: as it is now.

        Raises:
            PelError: There is no KB, or it lacks one of the types.

        Returns:
            What finds the names, what is one, and the owners of those found last.
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
        """Mark the names in a doc, with the ids of entities that alone have them.

        With ``spans_key`` they replace the spans in ``doc.spans[spans_key]``. Without it they are
        added to ``doc.ents``, except for names that overlap with an entity there.

        Raises:
            PelError: See ``read_names``.
        """
        self._mark([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Mark the names in a stream of docs, a batch at a time; see ``__call__``."""
        for docs in minibatch(stream, batch_size):
            try:
                self._mark(docs)
            except Exception as error:
                self.get_error_handler()(self.name, self, docs, error)
            else:
                yield from docs

    def _mark(self, docs: Sequence[Doc]) -> None:
        found = self.read_kb(lambda kb: self._found(docs, kb))
        for doc, spans in zip(docs, found):
            if self.spans_key:
                doc.spans[self.spans_key] = spans
            else:
                add_ents(doc, spans)

    def _found(self, docs: Sequence[Doc], kb: KnowledgeBase) -> list[list[Span]]:
        """The names in each doc."""
        texts = [PlainText(doc.text) for doc in docs]
        read = [WithLongForms(text.text, partial(_is_name_of_kb, kb)) for text in texts]
        pieces = Pieces([text.text for text in read])
        finder, names, owners = self.read_names(kb=kb)
        first, last, _ = finder.find_in(pieces, self.nested)
        bounds = pieces.texts[first].searchsorted(np.arange(len(docs) + 1))
        found: list[list[Span]] = [[] for _ in docs]
        for text, (begin, stop) in enumerate(pairwise(bounds.tolist())):
            starts, ends = pieces.starts[first[begin:stop]], pieces.ends[last[begin:stop]]
            places = (*read[text].given(starts, ends), starts, ends)
            for start, end, is_whole, is_short, *long in zip(*(x.tolist() for x in places)):
                span = (
                    span_of(docs[text], texts[text], start, end, whole=True) if is_whole else None
                )
                if span is not None:
                    if span.text in read[text].kept:
                        span._.read_as = span.text
                    if is_short:
                        span._.read_as = read[text].text[slice(*long)]
                    found[text].append(span)
        for number, (doc, text) in enumerate(zip(docs, texts)):
            spans = found[number] if self.nested else filter_spans(found[number])
            spans = with_parts(doc, text, spans, names)
            spans = [self._with_owner(span, names.kb, owners) for span in spans]
            found[number] = list(_without_others(spans, names.kb)) if self.nested else spans
        return found

    def _with_owner(self, span: Span, kb: KnowledgeBase, owners: dict[str, Entity | None]) -> Span:
        """The span with its label, and the id of the entity that alone has its name."""
        words = span._.read_as or span.text
        try:
            owner = owners[words]
        except KeyError:  # asked so, because another thread may clear them
            if len(owners) >= _REMEMBERED:
                owners.clear()
            number = unambiguous_owner(kb, words)
            owners[words] = owner = None if number is None else kb.entities([number])[0]
        label = self.label or (owner.types[0] if owner and owner.types else ANY)
        id = owner.concept_id if owner else ""
        return Span(span.doc, span.start, span.end, label=label, kb_id=id)


def _is_name_of_kb(kb: KnowledgeBase, short: str, long: str) -> bool:
    """Whether an abbreviation is a name of the KB, and its long form another wording of this name.

    The KB has siRNA as "small interfering RNA", and the text as "short interfering RNA".
    """
    numbers = kb.numbers_named(short)
    if not len(numbers) or len(kb.numbers_named(long)):
        return False
    last = long.casefold().split()[-1]
    names = (name for entity in kb.entities(numbers) for name in entity.names)
    return any(name.casefold().split()[-1] == last for name in names)


def _without_others(spans: Sequence[Span], kb: KnowledgeBase) -> Iterator[Span]:
    """The spans, from the left, but those inside one whose entity is not below theirs.

    Curators mark the colitis in "ulcerative colitis", but no nevus in "basal cell nevus", a carcinoma.
    """
    begun: list[Span] = []
    for span in spans:
        begun = [other for other in begun if other.end > span.start]
        if all(_is_above(span, other, kb) for other in begun if other.end >= span.end):
            yield span
        begun.append(span)


def _is_above(span: Span, other: Span, kb: KnowledgeBase) -> bool:
    """Whether its entity is above the other's, or the same. It is if the KB cannot tell."""
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
