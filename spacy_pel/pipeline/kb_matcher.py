"""The pipeline component ``kb_matcher``: marks the names of a knowledge base as mentions."""

import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc, Span
from spacy.util import filter_spans
from spacy.vocab import Vocab

from ..kb.records.entity import Entity
from ..linking.exact_names import sole_owner
from .kb_names import KBNames
from .kb_reference import KB_REFERENCE, KBReference
from .saving import SavedFile, SavedPipe
from .settings import attribute_of

logger = logging.getLogger(__name__)

# The label of mentions of which nothing is said.
ANY = "ENTITY"
_ENTITIES_AT_ONCE = 10_000
_REMEMBERED = 10_000  # names whose owner is kept


class KBMatcher(SavedPipe, Pipe):
    """Marks the names of a KB's entities as mentions, for pipelines without a trained "ner".

    It says where a name is, and ``proxy_linker`` says which entity is meant: "MS" is marked once. A
    name that only one entity has gets its id at once (``linking.exact_names.sole_owner``). A name
    begins and ends at the edge of a token. If names overlap, only the longest is marked.

    Args:
        vocab: The pipeline's vocabulary.
        name: The component's name in the pipeline.
        kb: The folder of the knowledge base.
        types: The types of the entities whose names are marked, the types below them included;
            None: all entities.
        label: The label of the mentions. None: the first type of the entity that alone has the name,
            or else ``ANY``.
        spans_key: Mentions are written to ``doc.spans[spans_key]``; None: to ``doc.ents``.
        min_length: Shorter names, in characters, are not marked. Acronyms may be shorter.
        stop_words: Names that are not marked, ignoring case. Acronyms are marked even so.
    """

    factory = "kb_matcher"

    def __init__(
        self,
        vocab: Vocab,
        name: str = "kb_matcher",
        *,
        kb: str | None,
        types: list[str] | None,
        label: str | None,
        spans_key: str | None,
        min_length: int,
        stop_words: list[str],
    ):
        """Construct the component; opens nothing."""
        self.vocab = vocab
        self.name = name
        self.types = types
        self.label = label
        self.spans_key = spans_key
        self.min_length = min_length
        self.stop_words = frozenset(word.casefold() for word in stop_words)
        self.kb_reference = KBReference(name, self.factory, kb)
        self._names: KBNames | None = None
        self._names_of: dict[str, Any] | None = None  # the KB's manifest
        self._owners: dict[str, Entity | None] = {}  # of the names that were found last

    kb = attribute_of("kb_reference", "kb")

    def set_kb(self, path: str | os.PathLike) -> None:
        """Use another knowledge base from now on.

        Args:
            path: Its folder.

        Raises:
            PelError: There is no knowledge base in it.
        """
        self.kb_reference.set(path)

    def read_names(
        self, progress: Callable[[Iterable[Entity]], Iterable[Entity]] = iter
    ) -> KBNames:
        """Read the names from the KB at the first call. Without a call, the first doc makes it.

        For the 280,000 names of MeSH this takes 6 s, and 0.5 GB of memory while it runs. The names
        then take 83 MB. Time and memory grow in proportion to the names: for UMLS, which has 6
        million, set ``types``. Processes that are forked later share the names. The names are not
        saved with the pipeline: reading them is quick, and so they are never out of date.

        Args:
            progress: Wraps the entities that are read, to show progress.

        Returns:
            The names.

        Raises:
            PelError: There is no KB, or it lacks one of the types.
        """
        if self._names is None or self._names_of is not self.kb.settings:
            start = time.perf_counter()
            names = (name for entity in progress(self._entities()) for name in entity.names)
            self._names = KBNames(names, min_length=self.min_length, stop_words=self.stop_words)
            self._names_of = self.kb.settings  # another one after kb.refresh()
            self._owners = {}
            logger.info(
                "%s: names of %s read in %.1f s",
                self.name,
                self.kb.path,
                time.perf_counter() - start,
            )
        return self._names

    def __call__(self, doc: Doc) -> Doc:
        """Mark the names in a doc, with the ids of entities that alone have them.

        With ``spans_key`` they replace the spans in ``doc.spans[spans_key]``. Without it they are
        added to ``doc.ents``, except for names that overlap with an entity there.

        Args:
            doc: Any doc.

        Returns:
            The same doc.

        Raises:
            PelError: See ``read_names``.
        """
        bounds = self.read_names().found(doc.text)
        spans = [doc.char_span(start, end) for start, end in bounds]
        longest = filter_spans([span for span in spans if span is not None])
        found = [self._with_owner(span) for span in longest]
        if self.spans_key:
            doc.spans[self.spans_key] = found
        else:
            taken = {token.i for ent in doc.ents for token in ent}
            new = [span for span in found if taken.isdisjoint(range(span.start, span.end))]
            doc.ents = [*doc.ents, *new]
        return doc

    def _with_owner(self, span: Span) -> Span:
        """The span with its label, and the id of the entity that alone has its name."""
        if span.text not in self._owners:
            if len(self._owners) >= _REMEMBERED:
                self._owners.clear()
            number = sole_owner(self.kb, span.text)
            self._owners[span.text] = None if number is None else self.kb.entities([number])[0]
        owner = self._owners[span.text]
        label = self.label or (owner.types[0] if owner and owner.types else ANY)
        id = owner.concept_id if owner else ""
        return Span(span.doc, span.start, span.end, label=label, kb_id=id)

    def _entities(self) -> Iterator[Entity]:
        if self.types is None:
            yield from self.kb
            return
        numbers = self.kb.of_types(*self.types)
        for start in range(0, len(numbers), _ENTITIES_AT_ONCE):
            yield from self.kb.entities(numbers[start : start + _ENTITIES_AT_ONCE])

    def saved_files(self) -> dict[str, SavedFile]:
        """Where the KB is. Everything else is in the pipeline's config."""
        return {KB_REFERENCE: self.kb_reference.saved_file()}


@Language.factory(
    "kb_matcher",
    assigns=["doc.ents", "token.ent_kb_id"],
    default_config={
        "kb": None,
        "types": None,
        "label": ANY,
        "spans_key": None,
        "min_length": 3,
        "stop_words": None,
    },
)
def make_kb_matcher(
    nlp: Language,
    name: str,
    kb: str | None,
    types: list[str] | None,
    label: str | None,
    spans_key: str | None,
    min_length: int,
    stop_words: list[str] | None,
) -> KBMatcher:
    """Construct the component.

    Args:
        nlp: The pipeline.
        name: The component's name in the pipeline.
        kb: The folder of the knowledge base.
        types: The types of the entities whose names are marked, the types below them included;
            None: all entities.
        label: The label of the mentions. None: the first type of the entity that alone has the name,
            or else "ENTITY".
        spans_key: Mentions are written to ``doc.spans[spans_key]``; None: to ``doc.ents``.
        min_length: Shorter names, in characters, are not marked. Acronyms may be shorter.
        stop_words: Names that are not marked, such as "role" or "lead"; None: the stop words of the
            language. Acronyms are marked.
    """
    return KBMatcher(
        nlp.vocab,
        name,
        kb=kb,
        types=types,
        label=label,
        spans_key=spans_key,
        min_length=min_length,
        stop_words=list(nlp.Defaults.stop_words if stop_words is None else stop_words),
    )
