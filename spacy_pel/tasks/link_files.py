"""Files of documents, linked part by part."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from spacy.tokens import Doc

from ..documents import Record, Source
from ..documents.format import Format, Output, TextOutput, encoded
from ..errors import PelError
from ..spans import mention_spans
from .link_docs import Linking, OnError
from .output_parts import Counts, digest, parts_of
from .pipeline_fingerprint import pipeline_fingerprint, versions
from .progress import Progress

# The most documents of a part, and the bytes of input after which it ends: what is in memory at a
# time, and what a crash costs. After it spaCy's memory of words seen is emptied.
PART, PART_BYTES = 1_000, 32 * 2**20


def link_to_file(
    linking: Linking, source: Source, output: Path, format: Format, progress: Progress
) -> Counts:
    """Link all documents of a source to a file, of a format that can be written.

    The file is whole or, after an error or an interruption, as it was; what is linked by then is
    kept beside it, and the same call goes on from there. It has the same bytes as that of a call
    that was never interrupted. Memory does not grow with the number of documents.
    Raises PelError for a bad document, if it is to end the run, and what ``parts_of`` raises.
    """
    total, number, is_going_on = Counts(), -1, False
    output = output.resolve()  # what a link points to is written, and the link stays
    settings = _settings(linking, format)
    with parts_of(output, settings, progress.say) as parts:
        for number, records in enumerate(_in_parts(source)):
            made_of = digest(records)
            counts = parts.finished(number, made_of)
            if counts is not None and not (counts.skipped and linking.on_error is OnError.stop):
                progress.passed_over(counts.documents)
            else:
                if not is_going_on:
                    _say_where_it_goes_on(total, parts.is_changed, progress)
                is_going_on = True
                work = _Part(linking, records, total, format.output, progress)
                counts = parts.write(number, made_of, work)
            total += counts
        parts.join(number + 1, format.output.join, output)
    return total


def link_to_stream(
    linking: Linking, source: Source, stream: BinaryIO, format: Format, progress: Progress
) -> Counts:
    """Link all documents of a source to a stream, part by part.

    Raises PelError if the format is not text, and for a bad document as ``link_to_file`` does.
    """
    if not isinstance(format.output, TextOutput):
        raise PelError(f"{format.name} cannot be written to stdout", "name a file with --output")
    total = Counts()
    stream.write(encoded(format.output.head))
    with TemporaryDirectory() as folder:
        path = Path(folder, "part")
        for records in _in_parts(source):
            total += _Part(linking, records, total, format.output, progress)(path)
            with open(path, "rb") as part:
                copyfileobj(part, stream)
            stream.flush()
    stream.write(encoded(format.output.tail))
    return total


def _settings(linking: Linking, format: Format) -> dict[str, Any]:
    """All that decides the output, but for the documents, as plain data."""
    return {
        "pipeline": pipeline_fingerprint(linking.nlp),
        "component": linking.component,
        "spans key": linking.linker.spans_key,
        "number of candidates": linking.linker.candidates,
        "batch size": linking.batch_size,
        "format": format.name,
        "set of versions": versions(),
        "size of parts": [PART, PART_BYTES],
    }


def _in_parts(source: Source) -> Iterator[list[Record]]:
    part: list[Record] = []
    size = 0
    for record in source:
        part.append(record)
        size += len(record.packed)
        if len(part) == PART or size >= PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


class _Part:
    """Documents of an input, to be linked and written. Raises PelError for one that ends the run.

    Where a component fails, they are linked one by one, to know which of them it was.
    """

    def __init__(
        self,
        linking: Linking,
        records: list[Record],
        before: Counts,
        output: Output,
        progress: Progress,
    ) -> None:
        """before: what is in the parts before this one."""
        self.linking = linking
        self.records = records
        self.first = before.documents + len(before.skipped) + 1
        self.output = output
        self.progress = progress
        self.share = progress.bytes_read() / len(records)
        self.spans_key = linking.linker.spans_key
        self.counts = Counts()

    def __call__(self, path: Path) -> Counts:
        """Write the part to a file, and say what is in it."""
        try:
            self._write(path, self._linked)
        except OSError:
            raise
        except Exception as error:
            if isinstance(error, PelError) and self.linking.on_error is OnError.stop:
                raise
            self.progress.taken_back(self.counts.documents, self.share)
            self._write(path, self._linked_one_by_one)
            if self.first == 1 and not self.counts.documents:  # then it is not the documents
                raise
        for message in self.counts.skipped:
            self.progress.say(f"Skipped {message}")
        return self.counts

    def _write(self, path: Path, linked: Callable[[], Iterator[tuple[int, Doc]]]) -> None:
        self.counts = Counts()
        with self.linking.nlp.memory_zone():
            self.output.write_part(self._counted(linked()), self.spans_key, path)

    def _counted(self, linked: Iterator[tuple[int, Doc]]) -> Iterator[tuple[int, Doc]]:
        for number, doc in linked:
            yield number, doc
            self.counts += Counts(1, len(mention_spans(doc, self.spans_key)))
            self.progress.linked(self.share)

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
                    f"{record.where}: a component fails at it: {reason}", "mend the document"
                )
                self._refuse(number, failure)
            else:
                yield number, linked

    def _docs(self) -> Iterator[tuple[int, Record, Doc]]:
        for number, record in enumerate(self.records, self.first):
            try:
                doc = record.doc(self.linking.nlp, self.spans_key)
            except PelError as error:
                self._refuse(number, error)
            else:
                yield number, record, doc

    def _refuse(self, number: int, error: PelError) -> None:
        placed = error.at(f"document {number:,}")
        if self.linking.on_error is OnError.stop:
            remedy = f"{placed.remedy}, or leave it out with --on-error skip"
            raise PelError(placed.problem, remedy) from error
        self.counts += Counts(skipped=(str(placed),))


def _say_where_it_goes_on(total: Counts, is_changed: bool, progress: Progress) -> None:
    done = total.documents + len(total.skipped)
    if is_changed:
        progress.say(f"The input is not what it was from about document {done + 1:,} on")
    if done:
        progress.say(f"Going on after {done:,} documents that were linked before")
