"""Files of documents, linked one piece after another; a run that was interrupted goes on."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from spacy.tokens import Doc

from ..documents import DocumentStream, RawDocument, format_named, format_of, open_documents
from ..documents.docs import keep_ids
from ..documents.format import Format, Output, TextOutput, encoded
from ..documents.formats import suffixes
from ..errors import PelError
from ..spans import mention_spans
from .bad_documents import OnError
from .corpus_parts import CorpusOutput, joint_output
from .document_batches import DocumentBatch, document_batches
from .joint_linking import with_settings
from .link_docs import Linking, read_matcher_names
from .output_parts import LinkedCounts, documents_digest, output_parts, say_where_it_goes_on
from .pipeline_fingerprint import package_versions, pipeline_fingerprint

# A part of the output ends after this many documents, or bytes of input. It is what is held in
# memory, and what a crash costs. After each part spaCy's memory of words is emptied.
DOCUMENTS_PER_PART, BYTES_PER_PART = 1_000, 32 * 2**20


class LinkProgress:
    """Receives the progress of linking. Its methods do nothing: override those that you need."""

    def started(self, n_bytes: int | None) -> None:
        """Linking begins. The input has ``n_bytes`` bytes; None: unknown, as for stdin."""

    def passed_over(self, documents: int, n_bytes: int) -> None:
        """An earlier run linked this number of documents, from ``n_bytes`` bytes of input."""

    def linked(self, n_bytes: float) -> None:
        """One more document is linked, from ``n_bytes`` bytes of input."""

    def taken_back(self, documents: int, n_bytes: float) -> None:
        """This number of documents will be linked again, because one in the same part failed."""

    def say(self, message: str) -> None:
        """Something the user should know, in one line."""


def link_files(
    linking: Linking,
    input: str | Path,
    output: str | Path | BinaryIO,
    *,
    input_format: str | None = None,
    output_format: str | None = None,
    progress: LinkProgress = LinkProgress(),
) -> LinkedCounts:
    """Link all documents of a file, a folder or stdin, and write them with their entities.

    The output file appears as a whole at the end. After an error or an interruption it is as it was
    before, and the documents linked so far are kept in a folder beside it. The same call then goes
    on from there, and its result has the same bytes as that of a call without an interruption.
    Memory does not grow with the number of documents.

    Args:
        linking: The pipeline, and how documents are run through it.
        input: A file, a folder of files, or "-" for stdin.
        output: The file to write, or an open binary stream.
        input_format: The name of a format, see ``documents.formats``. None: the file's name
            decides.
        output_format: The same for the output. None: the file's name decides; a stream gets JSONL.
        progress: Receives the progress of linking.

    Returns:
        The number of documents and mentions, and a message for each document that was skipped.

    Raises:
        PelError: Nothing can be read, the format cannot be written, the output is part of the
            input, another process writes it, or a document is bad and ``linking.on_error`` is
            "stop".
        OSError: A file cannot be read or written.
    """
    read_matcher_names(linking.nlp)
    written_as = output_format_of(output, output_format)
    source = open_documents(str(input), input_format)
    if isinstance(output, (str, Path)):
        target = Path(output).resolve()  # what a symbolic link points to is written; it stays
        if Path(input).resolve() in (target, *target.parents):
            raise PelError(
                f"{output}: is what is read, or in its folder", "write it somewhere else"
            )
        written: Output = written_as.output_with(linking.linker.xrefs or ())
        settings = {"format": written_as.name}
        if not linking.jointly:
            return link_parts(linking, source, target, written, settings, progress)
        joint = joint_output(linking.nlp, linking.linker, written, progress.say)
        return link_parts(linking, source, target, joint, {**settings, "way": "joint"}, progress)
    as_text = written_as.output_with(linking.linker.xrefs or ())
    if linking.jointly or not isinstance(as_text, TextOutput):
        what = "what is linked jointly" if linking.jointly else written_as.name
        raise PelError(f"{what} cannot be written to stdout", "name a file with --output")
    progress.started(source.total)
    return _link_to_stream(linking, source, output, as_text, progress)


def output_format_of(output: str | Path | BinaryIO, name: str | None) -> Format:
    """The format of the output; PelError if it is unknown, or cannot be written."""
    is_file = isinstance(output, (str, Path))
    if name is not None:
        format: Format | None = format_named(name)
    else:
        format = format_of(str(output)) if is_file else format_named("jsonl")
    if format is None or format.output is None:
        raise PelError(
            f"{output if is_file else 'stdout'}: the format to write is not known",
            f"end the name in one of {suffixes('output')}, or name the format with --to",
        )
    return format


def link_parts(
    linking: Linking,
    source: DocumentStream,
    target: Path,
    written: Output,
    settings: dict[str, Any],
    progress: LinkProgress,
) -> LinkedCounts:
    """Link documents part by part, and make a file of the parts; see ``link_files``.

    Args:
        linking: The pipeline, and how documents are run through it.
        source: The documents.
        target: The file.
        written: How parts are written, and joined to the file.
        settings: All that decides how they are written, as plain data.
        progress: Receives the progress of linking.
    """
    total, number, is_going_on = LinkedCounts(), -1, False
    progress.started(source.total)
    vectors = (
        with_settings(linking.linker, vectors=True)
        if isinstance(written, CorpusOutput)
        else nullcontext()
    )
    size = {"size of parts": [DOCUMENTS_PER_PART, BYTES_PER_PART]}
    own = {**linking_settings(linking), **size, **settings}
    with vectors, output_parts(target, own, progress.say) as parts:
        batches = document_batches(source, DOCUMENTS_PER_PART, BYTES_PER_PART)
        for number, batch in enumerate(batches):
            digest = documents_digest(batch.records)
            counts = parts.finished(number, digest)
            if counts is not None and not (counts.skipped and linking.on_error is OnError.stop):
                progress.passed_over(counts.documents, batch.n_bytes)
            else:
                if not is_going_on:
                    say_where_it_goes_on(total, parts.is_changed, progress.say, "linked")
                is_going_on = True
                writer = PartWriter(linking, batch, _next(total), written, progress)
                counts = parts.write(number, digest, writer)
            total += counts
        parts.join(number + 1, written.join, target)
    return total


def _link_to_stream(
    linking: Linking,
    source: DocumentStream,
    stream: BinaryIO,
    output: TextOutput,
    progress: LinkProgress,
) -> LinkedCounts:
    total = LinkedCounts()
    stream.write(encoded(output.head))
    with TemporaryDirectory() as folder:
        path = Path(folder, "part")
        for batch in document_batches(source, DOCUMENTS_PER_PART, BYTES_PER_PART):
            total += PartWriter(linking, batch, _next(total), output, progress)(path)
            with open(path, "rb") as part:
                copyfileobj(part, stream)
            stream.flush()
    stream.write(encoded(output.tail))
    return total


def _next(before: LinkedCounts) -> int:
    """The number of the document that follows these."""
    return before.documents + len(before.skipped) + 1


def linking_settings(linking: Linking) -> dict[str, Any]:
    """All of a pipeline that decides the output, as plain data."""
    return {
        "pipeline": pipeline_fingerprint(linking.nlp),
        "component": linking.component,
        "spans key": linking.linker.spans_key,
        "number of candidates": linking.linker.candidates,
        "list of vocabularies": linking.linker.xrefs,
        "batch size": linking.batch_size,
        "set of versions": package_versions(),
    }


class PartWriter:
    """Links the documents of one part and writes them. PelError for one that ends the run.

    Where a component fails, they are linked one by one, to know which of them it was.
    """

    def __init__(
        self,
        linking: Linking,
        batch: DocumentBatch,
        first: int,
        output: Output,
        progress: LinkProgress,
    ) -> None:
        """first: the number of the first of its documents."""
        self.linking = linking
        self.records = batch.records
        self.first = first
        self.output = output
        self.progress = progress
        self.bytes_per_document = batch.n_bytes / len(batch.records)
        self.spans_key = linking.linker.spans_key
        self.counts = LinkedCounts()

    def __call__(self, path: Path) -> LinkedCounts:
        """Write the part to a file, and say what is in it."""
        try:
            self._write(path, self._linked)
        except OSError:
            raise
        except Exception as error:
            if isinstance(error, PelError) and self.linking.on_error is OnError.stop:
                raise
            documents = self.counts.documents
            self.progress.taken_back(documents, documents * self.bytes_per_document)
            self._write(path, self._linked_one_by_one)
            if self.first == 1 and not self.counts.documents:  # then it is not the documents
                raise
        for message in self.counts.skipped:
            self.progress.say(f"Skipped {message}")
        return self.counts

    def _write(self, path: Path, linked: Callable[[], Iterator[tuple[int, Doc]]]) -> None:
        self.counts = LinkedCounts()
        with self.linking.nlp.memory_zone():
            self.output.write_part(self._counted(linked()), self.spans_key, path)

    def _counted(self, linked: Iterator[tuple[int, Doc]]) -> Iterator[tuple[int, Doc]]:
        for number, doc in linked:
            yield number, doc
            self.counts += LinkedCounts(1, len(mention_spans(doc, self.spans_key)))
            self.progress.linked(self.bytes_per_document)

    def _linked(self) -> Iterator[tuple[int, Doc]]:
        numbers: deque[int] = deque()

        def docs() -> Iterator[Doc]:
            for number, _, doc in self._docs():
                numbers.append(number)
                yield doc

        for doc in self.linking.docs(docs()):
            yield numbers.popleft(), doc

    def _linked_one_by_one(self) -> Iterator[tuple[int, Doc]]:
        alone = replace(self.linking, n_process=1)
        for number, record, doc in self._docs():
            try:
                (linked,) = alone.docs([doc])
            except OSError:
                raise
            except Exception as error:
                reason = " ".join(f"{type(error).__name__}: {error}".split())
                failure = PelError(
                    f"{record.where}: a component fails at it: {reason}", "correct the document"
                )
                self._refuse(number, failure)
            else:
                yield number, linked

    def _docs(self) -> Iterator[tuple[int, RawDocument, Doc]]:
        for number, record in enumerate(self.records, self.first):
            try:
                doc = record.doc(self.linking.nlp, self.spans_key)
                if self.linking.keep_ids:
                    keep_ids(doc, record.document(self.spans_key), self.spans_key)
            except PelError as error:
                self._refuse(number, error)
            else:
                yield number, record, doc

    def _refuse(self, number: int, error: PelError) -> None:
        placed = error.at(f"document {number:,}")
        if self.linking.on_error is OnError.stop:
            remedy = f"{placed.remedy}, or leave it out with --on-error skip"
            raise PelError(placed.problem, remedy) from error
        self.counts += LinkedCounts(skipped=(str(placed),))
