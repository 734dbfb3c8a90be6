"""Encodes all entities of a KB, block by block, and writes them as its vectors.

A block is a number of entities that follow one another. What is finished survives a crash, whoever
works: this process, or a Ray cluster.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from spacy.language import Language

from ..curation.kb_encoder import LinkerRows
from ..errors import PelError
from ..io.whole_files import whole_file, writer_lock
from ..kb.knowledge_base import KnowledgeBase
from ..kb.records.entity import Entity
from ..kb.transaction import CHUNKS_PREFIX
from ..kb.vectors.writing import write_vectors
from ..text import entity_texts
from .blocks import Blocks, block_folder
from .document_blocks import NoBar
from .workers import check_engine, ray_results

if TYPE_CHECKING:
    from ..linking.retriever import Retriever
    from ..pipeline.proxy_linker import ProxyLinker

logger = logging.getLogger(__name__)

_SUFFIX = ".npz"


def embed_kb(
    path: str | Path,
    linker: ProxyLinker,
    *,
    dtype: str = "auto",
    index: str = "auto",
    dim: int | None = None,
    alike: float | None = None,
    reuse: str | Path | None = None,
    engine: str = "local",
    address: str | None = None,
    nlp: Language | None = None,
    progress: Callable[..., Any] = NoBar,
) -> KnowledgeBase:
    """Give a KB the vectors of a linker's retriever, unless it has them as they are asked for; open it.

    The linker's ``index_unit`` says which rows an entity gets. A linker that has this KB open must open
    it again: ``linker.set_kb(path)``. Vectors that the encoder made and the KB stores in another form
    are not computed again.

    Until the very end, and after any error or interruption, the KB stays as it was, and no other
    process can write to it. Blocks that are encoded are kept in its folder, in float32. The next run
    with the same encoder goes on from them; its vectors are, to the last bit, those of a run that
    was never interrupted.

    Args:
        path: The folder of the KB.
        linker: A linker with weights.
        dtype: See ``kb.vectors.writing.write_vectors``, also for ``index`` and ``alike``.
        dim: The length of the vectors as they are stored; None: whole.
        reuse: The folder of an older KB with vectors of the same encoder. An entity whose texts are
            the same there takes its rows from it, as they are stored.
        engine: "local" is this process, on a GPU if there is one. "ray" is a Ray cluster, which may
            be this computer with several GPUs. Its nodes must have this package and see the folder of
            the KB.
        address: The address of the Ray cluster. None starts Ray on this computer.
        nlp: The pipeline of the linker. It is needed if the KB has learnt mentions, and the linker
            listens to another component.
        progress: Makes a bar, as ``tqdm`` does, from ``total`` and ``initial``, numbers of entities.

    PelError if there is no KB, the linker has no weights, another process writes to the KB, the older
    KB cannot be reused, a setting is unknown, a worker failed, or the disk is full.
    """
    check_engine(engine)
    rows = LinkerRows(linker, nlp)
    with KnowledgeBase.open(path) as kb:
        vectors, mentions = kb.settings["vectors"], kb.mentions
        made_by = kb.has_vectors and (kb.index_unit, kb.fingerprint)
        known = made_by == (rows.index_unit, rows.fingerprint)
        is_whole = known and kb.stored_dim == kb.dim
        if is_whole and dtype == "auto":
            dtype = vectors["dtype"]
        usable = (
            known
            and kb.vectors.added is None
            and kb.stored_dim == (dim or rows.dim)
            and (not mentions or mentions.fingerprint == rows.mention_fingerprint)
            and dtype in ("auto", vectors["dtype"])
            and index in ("auto", vectors["index"])
            and alike in (None, vectors["alike"])
        )
        if is_whole and reuse is None and vectors["dtype"] in ("float32", dtype):
            reuse = path  # it has what the encoder would give
    if not usable:
        older = None if reuse is None else KnowledgeBase.open(reuse)
        if older:
            check_reusable(older, rows)
        encoder = {"dim": rows.dim, "fingerprint": rows.fingerprint, "index_unit": rows.index_unit}
        form = {"dtype": dtype, "index": index, "stored_dim": dim, "alike": alike}
        encoded = _encoded(kb, linker, rows, older, engine, address, progress)
        kb = write_vectors(kb.path, encoded, **encoder, **form, mentions=rows)
        if kb.stored_dim < kb.dim:
            kept = kb.settings["vectors"]["kept"]
            logger.info(
                "stored in %d numbers, with %.1f%% of their squared length", dim, 100 * kept
            )
    if (folder := _folder(kb.path)).exists():  # also if a run was killed at its very end
        with writer_lock(kb.path):
            shutil.rmtree(folder)
    return KnowledgeBase.open(path)


def _folder(kb: Path) -> Path:
    """The folder of the blocks. Of each is known how many of its entities have rows of another KB."""
    return kb / f"{CHUNKS_PREFIX}vectors"


def _encoded(
    kb: KnowledgeBase,
    linker: ProxyLinker,
    rows: LinkerRows,
    older: KnowledgeBase | None,
    engine: str,
    address: str | None,
    progress: Callable[..., Any],
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Vectors and the numbers of their entities, block by block. It is read under the writers' lock."""
    settings = {
        "encoder": rows.fingerprint,
        "index unit": rows.index_unit,
        "state of the KB": kb.settings["checksum"],
        "size of blocks": entity_texts.CHUNK,
        "KB to reuse": older.settings["checksum"] if older else None,
    }
    total = len(kb)
    starts = range(0, total, entity_texts.CHUNK)
    sizes = {f"{n:06d}": min(entity_texts.CHUNK, total - first) for n, first in enumerate(starts)}
    folder = _folder(kb.path)

    def made(missing: list[str]) -> Iterator[str]:
        if not missing:
            return
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
        retriever: Retriever | Path = linker.retriever
        if engine == "ray" or device == "cuda":
            from ..models.architectures import pack_retriever

            retriever = folder / "model"  # for other processes, or another device
            with whole_file(retriever, "xb") as file:
                file.write(pack_retriever(linker.retriever.model))
        make = partial(_worker, kb.path, settings, older.path if older else None, retriever)
        if engine == "ray":
            yield from ray_results(make, missing, address=address)
        else:
            yield from map(make(device), missing)

    with block_folder(folder, settings, suffix=_SUFFIX, restart=True) as blocks:
        missing = [name for name in sizes if blocks.finished(name) is None]
        if len(missing) < len(sizes):
            done = len(sizes) - len(missing)
            logger.info("resuming: %d of %d blocks done", done, len(sizes))
        initial = total - sum(sizes[name] for name in missing)
        with progress(total=total, initial=initial) as bar, closing(made(missing)) as names:
            for name in names:
                bar.update(sizes[name])
        for name in sizes:
            with np.load(blocks.path(name)) as arrays:
                yield arrays["vectors"], arrays["entities"]
        if older:
            reused = sum(map(blocks.finished, sizes))
            logger.info("re-used the vectors of %s of %s entities", f"{reused:,}", f"{total:,}")


def _worker(
    path: Path,
    settings: dict[str, Any],
    reuse: Path | None,
    retriever: Retriever | Path,
    device: str,
) -> Callable[[str], str]:
    """What makes a block, by its name, with a retriever, or with saved weights on a device."""
    if isinstance(retriever, Path):
        from ..linking.retriever import Retriever
        from ..models.architectures import encoder_of, unpack_retriever

        retriever = Retriever(unpack_retriever(retriever))
        for tower in retriever.model.layers:
            encoder_of(tower).to(device)
    kb, blocks = KnowledgeBase.open(path), Blocks(_folder(path), _SUFFIX)
    if kb.settings["checksum"] != settings["state of the KB"]:
        raise PelError(f"{path}: was changed meanwhile", "run kb embed again")
    all_numbers, size = kb.numbers_by_id(), settings["size of blocks"]
    older = KnowledgeBase.open(reuse) if reuse else None

    def write(name: str, path: Path) -> int:
        numbers = all_numbers[int(name) * size :][:size]
        entities = kb.entities(numbers)
        others = np.arange(len(entities))
        parts = []
        if older is not None:
            parts.append(reused_rows(older, entities))
            others = np.setdiff1d(others, parts[0][1])
        changed = [entities[place] for place in others]
        kind, encode = settings["index unit"], retriever.entity_vectors
        vectors, owners = entity_texts.entity_rows(changed, kind, encode)
        vectors, owners = map(np.concatenate, zip(*parts, (vectors, others[owners])))
        order = np.argsort(owners, kind="stable")
        with open(path, "wb") as file:
            np.savez(file, vectors=vectors[order], entities=numbers[owners[order]])
        return len(entities) - len(others)

    def make(name: str) -> str:
        blocks.write(name, partial(write, name))
        return name

    return make


def check_reusable(kb: KnowledgeBase, encoder: LinkerRows) -> None:
    """Raise PelError if a KB is damaged, or its rows are not those that the encoder would make."""
    KnowledgeBase.open(kb.path, verify=True).close()
    if not kb.has_vectors:
        raise PelError(f"{kb.path}: has no vectors that could be re-used", "embed without it")
    if kb.stored_dim < kb.dim:
        raise PelError(f"{kb.path}: its vectors were reduced", "embed without re-using them")
    if (kb.fingerprint, kb.index_unit) != (encoder.fingerprint, encoder.index_unit):
        problem = f"{kb.path}: its vectors are those of another encoder or index unit"
        raise PelError(problem, "give the pipeline that made them, or embed without it")


def reused_rows(kb: KnowledgeBase, entities: Sequence[Entity]) -> tuple[np.ndarray, np.ndarray]:
    """The rows that a KB has of entities whose texts are the same there; see ``LinkerRows.rows``."""
    numbers = kb.numbers_of([entity.concept_id for entity in entities])
    present = np.flatnonzero(numbers >= 0)
    found = []
    for place, old in zip(present.tolist(), kb.entities(numbers[present])):
        texts = entity_texts.proxy_texts(entities[place], kb.index_unit)
        if entity_texts.proxy_texts(old, kb.index_unit) == texts:
            found.append((place, numbers[place], len(texts)))
    places, numbers, counts = np.array(found, dtype=np.int64).reshape(-1, 3).T
    vectors, owners = kb.rows(numbers)
    whole = np.bincount(owners, minlength=len(places)) == counts  # one may lack its rows
    return vectors[whole[owners]], places[owners[whole[owners]]]
