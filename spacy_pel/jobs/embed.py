"""Encodes all entities of a KB, chunk by chunk, and writes them as its vectors."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from spacy.language import Language

from ..kb.knowledge_base import KnowledgeBase
from ..kb.transaction import CHUNKS_PREFIX
from ..kb.vector_writing import reduce_vectors, write_vectors
from ..kb.vectors.finders import INDEX_MEMORY
from ..reading import proxies
from ..system.whole_files import writer_lock
from .kb_rows import LinkerMentions, LinkerRows, StoredRows
from .vector_chunks import Job, VectorChunks, finished_chunks

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker

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

    The linker's ``row_kind`` says which rows an entity gets. A linker that has this KB open must open
    it again: ``linker.set_kb(path)``.

    Until the very end, and after any error or interruption, the KB stays as it was, and no other
    process can write to it. Chunks that are encoded are kept in its folder, in float32. The next run
    with the same encoder goes on from them; its vectors are, to the last bit, those of a run that
    was never interrupted.

    Args:
        path: The folder of the KB.
        linker: A linker with weights.
        dtype: See ``kb.vector_writing.write_vectors``.
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
    with KnowledgeBase.open(path) as kb:
        job = _job(kb, rows, reuse)

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:  # read under the lock of writers
        partial = _opened_chunks(Path(job.partial))
        finished = partial.finished()
        if finished:
            report(f"resuming: {len(finished):,} of {job.n_chunks:,} chunks done")
        missing = [number for number in range(job.n_chunks) if number not in finished]
        made = finished_chunks(job, linker.retriever, missing, engine, address)
        initial = job.n_entities - sum(map(job.size, missing))
        with progress(total=job.n_entities, initial=initial) if progress else nullcontext() as bar:
            for number in made:
                if bar is not None:
                    bar.update(job.size(number))
        reused = 0
        for number in range(job.n_chunks):
            chunk = partial.read(number)
            reused += chunk.reused
            yield chunk.vectors, chunk.entities
        if job.reuse:
            report(f"re-used the vectors of {reused:,} of {job.n_entities:,} entities")

    made = write_vectors(
        job.kb,
        batches(),
        dim=rows.dim,
        fingerprint=rows.fingerprint,
        row_kind=rows.row_kind,
        dtype=dtype,
        index=index,
        memory=memory,
        mentions=LinkerMentions(linker, nlp),
    )
    shutil.rmtree(job.partial)
    return made


def update_vectors(
    path: str | Path,
    linker: ProxyLinker,
    *,
    dtype: str = "auto",
    index: str = "auto",
    dim: int | None = None,
    alike: float | None = None,
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
        dim: The length of the stored vectors, see ``kb.vector_writing.reduce_vectors``; None: whole.
        alike: The cosine from which names share a code, see ``reduce_vectors``.
        reuse: The folder of an older KB whose vectors are reused, see ``embed_kb``.
        **options: Further options of ``embed_kb``.

    Returns:
        The KB with its new vectors, or None if it had them already.

    Raises:
        PelError: See ``embed_kb`` and ``reduce_vectors``.
    """
    with KnowledgeBase.open(path) as present:
        known = _is_of_encoder(present, linker)
        vectors = present.settings["vectors"]
        whole = known and present.stored_dim == present.dim
        usable = (
            (whole or (known and present.stored_dim == dim))
            and _mentions_fit(present, linker)
            and dtype in ("auto", vectors["dtype"])
            and index in ("auto", vectors["index"])
        )
        if whole and reuse is None and vectors["dtype"] == "float32":
            reuse = path  # it has what the encoder would give
    made = None
    if not usable:
        old = None if reuse is None else KnowledgeBase.open(reuse)
        made = embed_kb(path, linker, dtype=dtype, index=index, reuse=old, **options)
        vectors = made.settings["vectors"]
    else:
        with writer_lock(Path(path)):  # a run that was killed at its very end left its chunks
            _remove_chunks(Path(path))
    shorter = dim if dim != vectors["stored_dim"] else None
    shared = alike if alike != vectors["alike"] else None
    if shorter is None and shared is None:
        return made
    made, share = reduce_vectors(path, shorter, shared or vectors["alike"])
    if shorter:
        options.get("report", logger.info)(
            f"stored in {dim} numbers, with {share:.1%} of their squared length"
        )
    return made


def is_embedded(kb: KnowledgeBase, linker: ProxyLinker) -> bool:
    """Whether a KB has the vectors that ``embed_kb`` would give it, in whatever form."""
    known = _is_of_encoder(kb, linker) and kb.stored_dim == kb.dim
    return known and _mentions_fit(kb, linker)


def _is_of_encoder(kb: KnowledgeBase, linker: ProxyLinker) -> bool:
    """Whether the vectors of a KB's names are of a linker's encoder, shortened or not."""
    return (
        kb.has_vectors
        and kb.row_kind == linker.cfg["row_kind"]
        and kb.fingerprint == linker.retriever.entity_fingerprint()
    )


def _mentions_fit(kb: KnowledgeBase, linker: ProxyLinker) -> bool:
    return not kb.mentions or kb.mentions.fingerprint == linker.retriever.fingerprint()


def _job(kb: KnowledgeBase, rows: LinkerRows, reuse: KnowledgeBase | None) -> Job:
    decisive = {  # other data give another folder
        "encoder": rows.fingerprint,
        "row_kind": rows.row_kind,
        "kb": kb.settings["checksum"],
        "chunk": proxies.CHUNK,
        "reuse": reuse.settings["checksum"] if reuse else None,
    }
    text = json.dumps(decisive, sort_keys=True).encode()
    folder = CHUNKS_PREFIX + hashlib.blake2b(text, digest_size=8).hexdigest()
    return Job(
        kb=str(kb.path),
        checksum=kb.settings["checksum"],
        n_entities=len(kb),
        chunk=proxies.CHUNK,
        partial=str(kb.path / folder),
        row_kind=rows.row_kind,
        reuse=str(reuse.path) if reuse else None,
    )


def _opened_chunks(folder: Path) -> VectorChunks:
    """The chunks in a folder, which is made if needed. Other folders of chunks are removed."""
    _remove_chunks(folder.parent, keep=folder)
    folder.mkdir(exist_ok=True)
    for half_written in folder.glob("*.tmp"):
        half_written.unlink()
    return VectorChunks(folder)


def _remove_chunks(kb_folder: Path, keep: Path | None = None) -> None:
    for folder in kb_folder.glob(f"{CHUNKS_PREFIX}*"):
        if folder != keep:
            shutil.rmtree(folder)
