"""Docs run through a pipeline, as ``pel link`` and ``pel serve`` do it, in bounded memory.

What spaCy's models compute for a document is in memory for all of its tokens at once, and for all
documents of a batch: 2.6 GB for a million characters. So few are read together, and a long one in
parts.
"""

from __future__ import annotations

import ctypes
import re
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from spacy.language import Language
from spacy.tokens import Doc
from spacy.tokens.underscore import Underscore
from spacy.util import import_file

from ..corpora.doc_conversion import gives_mentions, linked_document, write_attributes
from ..errors import PelError
from ..pipeline.pipelines import (
    linker_of,
    load_pipeline,
    other_linkers,
    read_by_upstream,
    upstream_of,
    use_gpu,
)
from .document_blocks import OnError

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker

T = TypeVar("T")

# Characters of the documents that are read together, or of one that alone has more.
TOGETHER = 256_000
# A longer document is read in parts of at most so many characters.
LONGEST = 100_000
# Where a document is parted, in order of choice: behind a line, behind a sentence, behind a blank.
_ENDS = (re.compile(r"\n(?=\S)"), re.compile(r"[.!?]\s(?=\S)"), re.compile(r"\s(?=\S)"))
_LOOKED_BACK = 5_000  # characters in which such a place is looked for


@dataclass(frozen=True)
class Linking:
    """A pipeline, and how docs are run through it.

    One that is named is loaded when it is first needed; until then, and for other processes, this is
    plain data. PelError if it cannot be loaded or has no such linker, or the KB does not fit it or has
    no codes of one of the vocabularies.
    """

    pipeline: str | Language  # a loaded one, or its folder or name
    component: str = "proxy_linker"  # the name of the linker in the pipeline
    # What takes the place of the linker's own; None: nothing does.
    kb: Path | None = None  # the folder of a KB
    spans_key: str | None = None
    candidates: int | None = None  # the number that is written for each mention
    xrefs: tuple[str, ...] = ()  # the vocabularies whose codes are written
    attributes: tuple[str, ...] = ()  # the extension attributes of mentions that are written too
    batch_size: int = 128  # the most docs that are linked together; fewer long ones are
    # Of files:
    n_process: int = 1
    on_error: OnError = OnError.stop  # what happens at a bad document
    jointly: bool = False  # whether all mentions are linked together (``joint_linking``)
    keep_ids: bool = False  # whether mentions keep the ids that they have; those without are NIL
    code: Path | None = None  # a Python file that is run before the pipeline is loaded
    gpu_id: int = -1  # the GPU that is used; -1: the processor
    reading: Callable[[Iterable], Iterable] = iter  # the progress of ``read_matcher_names``

    def __post_init__(self) -> None:
        if isinstance(self.pipeline, Language):
            self.nlp  # raises the error here, not in a worker

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "nlp"}

    @cached_property
    def nlp(self) -> Language:
        """The pipeline, loaded, with these settings."""
        given = self.pipeline
        if self.code:
            _run_code(self.code)
        use_gpu(self.gpu_id)
        nlp = given if isinstance(given, Language) else load_pipeline(given)
        read_matcher_names(nlp, self.reading)
        linker = linker_of(nlp, self.component, kb=self.kb, spans_key=self.spans_key)
        linker.check_kb()
        if self.candidates is not None:
            linker.search.candidates = self.candidates
        if self.xrefs:
            linker.kb.check_vocabularies(self.xrefs)
            linker.output.xrefs = list(self.xrefs)
        _check_attributes(self.attributes)
        return nlp

    @property
    def linker(self) -> ProxyLinker:
        """The linker of the pipeline."""
        return linker_of(self.nlp, self.component)

    def docs(self, docs: Iterable[Doc]) -> Iterator[Doc]:
        """The docs, linked, in their order, with the attributes that are asked for.

        If a doc has mentions already, only the linker runs, and the components that it listens to;
        where attributes are asked for, also those behind the linker, which may write them. Else the
        whole pipeline runs, without other linkers, and those before the linker read a long doc in
        parts.
        """
        for doc in self._linked(docs):
            if self.attributes:
                write_attributes(doc, self.linker.spans_key, self.attributes)
            yield doc

    def _linked(self, docs: Iterable[Doc]) -> Iterator[Doc]:
        names, key = self.nlp.pipe_names, self.linker.spans_key
        upstream = upstream_of(self.nlp, self.component)
        linkers = list(other_linkers(self.nlp, self.component))
        at = names.index(self.component)

        def run(docs: Iterable[Doc], disable: list[str]) -> Iterator[Doc]:
            for batch in batches(docs, self.batch_size):
                yield from self.nlp.pipe(batch, disable=disable, batch_size=self.batch_size)

        def kind(doc: Doc) -> str:
            if gives_mentions(doc, key):
                return "given"
            # What the linker listens to must have read the whole.
            return "long" if _end(doc) > LONGEST and at and not upstream else "short"

        # Where a stream mixes kinds, consecutive docs of one kind are linked together.
        for found, group in groupby(docs, key=kind):
            if found == "given":
                read = read_by_upstream(self.nlp, self.component, group)
                behind = names[at + 1 :] if self.attributes else []
                kept = {self.component, *behind}.difference(linkers)
                yield from run(read, [name for name in names if name not in kept])
            elif found == "long":
                before = partial(run, disable=[*names[at:], *linkers])
                whole = (read_in_parts(doc, before) for doc in group)
                yield from run(whole, [*names[:at], *linkers])
            else:
                yield from run(group, linkers)


def _run_code(path: Path) -> None:
    """Run a Python file, which makes components known to spaCy; PelError if it fails."""
    try:
        import_file("pel_code", path)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise PelError(f"{path}: cannot be run ({reason})", "correct it") from error


def _check_attributes(names: Iterable[str]) -> None:
    """PelError if an attribute of mentions is asked for that no component of a pipeline has added."""
    there = Underscore.span_extensions
    if unknown := [name for name in names if name not in there]:
        others = sorted(name for name in there if not name.startswith("kb_"))
        remedy = f"choose one of {', '.join(others)}, or add the component that writes it"
        raise PelError(f"no attribute {', '.join(unknown)} of mentions", remedy)


def give_back_memory() -> None:
    """Have the C library give what is free back to the system, where it can (glibc).

    Tensors of all sizes leave gaps between what stays. In 2,500 short documents they were 140 MB.
    """
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


def read_matcher_names(nlp: Language, progress: Callable[[Iterable], Iterable] = iter) -> None:
    """Have each ``kb_matcher`` of a pipeline open the names of its KB, if it has not yet.

    The first use of a KB of millions of names makes their file. Call this before worker processes
    are forked, so that it is made once. ``progress`` wraps the entities that are read, as ``tqdm``.
    """
    from ..pipeline.kb_matcher import KBMatcher

    for _, component in nlp.pipeline:
        if isinstance(component, KBMatcher):
            component.read_names(progress)


def link_documents(
    nlp: Language,
    docs: Iterable[Doc],
    *,
    component: str = "proxy_linker",
    batch_size: int = 128,
) -> Iterator[dict[str, Any]]:
    """Run a pipeline over a stream of docs, and give each as plain data; see ``linked_document``.

    If a doc has mentions already, these are linked, and no others are looked for. PelError if there is
    no linker, or its KB has no vectors of its encoder.
    """
    linking = Linking(nlp, component, batch_size=batch_size)
    for doc in linking.docs(docs):
        yield linked_document(doc, linking.linker.spans_key)


def batches(
    items: Iterable[T], most: int, doc_of: Callable[[T], Doc] = lambda doc: doc
) -> Iterator[list[T]]:
    """Consecutive docs: at most so many, and of at most TOGETHER characters unless it is one."""
    batch: list[T] = []
    characters = 0
    for item in items:
        length = _end(doc_of(item))
        if batch and (len(batch) == most or characters + length > TOGETHER):
            yield batch
            batch, characters = [], 0
        batch.append(item)
        characters += length
    if batch:
        yield batch


def read_in_parts(doc: Doc, read: Callable[[Iterable[Doc]], Iterable[Doc]]) -> Doc:
    """A new doc, with what a pipeline (``read``) writes on the parts of a doc of the tokenizer.

    What a component writes on a doc as a whole is left out.
    """
    parts = list(read(_parts(doc)))
    whole = Doc.from_docs(parts, ensure_whitespace=False, exclude=["tensor", "user_data"])
    whole.user_data = doc.user_data
    return whole


def _parts(doc: Doc) -> Iterator[Doc]:
    """The doc in parts of at most LONGEST characters, where no token is longer."""
    text, starts = doc.text, [token.idx for token in doc]
    bounds = [0]
    while len(text) - starts[bounds[-1]] > LONGEST and bounds[-1] < len(doc) - 1:
        first = starts[bounds[-1]]
        cut = bisect_right(starts, _cut(text, first, first + LONGEST)) - 1
        bounds.append(min(max(cut, bounds[-1] + 1), len(doc) - 1))
    for start, end in pairwise([*bounds, len(doc)]):
        yield doc[start:end].as_doc()


def _cut(text: str, first: int, end: int) -> int:
    """The last place up to ``end`` where a text may be parted."""
    begin = max(first + 1, end - _LOOKED_BACK)
    for pattern in _ENDS:
        if places := [match.end() for match in pattern.finditer(text, begin, end)]:
            return places[-1]
    return end


def _end(doc: Doc) -> int:
    """The number of characters of a doc, up to the end of its last token."""
    return doc[-1].idx + len(doc[-1]) if len(doc) else 0
