"""Encodes all entities of a KB, chunk by chunk, and writes them as its vectors."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from spacy.language import Language

from ...kb.folder.lock import writer_lock
from ...kb.folder.vector_chunks import (
    VectorChunks,
    chunks_folder,
    opened_chunks,
    remove_chunks,
)
from ...kb.knowledge_base import KnowledgeBase
from ...kb.vectors.inverted_file import INDEX_MEMORY
from ...kb.writing.compaction import compact
from ...kb.writing.mention_changes import embedded_mentions
from ...kb.writing.vector_writing import write_vectors
from ...reading import proxies
from .chunks import Job, check_records
from .engines import finished_chunks
from .mention_rows import LinkerMentions
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
    nlp: Language | None = None,
    progress: Callable[..., Any] | None = None,
    report: Report = logger.info,
) -> KnowledgeBase:
    """Encode all entities of a KB with a linker's retriever, and open the KB again.

    The linker's ``row_kind`` says which rows an entity gets. A KB of several segments is compacted
    first. A linker that has this KB open must open it again: ``linker.set_kb(path)``.

    Until the very end, and after any error or interruption, the KB stays as it was, and no other
    process can write to it. Chunks that are encoded are kept in its folder, in float32. The next run
    with the same encoder goes on from them; its vectors are, to the last bit, those of a run that
    was never interrupted.

    Args:
        path: The folder of the KB.
        linker: A linker with weights.
        dtype: See ``kb.writing.vector_writing.write_vectors``.
        index: See ``write_vectors``.
        memory: See ``write_vectors``.
        reuse: An older KB with vectors of the same encoder. An entity whose texts are the same there
            takes its rows from it, as they are stored.
        engine: "local" is this computer, with one process for each GPU if it has several. "ray" is a
            Ray cluster, whose nodes must see the folder of the KB.
        address: The address of the Ray cluster. None starts Ray on this computer.
        nlp: The pipeline of the linker. It is needed if the KB has learnt mentions, and the linker
            listens to another component.
        progress: Makes a bar, as ``tqdm`` does, from ``total`` and ``initial``, numbers of entities.
        report: Called with a line about everything else that happens.

    Returns:
        The KB with its new vectors.

    Raises:
        PelError: There is no KB, the linker has no weights, another process writes to the KB, the
            older KB cannot be reused, a setting is unknown, or the disk is full.
    """
    rows = LinkerRows(linker)
    if reuse is not None:
        StoredRows(reuse).check(rows)
    with _one_segment(path, report) as kb:  # closed again, so that its old files can be removed
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
        mentions=partial(embedded_mentions, encoder=LinkerMentions(linker, nlp)),
    )
    shutil.rmtree(job.partial)
    return made


def update_vectors(
    path: str | Path,
    linker: ProxyLinker,
    *,
    dtype: str = "auto",
    index: str = "auto",
    reuse: str | Path | None = None,
    **options: Any,
) -> KnowledgeBase | None:
    """Give a KB the vectors of a linker, unless it has them already in the form that is asked for.

    Vectors that the encoder made and the KB stores in another form are not computed again.

    Args:
        path: The folder of the KB.
        linker: A linker with weights.
        dtype: The type of the stored vectors, see ``embed_kb``.
        index: The kind of the index, see ``embed_kb``.
        reuse: The folder of an older KB whose vectors are reused, see ``embed_kb``.
        **options: Further options of ``embed_kb``.

    Returns:
        The KB with its new vectors, or None if it had them already.

    Raises:
        PelError: See ``embed_kb``.
    """
    with KnowledgeBase.open(path) as present:  # closed again, so that its old files can go
        fits = _has_names(present, linker)
        is_done = is_embedded(present, linker) and _has_settings(present, dtype, index)
        if fits and reuse is None and present.manifest["vectors"]["dtype"] == "float32":
            reuse = path  # it has what the encoder would give
    if is_done:
        with writer_lock(Path(path)):  # a run that was killed at its very end left its chunks
            remove_chunks(Path(path))
        return None
    old = None if reuse is None else KnowledgeBase.open(reuse)
    return embed_kb(path, linker, dtype=dtype, index=index, reuse=old, **options)


def is_embedded(kb: KnowledgeBase, linker: ProxyLinker) -> bool:
    """Whether a KB has the vectors that ``embed_kb`` would give it, in whatever form."""
    return _has_names(kb, linker) and (
        not kb.mentions or kb.mentions.fingerprint == linker.retriever.fingerprint()
    )


def _has_names(kb: KnowledgeBase, linker: ProxyLinker) -> bool:
    """The same, whatever its learnt mentions have."""
    return (
        kb.has_vectors
        and kb.stored_dim == kb.dim
        and kb.row_kind == linker.cfg["row_kind"]
        and kb.fingerprint == linker.retriever.entity_fingerprint()
    )


def _has_settings(kb: KnowledgeBase, dtype: str, index: str) -> bool:
    """Whether the vectors of a KB are stored and found as these settings say."""
    vectors = kb.manifest["vectors"]
    return dtype in ("auto", vectors["dtype"]) and index in ("auto", vectors.get("index"))


def _one_segment(path: str | Path, report: Report) -> KnowledgeBase:
    """The KB with one segment, so that its entities are numbered without a gap."""
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
