"""Chunks of a KB's entities, each encoded into a file of its own: the unit of embedding.

A chunk is written whole or not at all. Finished chunks survive a crash, and the next run goes on after
them. This process encodes them, or one process for each GPU, or a Ray cluster.
"""

from __future__ import annotations

import os
import re
import uuid
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..system.ray_session import device_and_workers, ray_session
from .kb_rows import EncodedRows, StoredRows

if TYPE_CHECKING:
    from ..linking.retriever import Retriever

ENGINES = ("local", "ray")
_MODEL = "model"
# Without a limit Ray would repeat a chunk forever, also one that kills its workers.
_RETRIES = 4
# What a damaged file makes numpy and zipfile raise; a RuntimeError speaks of other kinds of zip files.
_DAMAGE = (OSError, EOFError, ValueError, KeyError, RuntimeError, zipfile.BadZipFile)
_CHUNK = re.compile(r"chunk-(\d{6,})\.npz")


class VectorChunk(NamedTuple):
    """Consecutive rows of vectors.

    Attributes:
        vectors: float32 [n, dim].
        entities: The number of the entity of each row, int64 [n].
        reused: The number of entities whose rows were copied from another KB.
    """

    vectors: np.ndarray
    entities: np.ndarray
    reused: int


class VectorChunks:
    """The finished chunks in a folder, by number. Several processes may write at the same time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def finished(self) -> set[int]:
        """The numbers of the finished chunks."""
        matches = (_CHUNK.fullmatch(path.name) for path in self.folder.iterdir())
        return {int(match[1]) for match in matches if match}

    def write(self, number: int, chunk: VectorChunk) -> None:
        """Store a finished chunk; PelError if the folder cannot be written to."""
        temporary = self.folder / f"{uuid.uuid4().hex}.tmp"
        try:
            with open(temporary, "xb") as file:
                np.savez(file, **chunk._asdict())
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self._file(number))
        except OSError as error:
            raise PelError(
                f"{self.folder}: cannot be written ({error.strerror or error})",
                "free some space and run it again: finished chunks are kept",
            ) from error
        finally:
            temporary.unlink(missing_ok=True)

    def read(self, number: int) -> VectorChunk:
        """A finished chunk; PelError if its file is damaged."""
        path = self._file(number)
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return VectorChunk(arrays["vectors"], arrays["entities"], int(arrays["reused"]))
        except _DAMAGE as error:
            raise PelError(f"{path}: is damaged", "delete it and run it again") from error

    def _file(self, number: int) -> Path:
        return self.folder / f"chunk-{number:06d}.npz"


class Job(NamedTuple):
    """What any process needs to encode any chunk, as plain data. Every process must see the folders.

    Attributes:
        kb: The folder of the KB.
        checksum: The KB's checksum.
        n_entities: The number of its entities.
        chunk: The number of entities of a chunk.
        partial: The folder of the finished chunks.
        row_kind: What a row stands for, see ``reading.proxies``.
        reuse: The folder of an older KB whose rows are reused, or None.
    """

    kb: str
    checksum: str
    n_entities: int
    chunk: int
    partial: str
    row_kind: str
    reuse: str | None

    @property
    def n_chunks(self) -> int:
        """The number of chunks."""
        return -(-self.n_entities // self.chunk)

    def size(self, number: int) -> int:
        """The number of entities of a chunk."""
        return min(self.chunk, self.n_entities - number * self.chunk)

    def save_model(self, retriever: Retriever) -> None:
        """Save the weights where ``load_retriever`` finds them."""
        from ..architectures import pack_retriever

        Path(self.partial, _MODEL).write_bytes(pack_retriever(retriever.model))

    def load_retriever(self, device: str) -> Retriever:
        """The retriever with the saved weights, on a torch device."""
        from ..architectures import encoder_of, unpack_retriever
        from ..linking.retriever import Retriever

        model = unpack_retriever(Path(self.partial, _MODEL))
        for tower in model.layers:
            encoder_of(tower).to(device)
        return Retriever(model)


class ChunkEncoder:
    """Encodes the chunks of a job, by number, and writes them to their files."""

    def __init__(self, job: Job, retriever: Retriever) -> None:
        """Open the KB. Raises PelError if it has changed since the job was made."""
        self.job = job
        self.kb = KnowledgeBase.open(job.kb)
        if self.kb.settings["checksum"] != job.checksum:
            raise PelError(f"{job.kb}: was changed meanwhile", "run kb embed again")
        self.numbers = self.kb.numbers_by_id()
        self.partial = VectorChunks(Path(job.partial))
        self.encoded = EncodedRows(retriever, job.row_kind)
        self.stored = StoredRows(KnowledgeBase.open(job.reuse)) if job.reuse else None

    def __call__(self, number: int) -> int:
        """Write the chunk with this number, and return the number."""
        first = number * self.job.chunk
        self.partial.write(number, self._chunk(self.numbers[first : first + self.job.chunk]))
        return number

    def close(self) -> None:
        """Close the KB."""
        self.kb.close()

    def _chunk(self, numbers: np.ndarray) -> VectorChunk:
        entities = self.kb.entities(numbers)
        if self.stored is None:
            vectors, owners = self.encoded.rows(entities)
            return VectorChunk(vectors, numbers[owners], reused=0)
        stored, stored_owners = self.stored.rows(entities)
        others = np.setdiff1d(np.arange(len(entities)), stored_owners)
        encoded, places = self.encoded.rows([entities[i] for i in others])
        owners = np.concatenate([stored_owners, others[places]])
        order = np.argsort(owners, kind="stable")
        vectors = np.concatenate([stored, encoded])[order]
        return VectorChunk(vectors, numbers[owners[order]], reused=len(entities) - len(others))


class ChunkWorker:
    """Encodes chunks in a process of its own, and loads the encoder for the first of them."""

    def __init__(self, job: Job, device: str) -> None:
        """Remember the job and the name of a torch device. The weights are those saved in the job."""
        self.job = job
        self.device = device

    def __call__(self, number: int) -> int:
        """Write the chunk with this number, and return the number."""
        return self._encoder(number)

    @cached_property
    def _encoder(self) -> ChunkEncoder:
        return ChunkEncoder(self.job, self.job.load_retriever(self.device))


def finished_chunks(
    job: Job, retriever: Retriever, numbers: Sequence[int], engine: str, address: str | None
) -> Iterator[int]:
    """Encode chunks, and yield the number of each when it is finished, in any order.

    Chunks that are finished before an error are kept.

    Args:
        job: The job.
        retriever: The retriever that encodes.
        numbers: The numbers of the chunks.
        engine: See ``embed_kb``.
        address: See ``embed_kb``.

    Raises:
        PelError: The engine is unknown, or a worker failed.
    """
    if engine not in ENGINES:
        raise PelError(f'unknown engine "{engine}"', f"choose one of {', '.join(ENGINES)}")
    if not numbers:
        return iter(())
    if engine == "ray":
        job.save_model(retriever)
        return made_by_ray(job, numbers, address)
    import torch

    gpus = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
    if not gpus:
        return made_here(job, numbers, retriever)
    job.save_model(retriever)
    if len(gpus) == 1:
        return made_here(job, numbers, job.load_retriever(gpus[0]))
    return made_by_processes(job, numbers, gpus)


def made_here(job: Job, numbers: Sequence[int], retriever: Retriever) -> Iterator[int]:
    """Encode chunks in this process."""
    with closing(ChunkEncoder(job, retriever)) as encoder:
        yield from map(encoder, numbers)


def made_by_processes(job: Job, numbers: Sequence[int], devices: Sequence[str]) -> Iterator[int]:
    """Encode chunks in one process for each torch device, with the weights saved in the job."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from concurrent.futures.process import BrokenProcessPool

    context = multiprocessing.get_context("spawn")  # CUDA does not survive a fork
    free = context.SimpleQueue()
    for device in devices:
        free.put(device)
    pool = ProcessPoolExecutor(len(devices), context, _start_worker, (job, free))
    try:
        for future in as_completed([pool.submit(_make, number) for number in numbers]):
            yield future.result()
    except BrokenProcessPool as error:
        raise PelError(
            "a worker ended unexpectedly, most often because memory ran out",
            "run it again: the chunks that are finished are kept",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


_worker: ChunkWorker | None = None  # of a worker process


def _start_worker(job: Job, free: Any) -> None:
    global _worker
    _worker = ChunkWorker(job, free.get())


def _make(number: int) -> int:
    return _worker(number)


class Actor:
    """An actor of Ray Data. A batch is one chunk."""

    def __init__(self, job: Job, device: str) -> None:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # an actor has one core
        self.worker = ChunkWorker(job, device)

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, list[Any]]:
        """Encode a chunk. A PelError is returned, not raised: Ray would wrap it in a traceback."""
        number, problem, remedy = int(batch["number"][0]), "", ""
        try:
            self.worker(number)
        except PelError as error:
            problem, remedy = error.problem, error.remedy
        return {"number": [number], "problem": [problem], "remedy": [remedy]}


def made_by_ray(job: Job, numbers: Sequence[int], address: str | None) -> Iterator[int]:
    """Encode chunks on a Ray cluster; see ``finished_chunks``.

    The nodes must have this package and see the folder of the KB. There is one actor for each GPU of
    the cluster, or for each core if it has no GPU. The weights are those saved in the job.

    Args:
        job: The job.
        numbers: The numbers of the chunks.
        address: The address of the cluster. None starts Ray on this computer.

    Raises:
        PelError: Ray is not installed or cannot be reached, or it loses too many workers.
    """
    with ray_session(address, kept="the chunks that are finished"):
        import ray

        kind, n_workers = device_and_workers()
        items = [{"number": number} for number in numbers]
        made = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
            Actor,
            fn_constructor_args=(job, "cuda" if kind == "GPU" else "cpu"),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(size=min(n_workers, len(numbers))),
            num_gpus=1 if kind == "GPU" else None,
            num_cpus=1,
            max_task_retries=_RETRIES,
        )
        for row in made.iter_rows():
            if row["problem"]:
                raise PelError(row["problem"], row["remedy"])
            yield row["number"]
