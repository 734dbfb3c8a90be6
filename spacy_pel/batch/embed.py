"""Encode all entities of a KB, block by block, and write them as its vectors.

A block is a run of consecutive entities. Finished blocks survive a crash of this process or a Ray cluster.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from spacy.language import Language

from ..curation.kb_encoder import KBEncoder
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
    from ..models.architectures import Retriever
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
    """Give a KB the vectors of a linker's retriever, unless it has them already, and open it.

    The linker's ``index_unit`` determines the rows of an entity. A linker that has this KB open must open it
    again: ``linker.set_kb(path)``. Vectors of the same encoder that the KB stores in another form are not
    computed again.

    The KB is changed atomically at the end; until then no other process can write to it. Encoded blocks are
    kept in its folder, in float32. The next run with the same encoder resumes from them, and makes the same
    vectors, to the last bit, as an uninterrupted run.

    Args:
        path: The folder of the KB.
        linker: A linker with weights.
        dtype: See ``kb.vectors.writing.write_vectors``, also for ``index`` and ``alike``.
        dim: The length of the stored vectors; None keeps the encoder's.
        reuse: The folder of an older KB with vectors of the same encoder. Entities whose texts are the same
            there copy its rows.
        engine: "local": this process, on a GPU if there is one. "ray": a Ray cluster, which may be this
            computer with several GPUs. Its nodes must have this package and see the folder of the KB.
        address: The address of the Ray cluster. None starts Ray on this computer.
        nlp: The pipeline of the linker, needed if the KB has learnt mentions and the linker listens to
            another component.
        progress: Makes a progress bar like ``tqdm`` from ``total`` and ``initial``, numbers of entities.

    Raises:
        PelError: There is no KB, the linker has no weights, another process is writing to the KB, the older
            KB cannot be reused, a setting is unknown, a worker failed, or the disk is full.
    """
    check_engine(engine)
    encoder = KBEncoder(linker, nlp)
    with KnowledgeBase.open(path) as kb:
        stored, mentions = kb.settings["vectors"], kb.mentions
        is_same_encoder = kb.has_vectors and (kb.index_unit, kb.fingerprint) == (
            encoder.index_unit,
            encoder.fingerprint,
        )
        is_full_length = is_same_encoder and kb.stored_dim == kb.dim
        if is_full_length and dtype == "auto":
            dtype = stored["dtype"]
        is_up_to_date = (
            is_same_encoder
            and kb.vectors.added is None
            and kb.stored_dim == (dim or encoder.dim)
            and (not mentions or mentions.fingerprint == encoder.mention_fingerprint)
            and dtype in ("auto", stored["dtype"])
            and index in ("auto", stored["index"])
            and alike in (None, stored["alike"])
        )
        if is_full_length and reuse is None and stored["dtype"] in ("float32", dtype):
            reuse = path  # its rows are as good as new ones
    if not is_up_to_date:
        older = None if reuse is None else KnowledgeBase.open(reuse)
        if older:
            check_reusable(older, encoder)
        kb = write_vectors(
            kb.path,
            _encoded(kb, encoder, older, engine, address, progress),
            dim=encoder.dim,
            fingerprint=encoder.fingerprint,
            index_unit=encoder.index_unit,
            dtype=dtype,
            index=index,
            stored_dim=dim,
            alike=alike,
            mentions=encoder,
        )
        if kb.stored_dim < kb.dim:
            kept = kb.settings["vectors"]["kept"]
            logger.info(
                "stored in %d numbers, with %.1f%% of their squared length", dim, 100 * kept
            )
    if (folder := _folder(kb.path)).exists():  # also that of a run killed just before this line
        with writer_lock(kb.path):
            shutil.rmtree(folder)
    return KnowledgeBase.open(path)


def _folder(kb: Path) -> Path:
    """Return the folder of a KB's blocks. The result of a block is its number of reused entities."""
    return kb / f"{CHUNKS_PREFIX}vectors"


def _encoded(
    kb: KnowledgeBase,
    encoder: KBEncoder,
    older: KnowledgeBase | None,
    engine: str,
    address: str | None,
    progress: Callable[..., Any],
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield vectors and the numbers of their entities, block by block, under the writer's lock."""
    settings = {
        "encoder": encoder.fingerprint,
        "index unit": encoder.index_unit,
        "state of the KB": kb.settings["checksum"],
        "size of blocks": entity_texts.CHUNK,
        "KB to reuse": older.settings["checksum"] if older else None,
    }
    total = len(kb)
    starts = range(0, total, entity_texts.CHUNK)
    sizes = {f"{n:06d}": min(entity_texts.CHUNK, total - first) for n, first in enumerate(starts)}
    folder = _folder(kb.path)

    def encode_blocks(missing: list[str]) -> Generator[str, None, None]:
        if not missing:
            return
        import torch

        device = "cuda" if torch.cuda.is_available() else "cpu"
        retriever: Retriever | Path = encoder.retriever
        if engine == "ray" or device == "cuda":  # other processes, or another device, need a copy
            from ..models.architectures.retrievers import pack_retriever

            retriever = folder / "model"
            with whole_file(retriever, "xb") as file:
                file.write(pack_retriever(encoder.retriever))
        make = partial(_worker, kb.path, settings, older.path if older else None, retriever)
        if engine == "ray":
            yield from ray_results(make, missing, address=address)
        else:
            yield from map(make(device), missing)

    with block_folder(folder, settings, suffix=_SUFFIX, restart=True) as blocks:
        missing = [name for name in sizes if blocks.result(name) is None]
        if len(missing) < len(sizes):
            done = len(sizes) - len(missing)
            logger.info("resuming: %d of %d blocks done", done, len(sizes))
        initial = total - sum(sizes[name] for name in missing)
        with (
            progress(total=total, initial=initial) as bar,
            closing(encode_blocks(missing)) as names,
        ):
            for name in names:
                bar.update(sizes[name])
        for name in sizes:
            with np.load(blocks.path(name)) as arrays:
                yield arrays["vectors"], arrays["entities"]
        if older:
            reused = sum(map(blocks.result, sizes))
            logger.info("reused the vectors of %s of %s entities", f"{reused:,}", f"{total:,}")


def _worker(
    path: Path,
    settings: dict[str, Any],
    reuse: Path | None,
    retriever: Retriever | Path,
    device: str,
) -> Callable[[str], str]:
    """Return a worker that writes a block by its name, with a retriever or saved weights on a device."""
    from ..models.architectures import encoder_of, entity_vectors, unpack_retriever

    if isinstance(retriever, Path):
        retriever = unpack_retriever(retriever)
        for tower in retriever.layers:
            encoder_of(tower).to(device)
    kb, blocks = KnowledgeBase.open(path), Blocks(_folder(path), _SUFFIX)
    if kb.settings["checksum"] != settings["state of the KB"]:
        raise PelError(f"{path}: was changed meanwhile", "run kb embed again")
    all_numbers, size = kb.numbers_by_id(), settings["size of blocks"]
    index_unit, encode = settings["index unit"], partial(entity_vectors, retriever)
    older = KnowledgeBase.open(reuse) if reuse else None

    def write(name: str, path: Path) -> int:
        numbers = all_numbers[int(name) * size :][:size]
        entities = kb.entities(numbers)
        if older is None:
            vectors, owners = entity_texts.entity_rows(entities, index_unit, encode)
            n_reused = 0
        else:
            vectors, owners, n_reused = rows_with_reuse(older, entities, encode)
        order = np.argsort(owners, kind="stable")
        with path.open("wb") as file:
            np.savez(file, vectors=vectors[order], entities=numbers[owners[order]])
        return n_reused

    def make(name: str) -> str:
        blocks.write(name, partial(write, name))
        return name

    return make


def check_reusable(kb: KnowledgeBase, encoder: KBEncoder) -> None:
    """Raise PelError if a KB is damaged, or its rows differ from those that the encoder would make."""
    KnowledgeBase.open(kb.path, verify=True).close()
    if not kb.has_vectors:
        raise PelError(f"{kb.path}: has no vectors to reuse", "embed without it")
    if kb.stored_dim < kb.dim:
        raise PelError(f"{kb.path}: its vectors were reduced", "embed without reusing them")
    if (kb.fingerprint, kb.index_unit) != (encoder.fingerprint, encoder.index_unit):
        problem = f"{kb.path}: its vectors are those of another encoder or index unit"
        raise PelError(problem, "give the pipeline that made them, or embed without it")


def rows_with_reuse(
    kb: KnowledgeBase, entities: Sequence[Entity], encode: entity_texts.EncodeEntities
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the rows of entities, a KB's where their texts are the same; see ``KBEncoder.rows``.

    The number of entities whose rows are those of the KB is returned, too.
    """
    old_vectors, old_owners = reused_rows(kb, entities)
    others = np.setdiff1d(np.arange(len(entities)), old_owners)
    changed = [entities[position] for position in others]
    new_vectors, new_owners = entity_texts.entity_rows(changed, kb.index_unit, encode)
    vectors = np.concatenate([old_vectors, new_vectors])
    owners = np.concatenate([old_owners, others[new_owners]])
    return vectors, owners, len(entities) - len(others)


def reused_rows(kb: KnowledgeBase, entities: Sequence[Entity]) -> tuple[np.ndarray, np.ndarray]:
    """Return a KB's rows of the entities whose texts are the same there; see ``KBEncoder.rows``."""
    numbers = kb.numbers_of([entity.concept_id for entity in entities])
    present = np.flatnonzero(numbers >= 0)
    unchanged = []
    for position, old in zip(present.tolist(), kb.entities(numbers[present])):
        texts = entity_texts.proxy_texts(entities[position], kb.index_unit)
        if entity_texts.proxy_texts(old, kb.index_unit) == texts:
            unchanged.append((position, numbers[position], len(texts)))
    positions, old_numbers, counts = np.array(unchanged, dtype=np.int64).reshape(-1, 3).T
    vectors, owners = kb.rows(old_numbers)
    is_complete = np.bincount(owners, minlength=len(positions)) == counts  # rows may be missing
    is_reused = is_complete[owners]
    return vectors[is_reused], positions[owners[is_reused]]
