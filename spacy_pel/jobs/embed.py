"""Encodes all entities of a KB, block by block, and writes them as its vectors.

A block is a number of entities that follow one another. What is finished survives a crash, whoever
works: this process, one process for each GPU, or a Ray cluster.
"""

from __future__ import annotations

import logging
import shutil
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from spacy.language import Language

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..kb.transaction import CHUNKS_PREFIX
from ..kb.vector_writing import reduce_vectors, write_vectors
from ..reading import proxies
from ..system.whole_files import writer_lock
from .blocks import Blocks, block_folder
from .kb_rows import EncodedRows, LinkerMentions, LinkerRows, StoredRows
from .workers import check_engine, local_results, ray_results

if TYPE_CHECKING:
    from ..linking.retriever import Retriever
    from ..pipeline.proxy_linker import ProxyLinker

logger = logging.getLogger(__name__)

Report = Callable[[str], object]

_SUFFIX, _MODEL = ".npz", "model"
# What a damaged file makes numpy and zipfile raise; a RuntimeError speaks of other kinds of zip files.
_DAMAGE = (OSError, EOFError, ValueError, KeyError, RuntimeError, zipfile.BadZipFile)


def embed_kb(
    path: str | Path,
    linker: ProxyLinker,
    *,
    dtype: str = "auto",
    index: str = "auto",
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
    process can write to it. Blocks that are encoded are kept in its folder, in float32. The next run
    with the same encoder goes on from them; its vectors are, to the last bit, those of a run that
    was never interrupted.

    Args:
        path: The folder of the KB.
        linker: A linker with weights.
        dtype: See ``kb.vector_writing.write_vectors``, also for ``index``.
        reuse: An older KB with vectors of the same encoder. An entity whose texts are the same there
            takes its rows from it, as they are stored.
        engine: "local" is this computer, with one process for each GPU if it has several. "ray" is a
            Ray cluster, whose nodes must have this package and see the folder of the KB.
        address: The address of the Ray cluster. None starts Ray on this computer.
        nlp: The pipeline of the linker. It is needed if the KB has learnt mentions, and the linker
            listens to another component.
        progress: Makes a bar, as ``tqdm`` does, from ``total`` and ``initial``, numbers of entities.
        report: Called with a line about everything else that happens.

    Raises:
        PelError: There is no KB, the linker has no weights, another process writes to the KB, the
            older KB cannot be reused, a setting is unknown, a worker failed, or the disk is full.
    """
    check_engine(engine)
    rows = LinkerRows(linker)
    if reuse is not None:
        StoredRows(reuse).check(rows)
    with KnowledgeBase.open(path) as kb:
        job = EmbeddingJob(
            kb=str(kb.path),
            checksum=kb.settings["checksum"],
            n_entities=len(kb),
            block=proxies.CHUNK,
            row_kind=rows.row_kind,
            reuse=str(reuse.path) if reuse else None,
        )
    settings = {
        "encoder": rows.fingerprint,
        "row kind": rows.row_kind,
        "state of the KB": job.checksum,
        "size of blocks": job.block,
        "KB to reuse": reuse.settings["checksum"] if reuse else None,
    }

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:  # read under the lock of writers
        _remove_blocks(job.folder.parent, keep=job.folder)
        with block_folder(job.folder, settings, suffix=_SUFFIX, restarting=report) as blocks:
            numbers = range(job.n_blocks)
            missing = [n for n in numbers if blocks.finished(_name(n)) is None]
            if len(missing) < job.n_blocks:
                done = job.n_blocks - len(missing)
                report(f"resuming: {done:,} of {job.n_blocks:,} blocks done")
            initial = job.n_entities - sum(map(job.size, missing))
            bar = progress(total=job.n_entities, initial=initial) if progress else nullcontext()
            made = _made(job, missing, linker.retriever, engine, address)
            with bar, closing(made):
                for number in made:
                    if progress:
                        bar.update(job.size(number))
            for number in numbers:
                yield job.read(number)
            if job.reuse:
                reused = sum(blocks.finished(_name(number)) for number in numbers)
                report(f"re-used the vectors of {reused:,} of {job.n_entities:,} entities")

    made = write_vectors(
        job.kb,
        batches(),
        dim=rows.dim,
        fingerprint=rows.fingerprint,
        row_kind=rows.row_kind,
        dtype=dtype,
        index=index,
        mentions=LinkerMentions(linker, nlp),
    )
    _remove_blocks(made.path)
    return made


class EmbeddingJob(NamedTuple):
    """What any process needs to encode any block, as plain data. Every process must see the folders.

    Attributes:
        kb: The folder of the KB.
        checksum: The KB's checksum.
        n_entities: The number of its entities.
        block: The number of entities of a block.
        row_kind: What a row stands for, see ``reading.proxies``.
        reuse: The folder of an older KB whose rows are reused, or None.
    """

    kb: str
    checksum: str
    n_entities: int
    block: int
    row_kind: str
    reuse: str | None

    @property
    def folder(self) -> Path:
        """The folder of the blocks."""
        return Path(self.kb, f"{CHUNKS_PREFIX}vectors")

    @property
    def blocks(self) -> Blocks:
        """The finished blocks; of each is known how many of its entities have rows of another KB."""
        return Blocks(self.folder, _SUFFIX)

    @property
    def n_blocks(self) -> int:
        """The number of blocks."""
        return -(-self.n_entities // self.block)

    def size(self, number: int) -> int:
        """The number of entities of a block."""
        return min(self.block, self.n_entities - number * self.block)

    def read(self, number: int) -> tuple[np.ndarray, np.ndarray]:
        """The vectors of a block, float32 [n, dim], and the number of each one's entity, int64 [n]."""
        path = self.blocks.path(_name(number))
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return arrays["vectors"], arrays["entities"]
        except _DAMAGE as error:
            raise PelError(f"{path}: is damaged", "delete it and run it again") from error

    def saved_worker(self, device: str) -> Callable[[int], int]:
        """What makes a block on a device, by its number, with the weights that ``_made`` saves."""
        from ..architectures import encoder_of, unpack_retriever
        from ..linking.retriever import Retriever

        model = unpack_retriever(self.folder / _MODEL)
        for tower in model.layers:
            encoder_of(tower).to(device)
        return self.worker(Retriever(model))

    def worker(self, retriever: Retriever) -> Callable[[int], int]:
        """What makes a block with a retriever, by its number; PelError if the KB has changed."""
        kb = KnowledgeBase.open(self.kb)
        if kb.settings["checksum"] != self.checksum:
            raise PelError(f"{self.kb}: was changed meanwhile", "run kb embed again")
        all_numbers = kb.numbers_by_id()
        encoded = EncodedRows(retriever, self.row_kind)
        stored = StoredRows(KnowledgeBase.open(self.reuse)) if self.reuse else None

        def write(numbers: np.ndarray, path: Path) -> int:
            entities = kb.entities(numbers)
            others = np.arange(len(entities))
            parts = []
            if stored is not None:
                vectors, owners = stored.rows(entities)
                others = np.setdiff1d(others, owners)
                parts.append((vectors, owners))
            vectors, owners = encoded.rows([entities[place] for place in others])
            vectors, owners = map(np.concatenate, zip(*parts, (vectors, others[owners])))
            order = np.argsort(owners, kind="stable")
            with open(path, "wb") as file:
                np.savez(file, vectors=vectors[order], entities=numbers[owners[order]])
            return len(entities) - len(others)

        def make(number: int) -> int:
            numbers = all_numbers[number * self.block :][: self.block]
            self.blocks.write(_name(number), partial(write, numbers))
            return number

        return make


def _name(number: int) -> str:
    return f"{number:06d}"


def _made(
    job: EmbeddingJob,
    missing: list[int],
    retriever: Retriever,
    engine: str,
    address: str | None,
) -> Iterator[int]:
    """Make blocks, and give the number of each when it is finished, in any order."""
    if not missing:
        return
    import torch

    gpus = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if engine == "ray" or gpus:
        from ..architectures import pack_retriever

        Path(job.folder, _MODEL).write_bytes(pack_retriever(retriever.model))
    if engine == "ray":
        yield from ray_results(job.saved_worker, missing, address=address)
    elif gpus:
        yield from local_results(job.saved_worker, missing, gpus)
    else:
        yield from local_results(lambda device: job.worker(retriever), missing)


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
        with writer_lock(Path(path)):  # a run that was killed at its very end left its blocks
            _remove_blocks(Path(path))
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


def _remove_blocks(kb_folder: Path, keep: Path | None = None) -> None:
    for folder in kb_folder.glob(f"{CHUNKS_PREFIX}*"):
        if folder != keep:
            shutil.rmtree(folder)
