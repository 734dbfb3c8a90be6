"""Files of documents, linked block by block to a file, a folder or a stream.

A run that was interrupted goes on where it was, and its result has the same bytes as that of a run
without an interruption, whoever links: this process, several, or the nodes of a Ray cluster.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from operator import itemgetter
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, NamedTuple

from spacy.tokens import Doc

from ..documents import DocumentStream, RawDocument, format_named, format_of, open_documents
from ..documents.docs import keep_ids
from ..documents.document_stream import DocumentFile
from ..documents.format import Format, Output, TextOutput, encoded
from ..documents.formats import suffixes
from ..errors import PelError
from ..kb.copies import local_copy
from ..spans import mention_spans
from .blocks import Blocks, block_folder, differing
from .document_blocks import (
    BYTES_PER_GROUP,
    BlockReport,
    DocumentBlock,
    LinkedCounts,
    LinkProgress,
    OnError,
    blocks_made,
    blocks_to_file,
    document_blocks,
    file_groups,
    refusal,
    unfinished,
    worker_that_writes,
)
from .fingerprints import package_versions, pipeline_fingerprint
from .joint_linking import CorpusPart, joint_settings, write_jointly
from .link_docs import Linking, LinkingChoices, batches, read_matcher_names
from .workers import Done, check_engine, ray_results

# A block ends after this many documents, or bytes of them. It is what a process holds in memory, and
# what a crash costs. After each block spaCy's memory of words is emptied.
DOCUMENTS_PER_BLOCK, BYTES_PER_BLOCK = 1_000, 4 * 2**20


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
        input_format: The name of a format, see ``documents.formats``. None: the file's name decides.
        output_format: The same for the output; a stream gets JSONL.
        progress: Receives the progress of linking.

    Raises:
        PelError: Nothing can be read, the format cannot be written, the output is part of the
            input, another process writes it, or a document is bad and ends the run.
        OSError: A file cannot be read or written.
    """
    read_matcher_names(linking.nlp)
    format = _output_format(output, output_format)
    written = format.output_with(linking.linker.xrefs or ())
    source = open_documents(str(input), input_format)
    if not isinstance(output, (str, Path)):
        if linking.jointly or not isinstance(written, TextOutput):
            what = "what is linked jointly" if linking.jointly else format.name
            raise PelError(f"{what} cannot be written to stdout", "name a file with --output")
        return _link_to_stream(linking, source, output, written, progress)
    target = Path(output).resolve()  # what a symbolic link points to is written; it stays
    if Path(input).resolve() in (target, *target.parents):
        raise PelError(f"{output}: is what is read, or in its folder", "write it somewhere else")
    settings = {"format": format.name}
    if not linking.jointly:
        return link_blocks(linking, source, target, written, written.join, settings, progress)
    joint_settings(linking.linker)  # the error comes before the work
    settings["way"] = "joint"
    join = partial(write_jointly, linking.nlp, linking.linker, written, progress.say)
    part = CorpusPart(linking.linker)
    return link_blocks(linking, source, target, part, join, settings, progress)


def link_to_folder(
    choices: LinkingChoices,
    input: str | Path,
    folder: str | Path,
    *,
    input_format: str | None = None,
    output_format: str | None = None,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    copy_to: str | None = None,
    progress: LinkProgress = LinkProgress(),
) -> LinkedCounts:
    """Link all documents of a file or a folder, and write a folder with one file a block.

    The files are named for those of the input: ``pubmed25n0001.xml.gz-00001001.jsonl`` has the
    documents of ``pubmed25n0001.xml.gz`` from number 1,001 on. Each appears whole. After an
    interruption the same call goes on: it leaves out the blocks whose files are whole and of the
    same documents. Both engines write the same bytes on processors of the same kind.

    Args:
        choices: The pipeline, and how it links.
        input: A file, a folder of files, or the URL of one of these.
        folder: The folder to write, new or of an earlier call. Its name may decide the format.
        input_format: See ``link_files``, also for ``output_format`` and ``progress``.
        engine: "local": this process, with the processes of ``choices``. "ray": a Ray cluster, whose
            nodes must have this package and see the pipeline and both folders at the same paths.
        address: The address of the cluster. None starts Ray on this computer.
        workers: The number of Ray's workers. None: one a GPU, or one a core where there is no GPU.
        copy_to: A folder of each node, to which the first worker there copies the KB of the linker.
            Environment variables in it are those of the node. None: all nodes read the same KB.

    Raises:
        PelError: As ``link_files``; or the folder holds something else; or the cluster cannot be
            reached, or it loses too many workers.
        OSError: A file cannot be read or written.
    """
    check_engine(engine)
    format = _output_format(folder, output_format)
    target = Path(folder).resolve()
    if choices.jointly:
        raise PelError("what is linked jointly is one file", "name a file with --output")
    source = open_documents(str(input), input_format)
    if source.total is None:
        raise PelError(
            f"{input}: is no file or folder of files", "give one, or name a file with --output"
        )
    if target in (Path(input).resolve(), *Path(input).resolve().parents):
        raise PelError(f"{folder}: is what is read, or a folder around it", "write somewhere else")
    linking = choices.opened()
    settings = {
        **linking_settings(linking),
        "format": format.name,
        "size of blocks": [DOCUMENTS_PER_BLOCK, BYTES_PER_BLOCK, BYTES_PER_GROUP],
    }
    job = FolderJob(choices, settings, str(target), copy_to)
    progress.started(source.total)
    total: dict[str, LinkedCounts] = {}
    with block_folder(target, settings, suffix=format.suffixes[0]) as blocks:
        groups = file_groups(source.files, str(input))
        if engine == "ray":
            reports = ray_results(
                job.worker, groups, read=job.items, address=address, workers=workers
            )
        else:
            read_matcher_names(linking.nlp)
            items = (item for group in groups for item in job.items(group))
            write = partial(_write, linking, job.output)
            reports = blocks_made(blocks, write, items, linking.n_process, progress)
        with closing(reports):
            for report in reports:
                if engine == "ray":
                    report.tell(progress)
                total[report.name] = report.counts
        blocks.keep_only(total)
    return sum((total[name] for name in sorted(total)), LinkedCounts())


class _WholeFile(NamedTuple):
    """How a block is written that is a file of its own."""

    output: Output

    def write_part(
        self, docs: Iterable[tuple[int, Doc]], spans_key: str | None, path: Path
    ) -> None:
        part = path.with_name("part")
        self.output.write_part(docs, spans_key, part)
        self.output.join([part], path)


class FolderJob(NamedTuple):
    """What any process needs to link any block of a folder, as plain data."""

    choices: LinkingChoices
    settings: dict[str, Any]  # all that decides the output; who finds others must not link
    folder: str  # the output, which every process must see
    copy_to: str | None = None  # see ``link_to_folder``

    @property
    def blocks(self) -> Blocks:
        """The finished blocks."""
        return Blocks(Path(self.folder), format_named(self.settings["format"]).suffixes[0])

    @property
    def output(self) -> Output:
        """How a block is written."""
        return _WholeFile(format_named(self.settings["format"]).output_with(self.choices.xrefs))

    def items(self, group: tuple[str, tuple[DocumentFile, ...]]) -> Iterator[DocumentBlock | Done]:
        """The blocks of a group that are to be linked, and reports of those that are done."""
        name, files = group
        size = self.settings["size of blocks"][:2]
        found = document_blocks(DocumentStream(files), *size, f"{name}-")
        return unfinished(found, self.blocks, self.choices.on_error)

    def worker(self, device: str) -> Callable[[DocumentBlock], BlockReport]:
        """What links blocks in another process; PelError if its pipeline is not that of the job."""
        linking = self.choices.opened()
        own = linking_settings(linking)
        if different := differing(own, {name: self.settings[name] for name in own}):
            raise PelError(
                f"{socket.gethostname()}: has another {different}", "install the same on all nodes"
            )
        if self.copy_to is not None:
            folder = Path(os.path.expandvars(self.copy_to))
            linking.linker.set_kb(local_copy(linking.linker.kb, folder))
        if device != "cpu":
            for encoder in linking.linker.linking_encoders():
                encoder.to(device)
        read_matcher_names(linking.nlp)
        return worker_that_writes(self.blocks, partial(_write, linking, self.output))


def _output_format(output: str | Path | BinaryIO, name: str | None) -> Format:
    """The format of the output; PelError if it is unknown, or cannot be written."""
    is_file = isinstance(output, (str, Path))
    if name is None and is_file:
        format = format_of(str(output))
    else:
        format = format_named(name or "jsonl")
    if format is None or format.output is None:
        raise PelError(
            f"{output if is_file else 'stdout'}: the format to write is not known",
            f"end the name in one of {suffixes('output')}, or name the format with --to",
        )
    return format


def link_blocks(
    linking: Linking,
    source: DocumentStream,
    target: Path,
    written: Output,
    join: Callable[[Sequence[Path], Path], object],
    settings: dict[str, Any],
    progress: LinkProgress,
) -> LinkedCounts:
    """Link documents block by block, and ``join`` the blocks to a file; see ``blocks_to_file``.

    ``written`` says how blocks are written, and ``settings`` has all that decides it, as plain data.
    """
    return blocks_to_file(
        source,
        target,
        {**linking_settings(linking), **settings},
        partial(_write, linking, written),
        join,
        size=(DOCUMENTS_PER_BLOCK, BYTES_PER_BLOCK),
        n_process=linking.n_process,
        on_error=linking.on_error,
        progress=progress,
    )


def _link_to_stream(
    linking: Linking,
    source: DocumentStream,
    stream: BinaryIO,
    output: TextOutput,
    progress: LinkProgress,
) -> LinkedCounts:
    """Link documents block by block, and write each block to a stream as soon as it is linked."""
    progress.started(source.total)
    total = LinkedCounts()
    stream.write(encoded(output.head))
    with TemporaryDirectory(prefix="spacy-pel-") as folder:
        blocks = Blocks(Path(folder))
        blocks.kept.mkdir()
        items = document_blocks(source, DOCUMENTS_PER_BLOCK, BYTES_PER_BLOCK)
        write = partial(_write, linking, output)
        for report in blocks_made(blocks, write, items, linking.n_process, progress):
            total += report.counts
            with open(blocks.path(report.name), "rb") as part:
                copyfileobj(part, stream)
            stream.flush()
            blocks.path(report.name).unlink()
    stream.write(encoded(output.tail))
    return total


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


def _write(
    linking: Linking, output: Output, block: DocumentBlock, path: Path, progress: LinkProgress
) -> LinkedCounts:
    """Link the documents of a block, and write them to a file."""
    counts: list[int] = []
    skipped: list[str] = []

    def counted() -> Iterator[tuple[int, Doc]]:
        for number, doc in _linked(linking, block, skipped):
            yield number, doc
            counts.append(len(mention_spans(doc, key)))
            progress.linked(block.n_bytes / len(block.records))

    key = linking.linker.spans_key
    with linking.nlp.memory_zone():
        output.write_part(counted(), key, path)
    return LinkedCounts(len(counts), sum(counts), tuple(skipped))


def _linked(
    linking: Linking, block: DocumentBlock, skipped: list[str]
) -> Iterator[tuple[int, Doc]]:
    """The linked documents of a block, with their numbers; PelError for one that ends the run.

    Where a component fails, the documents are linked one by one, to know which of them it was.
    """
    key, n_linked = linking.linker.spans_key, 0
    failure: Exception | None = None

    def doc_of(record: RawDocument) -> Doc:
        doc = record.doc(linking.nlp, key)
        if linking.keep_ids:
            keep_ids(doc, record.document(key), key)
        return doc

    def refuse(number: int, error: PelError) -> None:
        skipped.append(refusal(number, error, linking.on_error))

    def read() -> Iterator[tuple[int, RawDocument, Doc]]:
        for number, record in enumerate(block.records, block.first):
            try:
                yield number, record, doc_of(record)
            except PelError as error:
                refuse(number, error)

    def link(batch: list[tuple[int, RawDocument, Doc]]) -> Iterator[tuple[int, Doc]]:
        nonlocal failure
        numbers, records, docs = zip(*batch)
        try:
            linked = list(linking.docs(docs))
        except OSError:
            raise
        except Exception as error:
            if isinstance(error, PelError) and linking.on_error is OnError.stop:
                raise
            failure = error
            if len(batch) > 1:
                for number, record in zip(numbers, records):
                    yield from link([(number, record, doc_of(record))])
                return
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            problem = f"{records[0].where}: a component fails at it: {reason}"
            refuse(numbers[0], PelError(problem, "correct the document"))
        else:
            yield from zip(numbers, linked)

    for batch in batches(read(), linking.batch_size, itemgetter(2)):
        for numbered in link(batch):
            n_linked += 1
            yield numbered
    if failure and block.first == 1 and not n_linked:  # it is not the documents
        raise failure
