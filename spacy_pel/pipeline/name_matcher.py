"""The pipeline component ``kb_matcher``: finds the names of a knowledge base, to be linked."""

import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Dict, List, Optional

import spacy.util
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc
from spacy.util import filter_spans
from spacy.vocab import Vocab

from ..errors import PelError
from ..kb.entity import Entity
from ..kb.knowledge_base import KnowledgeBase
from .kb_names import KBNames
from .kb_reference import KB_REFERENCE, found_kb, kb_reference

logger = logging.getLogger(__name__)

_ENTITIES_AT_ONCE = 10_000


class KBMatcher(Pipe):
    """Marks the names of a KB's entities as mentions, for pipelines without a trained "ner".

    It says where names are, not whose: "MS" is marked once, for ``proxy_linker`` to link. A name is
    found at the edges of tokens alone; of names that overlap, the longest is marked.
    """

    def __init__(
        self,
        vocab: Vocab,
        name: str = "kb_matcher",
        *,
        kb: Optional[str],
        types: Optional[List[str]],
        label: str,
        spans_key: Optional[str],
        min_length: int,
        stop_words: List[str],
    ):
        """Construct the component; opens nothing. The arguments are those of the factory."""
        self.vocab = vocab
        self.name = name
        self.types = types
        self.label = label
        self.spans_key = spans_key
        self.min_length = min_length
        self.stop_words = frozenset(word.casefold() for word in stop_words)
        self._configured_kb = self._kb_path = kb
        self._kb: Optional[KnowledgeBase] = None
        self._names: Optional[KBNames] = None

    @property
    def kb(self) -> KnowledgeBase:
        """The knowledge base. Raises PelError, with the remedy, if there is none."""
        if self._kb is None:
            if self._kb_path is None:
                raise PelError(
                    f'"{self.name}" has no knowledge base; give its folder: '
                    'nlp.add_pipe("kb_matcher", config={"kb": "KB"})'
                )
            self._kb = KnowledgeBase.open(self._kb_path)
        return self._kb

    def set_kb(self, path: os.PathLike) -> None:
        """Find the names of the knowledge base in this folder from now on.

        Raises PelError if there is no knowledge base in it.
        """
        self._kb = KnowledgeBase.open(path)
        self._kb_path = str(path)
        self._names = None

    def read_names(
        self, progress: Callable[[Iterable[Entity]], Iterable[Entity]] = iter
    ) -> KBNames:
        """The names, read from the KB at the first call, which the first doc makes otherwise.

        It takes 6 s and 83 MB for the 280,000 names of MeSH, 0.5 GB meanwhile, and in proportion
        for more: for UMLS with its 6 million, set types. Processes that are forked after it share
        them. They are not stored: to read them anew is quick, and never out of date.
        progress: wraps the entities. Raises PelError if there is no KB, or it lacks a type.
        """
        if self._names is None:
            start = time.perf_counter()
            names = (name for entity in progress(self._entities()) for name in entity.names)
            self._names = KBNames(names, min_length=self.min_length, stop_words=self.stop_words)
            logger.info(
                "%s: names of %s read in %.1f s",
                self.name,
                self.kb.path,
                time.perf_counter() - start,
            )
        return self._names

    def __call__(self, doc: Doc) -> Doc:
        """Mark the names in a doc: in ``doc.spans[spans_key]``, or, beside those that are there
        and do not overlap, in ``doc.ents``."""
        bounds = self.read_names().found(doc.text)
        spans = [doc.char_span(start, end, label=self.label) for start, end in bounds]
        found = filter_spans([span for span in spans if span is not None])
        if self.spans_key:
            doc.spans[self.spans_key] = found
        else:
            taken = {token.i for ent in doc.ents for token in ent}
            new = [span for span in found if taken.isdisjoint(range(span.start, span.end))]
            doc.ents = [*doc.ents, *new]
        return doc

    def _entities(self) -> Iterator[Entity]:
        if self.types is None:
            yield from self.kb
            return
        numbers = self.kb.of_types(*self.types)
        for start in range(0, len(numbers), _ENTITIES_AT_ONCE):
            yield from self.kb.entities(numbers[start : start + _ENTITIES_AT_ONCE])

    # Saving and loading: where the KB is. All else is in the pipeline's config.

    def to_disk(self, path: os.PathLike, *, exclude: Iterable[str] = tuple()) -> None:
        """Save where the KB is; it stays there."""
        serialize: Dict[str, Callable] = {
            KB_REFERENCE: lambda p: p.write_text(
                json.dumps(kb_reference(self._kb_path, self._configured_kb, p)), "utf8"
            )
        }
        spacy.util.to_disk(Path(path), serialize, exclude)

    def from_disk(self, path: os.PathLike, *, exclude: Iterable[str] = tuple()) -> "KBMatcher":
        """Load what ``to_disk`` saved."""
        deserialize: Dict[str, Callable] = {
            KB_REFERENCE: lambda p: self._set_kb_reference(json.loads(p.read_text("utf8")), p)
        }
        spacy.util.from_disk(Path(path), deserialize, exclude)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = tuple()) -> bytes:
        """The KB's path, as bytes."""
        reference = kb_reference(self._kb_path, self._configured_kb)
        return spacy.util.to_bytes({KB_REFERENCE: json.dumps(reference).encode}, exclude)

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = tuple()) -> "KBMatcher":
        """Load what ``to_bytes`` gave."""
        deserialize: Dict[str, Callable] = {
            KB_REFERENCE: lambda b: self._set_kb_reference(json.loads(b), None)
        }
        spacy.util.from_bytes(data, deserialize, exclude)
        return self

    def _set_kb_reference(self, reference: Dict[str, Any], file: Optional[Path]) -> None:
        """Use the KB that was saved, but for one that the config names and did not then."""
        if self._configured_kb not in (None, reference["configured"]):
            return
        self._configured_kb = reference["configured"]
        path = found_kb(reference, file)
        if path is not None:
            self._kb_path, self._kb, self._names = path, None, None


@Language.factory(
    "kb_matcher",
    assigns=["doc.ents"],
    default_config={
        "kb": None,
        "types": None,
        "label": "ENTITY",
        "spans_key": None,
        "min_length": 3,
        "stop_words": None,
    },
)
def make_kb_matcher(
    nlp: Language,
    name: str,
    kb: Optional[str],
    types: Optional[List[str]],
    label: str,
    spans_key: Optional[str],
    min_length: int,
    stop_words: Optional[List[str]],
) -> KBMatcher:
    """Construct the component.

    kb: the folder of the knowledge base. types: of the entities whose names are found, with all
        below them; null: of all.
    label: of the mentions. spans_key: where they go: doc.ents (null), or doc.spans[spans_key].
    min_length: characters of the shortest name. stop_words: names that are not looked for, such as
        "role" or "lead"; null: the stop words of the language. Neither is for acronyms.
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
