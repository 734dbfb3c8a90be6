"""Link files of documents block by block, to a file, a folder or a stream.

An interrupted run can be resumed. The output has the same bytes with and without an interruption, and in one
process, several processes or a Ray cluster.
"""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import faiss
from spacy.tokens import Doc

from ..corpora.doc_conversion import keep_ids
from ..corpora.formats.base import Format, Output, TextOutput, encoded
from ..corpora.formats.lookup import format_named, format_of, suffixes
from ..corpora.open_documents import DocumentStream, RawDocument, open_documents
from ..errors import PelError
from ..io.memory import release_memory
from ..models.architectures.towers import encoder_of
from ..spans import mention_spans
from .blocks import Blocks, block_folder, changed_settings
from .document_blocks import (
    BYTES_PER_GROUP,
    MAX_SHOWN,
    BlockJob,
    BlockResult,
    BlockResults,
    BlockSize,
    DocumentBlock,
    LinkedCounts,
    NoBar,
    OnError,
    ReportDone,
    block_worker,
    blocks_by_file,
    document_blocks,
    refusal,
)
from .fingerprints import pipeline_fingerprint
from .joint_linking import joint_settings, write_corpus_part, write_jointly
from .link_docs import Linking, batches, doc_length
from .workers import check_engine, ray_results

# A process holds one block in memory, and a crash loses it. spaCy's string store is emptied after each.
DOCUMENTS_PER_BLOCK, BYTES_PER_BLOCK = 1_000, 4 * 2**20
WritePart = Callable[[Iterable[tuple[int, Doc]], "str | None", Path], None]  # see ``Output``


def link_files(
    linking: Linking,
    input: str | Path,
    output: str | Path | BinaryIO,
    *,
    input_format: str | None = None,
    output_format: str | None = None,
    engine: str = "local",
    address: str | None = None,
    workers: int | None = None,
    progress: Callable[..., Any] = NoBar,
) -> LinkedCounts:
    """Link all documents of a file, a folder or stdin, and write them with their entities.

    An output file is replaced atomically at the end. After an error or an interruption it is unchanged; the
    finished blocks are in a folder next to it, and the same call resumes from them. Memory does not grow with
    the number of documents.

    An output folder gets one file per block, named after the file of the input:
    ``pubmed25n0001.xml.gz-00001001.jsonl`` has the documents of ``pubmed25n0001.xml.gz`` from number
    1,001 on. The next call skips complete files whose documents have not changed.

    Args:
        linking: The pipeline and its settings. For Ray, ``linking.pipeline`` is a folder or a name.
        input: A file, a folder of files, or "-" for stdin.
        output: The file to write, an open binary stream, or a folder, whose name ends with a slash.
        input_format: The name of a format, see ``corpora.formats.lookup``. None infers it from the file.
        output_format: The format of the output. None infers it from the file; a stream gets JSONL.
        engine: "local": the processes of ``linking`` on this computer. "ray": a Ray cluster, whose nodes must
            have this package and the pipeline, the input and the output at the same paths.
        address: The address of the cluster. None starts Ray on this computer.
        workers: The number of Ray's workers. None: one per GPU, or one per core if there is no GPU.
        progress: Makes a progress bar like ``tqdm`` from ``total``, the bytes of the input.

    Returns:
        The numbers of linked documents and mentions.

    Raises:
        PelError: Nothing can be read, the format or the output cannot be written, another process is writing
            to the output, a bad document ends the run, or the cluster fails.
        OSError: A file cannot be read or written.
    """
    check_engine(engine)
    if engine == "ray":
        linking = replace(linking, n_process=1, reading=iter)
    format, writer = _output_format(linking, output, output_format)
    source = open_documents(str(input), input_format)
    is_folder = isinstance(output, str) and output.endswith(("/", os.sep))
    if engine == "ray" and not (isinstance(linking.pipeline, str) and is_folder):
        remedy = f"end the output with a slash, as in: --output {output}/"
        raise PelError(f"{output}: a cluster writes a folder, with one file per block", remedy)
    if not isinstance(output, (str, Path)):
        if linking.jointly or not isinstance(writer, TextOutput):
            subject = "the output of joint linking" if linking.jointly else format.name
            raise PelError(f"{subject} cannot be written to stdout", "name a file with --output")
        job = link_job(linking, writer.write_part, progress)
        return _link_to_stream(job, source, output, writer)
    target = Path(output).resolve()  # a symbolic link stays, and what it points to is replaced
    read = Path(input).resolve()
    if read in (target, *target.parents) or target in read.parents:
        problem = f"{output}: is the input, or a folder in or around it"
        raise PelError(problem, "write it somewhere else")
    settings: dict[str, Any] = {"format": format.name}
    if is_folder:
        if linking.jointly or source.total is None:
            subject = "the output of joint linking" if linking.jointly else "the output for stdin"
            raise PelError(f"{subject} is one file", "name a file with --output")
        settings |= linking_settings(linking) | {"size of blocks": [*block_size(), BYTES_PER_GROUP]}
        results: Callable[[Iterable[DocumentBlock]], BlockResults] | None = None
        if engine == "ray":
            make = partial(_node_worker, linking, settings, target)
            results = partial(ray_results, make, address=address, workers=workers)
        job = link_job(linking, partial(_write_file, writer), progress)
        with block_folder(target, settings, suffix=format.suffixes[0]) as blocks:
            by_file = blocks_by_file(source, str(input), *block_size())
            counts = job.run(blocks, by_file, source.total, results)
            blocks.keep_only(counts)
        return LinkedCounts.total(counts.values())
    write_part: WritePart = writer.write_part
    join: Callable[[Sequence[Path], Path], object] = writer.join
    if linking.jointly:
        joint_settings(linking.linker)  # raises its error before the work
        settings["way"] = "joint"
        join = partial(write_jointly, linking.nlp, linking.linker, writer)
        write_part = partial(write_corpus_part, linking.linker)
    settings |= linking_settings(linking)
    job = link_job(linking, write_part, progress)
    return job.to_file(source, target, settings, block_size(), join)


def _output_format(
    linking: Linking, output: str | Path | BinaryIO, name: str | None
) -> tuple[Format, Output]:
    """Return the format of the output and its writer; PelError if the format is unknown or only read."""
    if isinstance(output, (str, Path)):
        subject = str(output)
        format = format_named(name) if name else format_of(str(Path(output)))
    else:
        subject = "stdout"
        format = format_named(name or "jsonl")
    if format is None or format.output is None:
        raise PelError(
            f"{subject}: unknown output format",
            f"end the name in one of {suffixes('output')}, or name the format with --to",
        )
    writer = format.output_with(linking.linker.output.xrefs or (), linking.attributes)
    return format, writer or format.output


def block_size() -> BlockSize:
    """Return the size of a block of documents to link."""
    return BlockSize(DOCUMENTS_PER_BLOCK, BYTES_PER_BLOCK)


def _node_worker(
    linking: Linking, settings: dict[str, Any], folder: Path, device: str
) -> Callable[[DocumentBlock], BlockResult]:
    """Return a worker of another computer; PelError if its pipeline differs from that of the settings."""
    node_settings = linking_settings(linking)
    expected = {name: settings[name] for name in node_settings}
    if changed := changed_settings(node_settings, expected):
        problem = f"{socket.gethostname()}: has another {changed}"
        raise PelError(problem, "install the same on all nodes")
    if device != "cpu":
        for tower in linking.linker.towers:
            encoder_of(tower).to(device)
    format, writer = _output_format(linking, folder, settings["format"])
    write_block = partial(_write_block, linking, partial(_write_file, writer))
    return block_worker(Blocks(folder, format.suffixes[0]), write_block)


def _write_file(
    output: Output, docs: Iterable[tuple[int, Doc]], spans_key: str | None, path: Path
) -> None:
    """Write docs to a complete file, as a ``WritePart``."""
    part = path.with_name("part")
    output.write_part(docs, spans_key, part)
    output.join([part], path)


def link_job(linking: Linking, write_part: WritePart, progress: Callable[..., Any]) -> BlockJob:
    """Return a job that links documents; ``write_part`` writes the docs of a block."""
    write_block = partial(_write_block, linking, write_part)
    return BlockJob(write_block, linking.n_process, linking.on_error, progress)


def _link_to_stream(
    job: BlockJob, source: DocumentStream, stream: BinaryIO, output: TextOutput
) -> LinkedCounts:
    """Link documents, and write each block to a stream as soon as it is linked."""
    stream.write(encoded(output.head))
    with TemporaryDirectory(prefix="spacy-pel-") as folder:
        blocks = Blocks(Path(folder))
        blocks.entries.mkdir()

        def pass_on(name: str) -> None:
            stream.write(blocks.path(name).read_bytes())
            stream.flush()
            blocks.path(name).unlink()

        by_size = document_blocks(source, *block_size())
        counts = job.run(blocks, by_size, source.total, on_block=pass_on)
    stream.write(encoded(output.tail))
    return LinkedCounts.total(counts.values())


def linking_settings(linking: Linking) -> dict[str, Any]:
    """Return everything except the documents that determines the output, as plain data."""
    packages = ("spacy-pel", "spacy", "torch", "numpy")
    return {
        "pipeline": pipeline_fingerprint(linking.nlp),
        "spans key": linking.linker.spans_key,
        "number of candidates": linking.linker.search.candidates,
        "list of vocabularies": linking.linker.output.xrefs,
        "list of attributes": linking.attributes,
        "file of code": linking.code and hashlib.sha256(linking.code.read_bytes()).hexdigest(),
        "batch size": linking.batch_size,
        "set of versions": {**{n: version(n) for n in packages}, "faiss": faiss.__version__},
    }


def _write_block(
    linking: Linking, write_part: WritePart, block: DocumentBlock, path: Path, done: ReportDone
) -> LinkedCounts:
    """Link the documents of a block, and write them to a file."""
    counts: list[int] = []
    skipped: list[str] = []
    left_out: list[str] = []

    def counted() -> Iterator[tuple[int, Doc]]:
        for number, doc in _linked(linking, block, skipped, left_out):
            yield number, doc
            counts.append(len(mention_spans(doc, key)))
            # Integers that add up to the bytes of the block.
            done(1, round(len(counts) * share) - round((len(counts) - 1) * share))

    key, share = linking.linker.spans_key, block.n_bytes / len(block.records)
    with linking.nlp.memory_zone():
        write_part(counted(), key, path)
    release_memory()
    first = tuple(left_out[:MAX_SHOWN])
    return LinkedCounts(len(counts), sum(counts), tuple(skipped), len(left_out), first)


def _linked(
    linking: Linking, block: DocumentBlock, skipped: list[str], left_out: list[str]
) -> Iterator[tuple[int, Doc]]:
    """Yield the linked documents of a block, with their numbers; PelError for a bad one that ends the run.

    If a component fails on a batch, its documents are linked one by one, to find the one at fault.
    """
    key, n_linked = linking.linker.spans_key, 0
    failure: Exception | None = None

    def doc_of(record: RawDocument, left_out: list[str]) -> Doc:
        doc = record.doc(linking.nlp, key, left_out)
        if linking.keep_ids:
            keep_ids(doc, record.document(key, []), key)
        return doc

    def read() -> Iterator[tuple[int, RawDocument, Doc]]:
        for number, record in enumerate(block.records, block.first):
            try:
                yield number, record, doc_of(record, left_out)
            except PelError as error:
                skipped.append(refusal(number, error, linking.on_error))

    def link(batch: list[tuple[int, RawDocument, Doc]]) -> Iterator[tuple[int, Doc]]:
        nonlocal failure
        numbers, records, docs = zip(*batch)
        try:
            yield from zip(numbers, list(linking.docs(docs)))
        except OSError:
            raise
        except Exception as error:
            if isinstance(error, PelError) and linking.on_error is OnError.stop:
                raise
            failure = error
            if len(batch) > 1:
                for number, record in zip(numbers, records):
                    yield from link([(number, record, doc_of(record, []))])
                return
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            problem = f"{records[0].where}: a component failed on it: {reason}"
            located = PelError(problem, "correct the document")
            skipped.append(refusal(numbers[0], located, linking.on_error))

    for batch in batches(read(), linking.batch_size, lambda item: doc_length(item[2])):
        for numbered in link(batch):
            n_linked += 1
            yield numbered
    if failure and block.first == 1 and not n_linked:  # the pipeline is at fault, not the documents
        raise failure
