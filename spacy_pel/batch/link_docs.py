"""Run docs through a pipeline in bounded memory, for ``pel link`` and ``pel serve``.

spaCy's models keep the states of all tokens of a batch in memory: 2.6 GB for a million characters. Therefore,
the characters of a batch are limited, and long docs are read in parts.
"""

from __future__ import annotations

import gc
import re
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
    read_by_upstream,
    upstream_of,
    use_gpu,
)
from .document_blocks import OnError

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker

T = TypeVar("T")

# The characters of a batch; a longer doc is a batch by itself.
BATCH_CHARACTERS = 256_000
# The characters of a part; a longer doc is read in parts.
MAX_PART = 100_000
# Where to split a doc, in order of preference: after a line, a sentence, or a space.
_ENDS = (re.compile(r"\n(?=\S)"), re.compile(r"[.!?]\s(?=\S)"), re.compile(r"\s(?=\S)"))
_MAX_LOOK_BACK = 5_000  # characters to search for such a place


@dataclass(frozen=True)
class Linking:
    """A pipeline and the settings for running docs through it.

    A folder or name is loaded at first use. Until then, and for other processes, this is plain data.

    Attributes:
        pipeline: A loaded pipeline, or its folder or name.
        kb: The folder of a KB; None keeps the linker's.
        spans_key: The span group of the mentions; None keeps the linker's.
        candidates: The number of candidates to write for each mention; None keeps the linker's.
        xrefs: The vocabularies whose codes are written.
        attributes: The extension attributes of mentions that are written as well.
        batch_size: The largest number of docs in a batch.
        n_process: The number of processes that link files.
        on_error: How to treat a bad document of a file.
        jointly: Link all mentions of the files jointly (``joint_linking``).
        keep_ids: Keep the ids that mentions of files have. Mentions without one are NIL.
        code: A Python file to run before the pipeline is loaded.
        gpu_id: The GPU, or -1 for the CPU.
        reading: Wraps the entities that ``read_matcher_names`` reads, like ``tqdm``.

    Raises:
        PelError: The pipeline cannot be loaded or has no linker, or the KB does not fit it or has no
            codes of a vocabulary.
    """

    pipeline: str | Language
    kb: Path | None = None
    spans_key: str | None = None
    candidates: int | None = None
    xrefs: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    batch_size: int = 128
    n_process: int = 1
    on_error: OnError = OnError.stop
    jointly: bool = False
    keep_ids: bool = False
    code: Path | None = None
    gpu_id: int = -1
    reading: Callable[[Iterable[Any]], Iterable[Any]] = iter

    def __post_init__(self) -> None:
        if isinstance(self.pipeline, Language):
            _ = self.nlp  # raises its error here, not in a worker

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "nlp"}

    @cached_property
    def nlp(self) -> Language:
        """Return the loaded pipeline with these settings."""
        if self.code:
            _run_code(self.code)
        use_gpu(self.gpu_id)
        nlp = self.pipeline
        if not isinstance(nlp, Language):
            nlp = load_pipeline(nlp)
        read_matcher_names(nlp, self.reading)
        linker = linker_of(nlp, kb=self.kb, spans_key=self.spans_key)
        linker.check_kb()
        if self.candidates is not None:
            linker.search.candidates = self.candidates
        if self.xrefs:
            linker.kb.check_vocabularies(self.xrefs)
            linker.output.xrefs = list(self.xrefs)
        _check_attributes(self.attributes)
        # Otherwise, garbage collections traverse the loaded objects, which takes a tenth of the time.
        gc.freeze()
        return nlp

    @property
    def linker(self) -> ProxyLinker:
        """Return the linker of the pipeline."""
        return linker_of(self.nlp)

    def docs(self, docs: Iterable[Doc]) -> Iterator[Doc]:
        """Yield the docs, linked, in their order, with ``attributes``.

        A doc without mentions runs through the whole pipeline; components before the linker read a long doc
        in parts. A doc with mentions runs through the linker and the components that it listens to. If there
        are ``attributes``, it also runs through the components after the linker, which may write them.
        """
        for doc in self._linked(docs):
            if self.attributes:
                write_attributes(doc, self.linker.spans_key, self.attributes)
            yield doc

    def _linked(self, docs: Iterable[Doc]) -> Iterator[Doc]:
        names, name, key = self.nlp.pipe_names, self.linker.name, self.linker.spans_key
        upstream = upstream_of(self.nlp, name)
        position = names.index(name)
        before, after = names[:position], names[position + 1 :]

        def run(docs: Iterable[Doc], disable: list[str]) -> Iterator[Doc]:
            for batch in batches(docs, self.batch_size, doc_length):
                yield from self.nlp.pipe(batch, disable=disable, batch_size=self.batch_size)

        def kind(doc: Doc) -> str:
            if gives_mentions(doc, key):
                return "with mentions"
            # A component that the linker listens to must read the whole doc.
            return "long" if doc_length(doc) > MAX_PART and before and not upstream else "short"

        # Consecutive docs of one kind are linked together.
        for group_kind, group in groupby(docs, key=kind):
            if group_kind == "with mentions":
                read = read_by_upstream(self.nlp, name, group)
                yield from run(read, [*before, *(() if self.attributes else after)])
            elif group_kind == "long":
                run_before = partial(run, disable=[name, *after])
                whole = (read_in_parts(doc, run_before) for doc in group)
                yield from run(whole, before)
            else:
                yield from run(group, [])


def _run_code(path: Path) -> None:
    """Run a Python file that registers components; PelError if it fails."""
    try:
        import_file("pel_code", path)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise PelError(f"{path}: cannot be run ({reason})", "correct it") from error


def _check_attributes(names: Iterable[str]) -> None:
    """Raise a PelError for an attribute of mentions that no component has registered."""
    registered = Underscore.span_extensions
    if unknown := [name for name in names if name not in registered]:
        others = sorted(name for name in registered if not name.startswith("kb_"))
        remedy = f"choose one of {', '.join(others)}, or add the component that writes it"
        raise PelError(f"mentions have no attribute {', '.join(unknown)}", remedy)


def read_matcher_names(
    nlp: Language, progress: Callable[[Iterable[Any]], Iterable[Any]] = iter
) -> None:
    """Open the names of the KB of each ``kb_matcher``.

    The first use of a KB builds a file of its names. Call this before worker processes are forked, so that
    the file is built once. ``progress`` wraps the entities that are read, like ``tqdm``.
    """
    from ..pipeline.kb_matcher import KBMatcher

    for _, component in nlp.pipeline:
        if isinstance(component, KBMatcher):
            component.read_names(progress)


def link_documents(
    nlp: Language,
    docs: Iterable[Doc],
    *,
    batch_size: int = 128,
) -> Iterator[dict[str, Any]]:
    """Yield the linked docs of a stream as plain data; see ``linked_document``.

    If a doc has mentions, they are linked, and no others are searched.

    Raises:
        PelError: There is no linker, or its KB has no vectors of its encoder.
    """
    linking = Linking(nlp, batch_size=batch_size)
    for doc in linking.docs(docs):
        yield linked_document(doc, linking.linker.spans_key)


def batches(items: Iterable[T], batch_size: int, length: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield batches of consecutive items of at most BATCH_CHARACTERS. A longer item is a batch by itself.

    ``length`` returns the number of characters of an item.
    """
    batch: list[T] = []
    characters = 0
    for item in items:
        n_characters = length(item)
        if batch and (len(batch) == batch_size or characters + n_characters > BATCH_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(item)
        characters += n_characters
    if batch:
        yield batch


def read_in_parts(doc: Doc, read: Callable[[Iterable[Doc]], Iterable[Doc]]) -> Doc:
    """Return a new doc with the annotations that a pipeline (``read``) sets on parts of a tokenized doc.

    Annotations of a doc as a whole are lost.
    """
    parts = list(read(_parts(doc)))
    whole = Doc.from_docs(  # type: ignore[call-arg]  # spaCy's stub lacks "exclude"
        parts, ensure_whitespace=False, exclude=["tensor", "user_data"]
    )
    assert whole is not None  # a doc has parts
    whole.user_data = doc.user_data
    return whole


def _parts(doc: Doc) -> Iterator[Doc]:
    """Yield the parts of a doc, of at most MAX_PART characters unless a token is longer."""
    text, starts = doc.text, [token.idx for token in doc]
    bounds = [0]
    while len(text) - starts[bounds[-1]] > MAX_PART and bounds[-1] < len(doc) - 1:
        first = starts[bounds[-1]]
        cut = bisect_right(starts, _cut(text, first, first + MAX_PART)) - 1
        bounds.append(min(max(cut, bounds[-1] + 1), len(doc) - 1))
    for start, end in pairwise([*bounds, len(doc)]):
        yield doc[start:end].as_doc()


def _cut(text: str, first: int, end: int) -> int:
    """Return the best place before ``end`` to split a text, or ``end`` if there is none."""
    begin = max(first + 1, end - _MAX_LOOK_BACK)
    for pattern in _ENDS:
        if places := [match.end() for match in pattern.finditer(text, begin, end)]:
            return places[-1]
    return end


def doc_length(doc: Doc) -> int:
    """Return the number of characters of a doc, without trailing space."""
    return doc[-1].idx + len(doc[-1]) if len(doc) else 0
