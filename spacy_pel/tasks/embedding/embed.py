"""All entities of a KB encoded, chunk by chunk, and written as its vectors."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...kb.folder.vector_chunks import VectorChunks, chunks_folder, opened_chunks
from ...kb.knowledge_base import KnowledgeBase
from ...kb.vectors.inverted_file import INDEX_MEMORY
from ...kb.writing.compaction import compact
from ...kb.writing.vector_writing import write_vectors
from ...reading import proxies
from .chunks import Job, check_records
from .engines import finished_chunks
from .rows import LinkerRows, StoredRows

if TYPE_CHECKING:
    from ...pipeline.proxy_linker import ProxyLinker

logger = logging.getLogger(__name__)

Report = Callable[[str], object]


def embed_kb(
    path: str | Path,
    linker: ProxyLinker,
    *,
    dtype: str = "auto",
    index: str = "auto",
    memory: int = INDEX_MEMORY,
    reuse: KnowledgeBase | None = None,
    engine: str = "local",
    address: str | None = None,
    progress: Callable[..., Any] | None = None,
    report: Report = logger.info,
) -> KnowledgeBase:
    """Encode all entities of a KB folder with the linker's retriever, and open the KB again.

    Which rows there are is for the linker's ``row_kind`` to say. A KB of several segments is
    compacted first. A linker that has this KB open must open it anew: ``linker.set_kb(path)``.

    Until the very end, and after any error or interruption, the KB stays as it was; nobody else can
    write to it meanwhile. The chunks that were encoded until then are kept in its folder, in
    float32, and the next run with the same encoder goes on there; its vectors are, to the last bit,
    those of a run without a break.

    dtype, index, memory: see ``write_vectors``.
    reuse: an older KB with vectors of the same encoder; an entity whose texts are the same there
    takes its rows, as they are stored.
    engine: "local", this computer, with a process for each GPU if it has several; or "ray", the
    Ray cluster at the address, or a local one. Its nodes must see the folder of the KB.
    progress: makes a bar, as tqdm does, from ``total`` and ``initial``, numbers of entities.
    report: called with a line about all else that happens.
    Raises PelError if there is no KB or the linker has no weights, if another process writes to the
    KB, if nothing can be re-used, for unknown settings, and for a full disk.
    """
    rows = LinkerRows(linker)
    if reuse is not None:
        StoredRows(reuse).check(rows)
    with _one_segment(path, report) as kb:  # closed again, lest it hold on to files that are to go
        job = _job(kb, rows, reuse)

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:  # read under the lock of writers
        check_records(job.kb, job.records)
        partial = opened_chunks(Path(job.partial))
        missing = _missing_chunks(job, partial, report)
        finished = finished_chunks(job, linker.retriever, missing, engine, address)
        total = job.n_entities
        initial = total - sum(len(job.chunks[number]) for number in missing)
        with progress(total=total, initial=initial) if progress else nullcontext() as bar:
            for number in finished:
                if bar is not None:
                    bar.update(len(job.chunks[number]))
        yield from _rows_in_order(job, partial, report)

    made = write_vectors(
        job.kb,
        batches(),
        dim=rows.dim,
        fingerprint=rows.fingerprint,
        row_kind=rows.row_kind,
        dtype=dtype,
        index=index,
        memory=memory,
    )
    shutil.rmtree(job.partial)
    return made


def has_settings(kb: KnowledgeBase, dtype: str, index: str) -> bool:
    """Whether the vectors that the KB has are kept and found as these say; see ``embed_kb``."""
    vectors = kb.manifest["vectors"]
    return dtype in ("auto", vectors["dtype"]) and index in ("auto", vectors.get("index"))


def is_embedded(kb: KnowledgeBase, linker: ProxyLinker) -> bool:
    """Whether the KB already has the vectors that ``embed_kb`` would give it, however kept."""
    return (
        kb.has_vectors
        and kb.stored_dim == kb.dim
        and kb.row_kind == linker.cfg["row_kind"]
        and kb.fingerprint == linker.retriever.entity_fingerprint()
    )


def _one_segment(path: str | Path, report: Report) -> KnowledgeBase:
    """The KB, compacted if need be, so that its entities are numbered without a gap."""
    kb = KnowledgeBase.open(path)
    if len(kb.segments) == 1 and not len(kb.segments[0].removed):
        return kb
    with kb:
        report(f"compacting {kb.path}: its {len(kb.segments)} segments become one")
    return compact(kb.path)


def _job(kb: KnowledgeBase, rows: LinkerRows, reuse: KnowledgeBase | None) -> Job:
    records = kb.manifest["segments"][0]["records"]
    decisive = {
        "encoder": rows.fingerprint,
        "row_kind": rows.row_kind,
        "records": records,
        "chunk": proxies.CHUNK,
        "reuse": reuse.manifest["segments"] if reuse else None,
    }
    return Job(
        kb=str(kb.path),
        records=records,
        chunks=[range(len(kb))[i : i + proxies.CHUNK] for i in range(0, len(kb), proxies.CHUNK)],
        partial=str(chunks_folder(kb.path, decisive)),
        row_kind=rows.row_kind,
        reuse=str(reuse.path) if reuse else None,
    )


def _missing_chunks(job: Job, partial: VectorChunks, report: Report) -> list[int]:
    finished = partial.finished()
    if finished:
        report(f"resuming: {len(finished):,} of {len(job.chunks):,} chunks done")
    return [number for number in range(len(job.chunks)) if number not in finished]


def _rows_in_order(
    job: Job, partial: VectorChunks, report: Report
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The rows of all chunks, as ``write_vectors`` reads them."""
    reused = 0
    for number in range(len(job.chunks)):
        chunk = partial.read(number)
        reused += chunk.reused
        yield chunk.vectors, chunk.entities
    if job.reuse:
        report(f"re-used the vectors of {reused:,} of {job.n_entities:,} entities")
