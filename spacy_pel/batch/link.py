"""Files of documents, linked block by block to a file, a folder or a stream.

A run that was interrupted goes on where it was, and its result has the same bytes as that of a run
without an interruption, whoever links: this process, several, or the nodes of a Ray cluster.
"""

import hashlib
import os
import socket
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import faiss
from spacy.tokens import Doc

from ..corpora import DocumentStream, RawDocument, format_named, format_of, open_documents
from ..corpora.doc_conversion import keep_ids
from ..corpora.formats.base import Output, TextOutput, encoded
from ..corpora.formats.lookup import suffixes
from ..errors import PelError
from ..models.architectures import encoder_of
from ..spans import mention_spans
from .blocks import Blocks, block_folder, differing
from .document_blocks import (
    BYTES_PER_GROUP,
    SHOWN,
    BlockJob,
    DocumentBlock,
    Done,
    LinkedCounts,
    NoBar,
    OnError,
    blocks_by_file,
    document_blocks,
    keeper,
    refusal,
)
from .fingerprints import pipeline_fingerprint
from .joint_linking import joint_settings, write_corpus_part, write_jointly
from .link_docs import Linking, batches, give_back_memory
from .workers import check_engine, ray_results

# The size of a block: what a process holds in memory, and what a crash costs. After each block spaCy's
# memory of words is emptied.
DOCUMENTS_PER_BLOCK, BYTES_PER_BLOCK = 1_000, 4 * 2**20
WritePart = Callable[[Iterable[tuple[int, Doc]], str | None, Path], None]  # see ``Output``


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

    An output file appears as a whole at the end. After an error or an interruption it is as it was
    before, and the documents linked so far are kept in a folder beside it. The same call then goes
    on from there, and its result has the same bytes as that of a call without an interruption.
    Memory does not grow with the number of documents.

    An output folder gets one file a block, which appears whole and is named for the file of the input:
    ``pubmed25n0001.xml.gz-00001001.jsonl`` has the documents of ``pubmed25n0001.xml.gz`` from number
    1,001 on. The next call leaves out the blocks whose files are whole and of the same documents.

    Args:
        linking: The pipeline, and how documents are run through it; for Ray it is named, not loaded.
        input: A file, a folder of files, the URL of one of these, or "-" for stdin.
        output: The file to write; an open binary stream; or a folder, if it ends with a slash.
        input_format: The name of a format, see ``corpora.formats.lookup``. None: the file's name decides.
        output_format: The same for the output; a stream gets JSONL.
        engine: "local": this process, with the processes of ``linking``. "ray": a Ray cluster, whose
            nodes must have this package and see the pipeline and both folders at the same paths.
        address: The address of the cluster. None starts Ray on this computer.
        workers: The number of Ray's workers. None: one a GPU, or one a core where there is no GPU.
        progress: Makes a bar, as ``tqdm`` does, from ``total``, the bytes of the input.

    Raises:
        PelError: Nothing can be read, the format or the output cannot be written, another process
            writes it, a document is bad and ends the run, or the cluster fails.
        OSError: A file cannot be read or written.
    """
    check_engine(engine)
    if engine == "ray":
        linking = replace(linking, n_process=1, reading=iter)
    is_file = isinstance(output, (str, Path))
    name = output_format or ("" if is_file else "jsonl")
    format = format_named(name) if name else format_of(str(Path(output)))
    if format is None or format.output is None:
        raise PelError(
            f"{output if is_file else 'stdout'}: the format to write is not known",
            f"end the name in one of {suffixes('output')}, or name the format with --to",
        )
    written = format.output_with(linking.linker.output.xrefs or (), linking.attributes)
    source = open_documents(str(input), input_format)
    is_folder = isinstance(output, str) and output.endswith(("/", os.sep))
    if engine == "ray" and not (isinstance(linking.pipeline, str) and is_folder):
        remedy = f"end the output with a slash, as in: --output {output}/"
        raise PelError(f"{output}: a cluster writes a folder, with one file a block", remedy)
    if not is_file:
        if linking.jointly or not isinstance(written, TextOutput):
            what = "what is linked jointly" if linking.jointly else format.name
            raise PelError(f"{what} cannot be written to stdout", "name a file with --output")
        job = link_job(linking, written.write_part, progress)
        return _link_to_stream(job, source, output, written)
    target = Path(output).resolve()  # what a symbolic link points to is written; it stays
    read = Path(input).resolve()
    if read in (target, *target.parents) or target in read.parents:
        problem = f"{output}: is what is read, or in its folder, or around it"
        raise PelError(problem, "write it somewhere else")
    settings = {"format": format.name}
    if is_folder:
        if linking.jointly or source.total is None:
            what = "what is linked jointly" if linking.jointly else "what comes from stdin"
            raise PelError(f"{what} is one file", "name a file with --output")
        settings |= linking_settings(linking) | {"size of blocks": [*block_size(), BYTES_PER_GROUP]}
        results = None
        if engine == "ray":
            make = partial(_node_worker, linking, settings, target)
            results = partial(ray_results, make, address=address, workers=workers)
        job = link_job(linking, partial(_write_alone, written), progress)
        with block_folder(target, settings, suffix=format.suffixes[0]) as blocks:
            found = blocks_by_file(source, str(input), *block_size())
            counts = job.run(blocks, found, source.total, results)
            blocks.keep_only(counts)
        return sum(counts.values(), LinkedCounts())
    write_part, join = written.write_part, written.join
    if linking.jointly:
        joint_settings(linking.linker)  # the error comes before the work
        settings["way"] = "joint"
        join = partial(write_jointly, linking.nlp, linking.linker, written)
        write_part = partial(write_corpus_part, linking.linker)
    settings |= linking_settings(linking)
    job = link_job(linking, write_part, progress)
    return job.to_file(source, target, settings, block_size(), join)


def block_size() -> tuple[int, int]:
    """A block ends after this many documents, or bytes of them."""
    return DOCUMENTS_PER_BLOCK, BYTES_PER_BLOCK


def _node_worker(
    linking: Linking, settings: dict[str, Any], folder: Path, device: str
) -> Callable[[DocumentBlock], tuple[str, LinkedCounts]]:
    """What links blocks on another computer; PelError if its pipeline is not that of the settings."""
    own = linking_settings(linking)
    if different := differing(own, {name: settings[name] for name in own}):
        problem = f"{socket.gethostname()}: has another {different}"
        raise PelError(problem, "install the same on all nodes")
    if device != "cpu":
        for tower in linking.linker.towers:
            encoder_of(tower).to(device)
    format = format_named(settings["format"])
    output = format.output_with(linking.linker.output.xrefs or (), linking.attributes)
    write_part = partial(_write_alone, output)
    return keeper(Blocks(folder, format.suffixes[0]), partial(_write, linking, write_part))


def _write_alone(
    output: Output, docs: Iterable[tuple[int, Doc]], spans_key: str | None, path: Path
) -> None:
    """Write docs to a file that is no part of another one."""
    part = path.with_name("part")
    output.write_part(docs, spans_key, part)
    output.join([part], path)


def link_job(linking: Linking, write_part: WritePart, progress: Callable[..., Any]) -> BlockJob:
    """Linking documents, block by block; ``write_part`` writes the docs of a block."""
    write = partial(_write, linking, write_part)
    return BlockJob(write, linking.n_process, linking.on_error, progress)


def _link_to_stream(
    job: BlockJob, source: DocumentStream, stream: BinaryIO, output: TextOutput
) -> LinkedCounts:
    """Link documents block by block, and write each block to a stream as soon as it is linked."""
    stream.write(encoded(output.head))
    with TemporaryDirectory(prefix="spacy-pel-") as folder:
        blocks = Blocks(Path(folder))
        blocks.kept.mkdir()

        def pass_on(name: str) -> None:
            stream.write(blocks.path(name).read_bytes())
            stream.flush()
            blocks.path(name).unlink()

        found = document_blocks(source, *block_size())
        counts = job.run(blocks, found, source.total, when_made=pass_on)
    stream.write(encoded(output.tail))
    return sum(counts.values(), LinkedCounts())


def linking_settings(linking: Linking) -> dict[str, Any]:
    """All of a pipeline that decides the output, as plain data."""
    packages = ("spacy-pel", "spacy", "torch", "numpy")
    return {
        "pipeline": pipeline_fingerprint(linking.nlp),
        "component": linking.component,
        "spans key": linking.linker.spans_key,
        "number of candidates": linking.linker.search.candidates,
        "list of vocabularies": linking.linker.output.xrefs,
        "list of attributes": linking.attributes,
        "file of code": linking.code and hashlib.sha256(linking.code.read_bytes()).hexdigest(),
        "batch size": linking.batch_size,
        "set of versions": {**{n: version(n) for n in packages}, "faiss": faiss.__version__},
    }


def _write(
    linking: Linking, write_part: WritePart, block: DocumentBlock, path: Path, done: Done
) -> LinkedCounts:
    """Link the documents of a block, and write them to a file."""
    counts: list[int] = []
    skipped: list[str] = []
    left_out: list[str] = []

    def counted() -> Iterator[tuple[int, Doc]]:
        for number, doc in _linked(linking, block, skipped, left_out):
            yield number, doc
            counts.append(len(mention_spans(doc, key)))
            # Whole bytes, whose sum is that of the block.
            done(1, round(len(counts) * share) - round((len(counts) - 1) * share))

    key, share = linking.linker.spans_key, block.n_bytes / len(block.records)
    with linking.nlp.memory_zone():
        write_part(counted(), key, path)
    give_back_memory()
    first = tuple(left_out[:SHOWN])
    return LinkedCounts(len(counts), sum(counts), tuple(skipped), len(left_out), first)


def _linked(
    linking: Linking, block: DocumentBlock, skipped: list[str], left_out: list[str]
) -> Iterator[tuple[int, Doc]]:
    """The linked documents of a block, with their numbers; PelError for one that ends the run.

    Where a component fails, the documents are linked one by one, to know which of them it was.
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
            problem = f"{records[0].where}: a component fails at it: {reason}"
            placed = PelError(problem, "correct the document")
            skipped.append(refusal(numbers[0], placed, linking.on_error))

    for batch in batches(read(), linking.batch_size, itemgetter(2)):
        for numbered in link(batch):
            n_linked += 1
            yield numbered
    if failure and block.first == 1 and not n_linked:  # it is not the documents
        raise failure
