"""Chunks of a KB's entities, each encoded into a file of its own: the unit of work."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...errors import PelError
from ...kb.folder.manifest import read_manifest
from ...kb.folder.vector_chunks import VectorChunk, VectorChunks
from ...kb.knowledge_base import KnowledgeBase
from .rows import EncodedRows, StoredRows

if TYPE_CHECKING:
    from ...linking.retriever import Retriever

_MODEL = "model"


class Job(NamedTuple):
    """What any process needs to encode any chunk, as plain data. Every process must see the folders.

    Attributes:
        kb: The folder of the KB.
        records: The file of the KB's records.
        chunks: The entity numbers of each chunk.
        partial: The folder of the finished chunks.
        row_kind: What a row stands for, see ``reading.proxies``.
        reuse: The folder of an older KB whose rows are reused, or None.
    """

    kb: str
    records: str
    chunks: list[range]
    partial: str
    row_kind: str
    reuse: str | None

    @property
    def n_entities(self) -> int:
        """The number of entities of all chunks."""
        return sum(map(len, self.chunks))

    def save_model(self, retriever: Retriever) -> None:
        """Save the weights where ``load_retriever`` finds them."""
        from ...architectures import pack_retriever

        Path(self.partial, _MODEL).write_bytes(pack_retriever(retriever.model))

    def load_retriever(self, device: str) -> Retriever:
        """The retriever with the saved weights, on a torch device."""
        from ...architectures import encoder_of, unpack_retriever
        from ...linking.retriever import Retriever

        model = unpack_retriever(Path(self.partial, _MODEL))
        for tower in model.layers:
            encoder_of(tower).to(device)
        return Retriever(model)


class ChunkEncoder:
    """Encodes the chunks of a job, by number, and writes them to their files."""

    def __init__(self, job: Job, retriever: Retriever) -> None:
        """Open the KB. Raises PelError if it has changed since the job was made."""
        self.job = job
        check_records(job.kb, job.records)
        self.kb = KnowledgeBase.open(job.kb)
        self.partial = VectorChunks(Path(job.partial))
        self.encoded = EncodedRows(retriever, job.row_kind)
        self.stored = StoredRows(KnowledgeBase.open(job.reuse)) if job.reuse else None

    def __call__(self, number: int) -> int:
        """Write the chunk with this number, and return the number."""
        self.partial.write(number, self._chunk(np.asarray(self.job.chunks[number])))
        return number

    def close(self) -> None:
        """Close the KB, so that a writer can remove its old files."""
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


def check_records(kb_folder: str, records: str) -> None:
    """Raise PelError unless the KB has a single segment, with these records."""
    segments = read_manifest(Path(kb_folder))["segments"]
    if [segment["records"] for segment in segments] != [records]:
        raise PelError(f"{kb_folder}: was changed meanwhile", "run kb embed again")
