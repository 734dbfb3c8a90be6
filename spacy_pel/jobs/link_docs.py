"""Docs run through a pipeline, as ``pel link`` and ``pel serve`` do it, in bounded memory.

What spaCy's models compute for a document is in memory for all of its tokens at once, and for all
documents of a batch: 2.6 GB for a million characters. So few are read together, and a long one in
parts.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc

from ..documents.docs import gives_mentions, linked_document
from ..kb.describe import check_vocabularies
from ..pipeline.pipelines import linker_of, load_pipeline, other_linkers, upstream_of
from .document_blocks import OnError
from .workers import local_results

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker

# Characters of the documents that are read together, or of one that alone has more.
TOGETHER = 256_000
# A longer document is read in parts of at most so many characters.
LONGEST = 100_000
# Where a document is parted, in order of choice: behind a line, behind a sentence, behind a blank.
_ENDS = (re.compile(r"\n(?=\S)"), re.compile(r"[.!?]\s(?=\S)"), re.compile(r"\s(?=\S)"))
_LOOKED_BACK = 5_000  # characters in which such a place is looked for


class _Kind(Enum):
    """How a doc is linked: by its given mentions; read in parts first; as a whole."""

    given, long, short = range(3)


@dataclass(frozen=True)
class Linking:
    """A pipeline, and how docs are run through it.

    Args:
        nlp: The pipeline.
        component: The name of the linker in it.
        batch_size: The most docs that are linked together; fewer long ones are.
        n_process: The number of processes.
        on_error: What happens at a bad document when files are linked.
        keep_ids: Whether mentions of files keep the ids that they have there. Those without are NIL.
        jointly: Whether the mentions of files are linked together (``joint_linking``).

    Raises:
        PelError: The pipeline has no such linker, or the KB does not fit it.
    """

    nlp: Language
    component: str = "proxy_linker"
    batch_size: int = 128
    n_process: int = 1
    on_error: OnError = OnError.stop
    jointly: bool = False
    keep_ids: bool = False

    def __post_init__(self) -> None:
        self.linker.index  # raises the error here, not in a worker

    @property
    def linker(self) -> ProxyLinker:
        """The linker of the pipeline."""
        return linker_of(self.nlp, self.component)

    def docs(self, docs: Iterable[Doc]) -> Iterator[Doc]:
        """The docs, linked, in their order.

        If a doc has mentions already, only the linker runs, and the components that it listens to.
        If it has none, the whole pipeline runs, without other linkers. The components before the
        linker read a long doc in parts; the linker then has the whole of it.
        """
        if self.n_process == 1:
            yield from self._docs(docs)
            return
        make = partial(_linked_bytes, replace(self, n_process=1))
        sent = ([doc.to_bytes() for doc in batch] for batch in batches(docs, self.batch_size))
        with closing(local_results(make, sent, ["cpu"] * self.n_process)) as results:
            for batch in results:
                yield from (Doc(self.nlp.vocab).from_bytes(data) for data in batch)

    def _docs(self, docs: Iterable[Doc]) -> Iterator[Doc]:
        """The docs, linked by this process."""
        names = self.nlp.pipe_names
        upstream = upstream_of(self.nlp, self.component)
        linkers = list(other_linkers(self.nlp, self.component))
        at = names.index(self.component)
        key = self.linker.spans_key

        def kind(doc: Doc) -> _Kind:
            if gives_mentions(doc, key):
                return _Kind.given
            # What the linker listens to must have read the whole.
            return _Kind.long if is_long(doc) and at and not upstream else _Kind.short

        def read(parts: Iterable[Doc]) -> Iterator[Doc]:
            return self._run(parts, [*names[at:], *linkers])

        # Where a stream mixes kinds, consecutive docs of one kind are linked together.
        for found, group in groupby(docs, key=kind):
            if found is _Kind.given:
                needed = {self.component, *upstream}
                yield from self._run(group, [name for name in names if name not in needed])
            elif found is _Kind.long:
                whole = (read_in_parts(doc, read) for doc in group)
                yield from self._run(whole, [*names[:at], *linkers])
            else:
                yield from self._run(group, linkers)

    def _run(self, docs: Iterable[Doc], disable: list[str]) -> Iterator[Doc]:
        for batch in batches(docs, self.batch_size):
            yield from self.nlp.pipe(batch, disable=disable, batch_size=self.batch_size)


def _linked_bytes(linking: Linking, device: str) -> Callable[[list[bytes]], list[bytes]]:
    """What links a batch of docs in another process."""

    def link(batch: list[bytes]) -> list[bytes]:
        with linking.nlp.memory_zone():
            docs = [Doc(linking.nlp.vocab).from_bytes(data) for data in batch]
            return [doc.to_bytes() for doc in linking.docs(docs)]

    return link


class LinkingChoices(NamedTuple):
    """Which pipeline links, and how, as plain data: any process can open it.

    Attributes:
        pipeline: The folder or the name of the pipeline.
        component: The name of the linker in it.
        kb: The folder of another KB for the linker; None: the one it has.
        spans_key: Another ``spans_key`` for the linker; None: the one it has.
        candidates: The number of candidates that are written for each mention.
        xrefs: The vocabularies whose codes are written.
        batch_size: See ``Linking``, as for all others.
    """

    pipeline: str
    component: str = "proxy_linker"
    kb: Path | None = None
    spans_key: str | None = None
    candidates: int = 5
    xrefs: tuple[str, ...] = ()
    batch_size: int = 128
    n_process: int = 1
    on_error: OnError = OnError.stop
    jointly: bool = False

    def opened(self) -> Linking:
        """The pipeline, loaded.

        Raises:
            PelError: It cannot be loaded, has no such linker, or the KB does not fit it or has no
                codes of one of the vocabularies.
        """
        nlp = load_pipeline(self.pipeline)
        linker = linker_of(nlp, self.component, kb=self.kb, spans_key=self.spans_key)
        linker.candidates = self.candidates
        if self.xrefs:
            check_vocabularies(linker.kb, self.xrefs)
            linker.xrefs = list(self.xrefs)
        return Linking(
            nlp, self.component, self.batch_size, self.n_process, self.on_error, self.jointly
        )


def read_matcher_names(nlp: Language, progress: Callable[[Iterable], Iterable] = iter) -> None:
    """Have each ``kb_matcher`` of a pipeline open the names of its KB, if it has not yet.

    The first use of a KB of millions of names makes their file. Call this before worker processes
    are forked, so that it is made once.

    Args:
        nlp: The pipeline.
        progress: Wraps the entities whose names are read, as ``tqdm`` does.
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
    n_process: int = 1,
) -> Iterator[dict[str, Any]]:
    """Run a pipeline over a stream of docs, and give each as a record of plain data.

    If a doc has mentions already, these are linked, and no others are looked for.

    Args:
        nlp: The pipeline.
        docs: Docs, for example of ``nlp.make_doc``.
        component: The name of the linker in the pipeline.
        batch_size: The number of docs that are linked together.
        n_process: The number of processes.

    Returns:
        A record for each doc, in their order; see ``documents.docs.linked_document``.

    Raises:
        PelError: There is no linker, its KB has no vectors of its encoder, or a worker fails.
    """
    linking = Linking(nlp, component, batch_size, n_process)
    for doc in linking.docs(docs):
        yield linked_document(doc, linking.linker.spans_key)


def batches(docs: Iterable[Doc], most: int) -> Iterator[list[Doc]]:
    """Consecutive docs: at most so many, and of at most TOGETHER characters unless it is one."""
    batch: list[Doc] = []
    characters = 0
    for doc in docs:
        length = _end(doc)
        if batch and (len(batch) == most or characters + length > TOGETHER):
            yield batch
            batch, characters = [], 0
        batch.append(doc)
        characters += length
    if batch:
        yield batch


def is_long(doc: Doc) -> bool:
    """Whether a doc is read in parts."""
    return _end(doc) > LONGEST


def read_in_parts(doc: Doc, read: Callable[[Iterable[Doc]], Iterable[Doc]]) -> Doc:
    """A doc with what a pipeline writes on its parts.

    Args:
        doc: A doc as the tokenizer makes it.
        read: Runs docs through the pipeline.

    Returns:
        A new doc with the same tokens. What a component writes on a doc as a whole is left out.
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
