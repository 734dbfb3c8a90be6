"""The unit of work: a chunk of a KB's entities, encoded into a file of its own."""

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
    """What any process needs to make any chunk, as plain data.

    kb, partial, reuse: folders, which every process must see; reuse is that of an older KB or None.
    records: the file of the KB's records. chunks: the entity numbers of each.
    """

    kb: str
    records: str
    chunks: list[range]
    partial: str
    row_kind: str
    reuse: str | None

    @property
    def n_entities(self) -> int:
        return sum(map(len, self.chunks))

    def save_model(self, retriever: Retriever) -> None:
        """Leaves the weights where ``load_retriever`` finds them."""
        from ...architectures import pack_retriever

        Path(self.partial, _MODEL).write_bytes(pack_retriever(retriever.model))

    def load_retriever(self, device: str) -> Retriever:
        """The retriever whose weights were saved, on a torch device."""
        from ...architectures import encoder_of, unpack_retriever
        from ...linking.retriever import Retriever

        model = unpack_retriever(Path(self.partial, _MODEL))
        for tower in model.layers:
            encoder_of(tower).to(device)
        return Retriever(model)


class ChunkEncoder:
    """Makes chunks of a job, by number."""

    def __init__(self, job: Job, retriever: Retriever) -> None:
        """Raises PelError if the KB is not the one that the job is for."""
        self.job = job
        check_records(job.kb, job.records)
        self.kb = KnowledgeBase.open(job.kb)
        self.partial = VectorChunks(Path(job.partial))
        self.encoded = EncodedRows(retriever, job.row_kind)
        self.stored = StoredRows(KnowledgeBase.open(job.reuse)) if job.reuse else None

    def __call__(self, number: int) -> int:
        """Writes the chunk of this number, and gives the number."""
        self.partial.write(number, self._chunk(np.asarray(self.job.chunks[number])))
        return number

    def close(self) -> None:
        """Lets go of the KB, so that a writer can remove its old files."""
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
    """Makes chunks in a process of its own, with an encoder that it loads for the first one."""

    def __init__(self, job: Job, device: str) -> None:
        """device: torch's name of it. The weights are those saved in the job."""
        self.job = job
        self.device = device

    def __call__(self, number: int) -> int:
        """As ``ChunkEncoder`` does it."""
        return self._encoder(number)

    @cached_property
    def _encoder(self) -> ChunkEncoder:
        return ChunkEncoder(self.job, self.job.load_retriever(self.device))


def check_records(kb_folder: str, records: str) -> None:
    """Raises PelError unless the KB has one segment, of these records."""
    segments = read_manifest(Path(kb_folder))["segments"]
    if [segment["records"] for segment in segments] != [records]:
        raise PelError(f"{kb_folder}: was changed meanwhile", "run kb embed again")
