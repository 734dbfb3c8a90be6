"""Files of documents linked to a folder, one file a block: here, or by the nodes of a Ray cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..documents import open_documents
from ..documents.document_files import FileStream
from ..errors import PelError
from .block_folder import block_folder
from .block_linker import BlockJob, BlockLinker
from .document_blocks import BYTES_PER_GROUP, BlockReport, FileGroup, file_groups
from .link_docs import Linking, LinkingChoices
from .link_files import (
    BYTES_PER_PART,
    DOCUMENTS_PER_PART,
    LinkProgress,
    linking_settings,
    output_format_of,
)
from .output_parts import LinkedCounts
from .ray_linking import linked_by_ray

ENGINES = ("local", "ray")


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
        folder: The folder to write, new or of an earlier call.
        input_format: See ``link_files``.
        output_format: The same for the output. None: the name of the folder decides.
        engine: "local": this process, with the processes of ``choices``. "ray": a Ray cluster, whose
            nodes must have this package and see the pipeline and both folders at the same paths.
        address: The address of the cluster. None starts Ray on this computer.
        workers: The number of Ray's workers. None: one a GPU, or one a core where there is no GPU.
        copy_to: A folder of each node, to which the first worker there copies the KB of the linker.
            Environment variables in it are those of the node. None: all nodes read the same KB.
        progress: Receives the progress of linking.

    Returns:
        The number of documents and mentions, and a message for each document that was skipped.

    Raises:
        PelError: As ``link_files``; or the folder holds something else; or the cluster cannot be
            reached, or it loses too many workers.
        OSError: A file cannot be read or written.
    """
    if engine not in ENGINES:
        raise PelError(f'unknown engine "{engine}"', f"choose one of {', '.join(ENGINES)}")
    format = output_format_of(folder, output_format)
    source, target = _files(choices, str(input), input_format), Path(folder).resolve()
    if target in (Path(input).resolve(), *Path(input).resolve().parents):
        raise PelError(f"{folder}: is what is read, or a folder around it", "write somewhere else")
    size = (DOCUMENTS_PER_PART, BYTES_PER_PART)
    linking = choices.opened()
    settings = {
        **linking_settings(linking),
        "format": format.name,
        "size of blocks": [*size, BYTES_PER_GROUP],
    }
    job = BlockJob(choices, settings, str(target), format.name, size, copy_to)
    progress.started(source.total)
    with block_folder(target, format.suffixes[0], settings) as blocks:
        groups = list(file_groups(source.files, str(input)))
        if engine == "ray":
            reports = linked_by_ray(job, groups, address, workers, progress)
        else:
            reports = _linked_here(job, linking, groups, progress)
        counts = {report.name: report.counts for report in _told(reports, progress)}
        blocks.keep_only(counts)
    return sum((counts[name] for name in sorted(counts)), LinkedCounts())


def _files(choices: LinkingChoices, given: str, format_name: str | None) -> FileStream:
    """The files of the input; PelError if what is given cannot be linked block by block."""
    if choices.jointly:
        raise PelError("what is linked jointly is one file", "name a file with --output")
    source = open_documents(given, format_name)
    if not isinstance(source, FileStream) or source.total is None:
        raise PelError(
            f"{given}: is no file or folder of files", "give one, or name a file with --output"
        )
    return source


def _linked_here(
    job: BlockJob, linking: Linking, groups: Sequence[FileGroup], progress: LinkProgress
) -> Iterator[BlockReport]:
    """Link blocks in this process, one after the other."""
    linker = BlockLinker(job)
    linker.linking = linking  # it is loaded already
    for group in groups:
        for item in job.work(group):
            yield item if isinstance(item, BlockReport) else linker(item, progress)


def _told(reports: Iterator[BlockReport], progress: LinkProgress) -> Iterator[BlockReport]:
    """The reports; what an earlier run has linked is told to the progress."""
    for report in reports:
        if not report.is_new:
            progress.passed_over(report.counts.documents, report.n_bytes)
        yield report
