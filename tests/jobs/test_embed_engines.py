"""Chunks made by several processes are those made by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.jobs.vector_chunks import ChunkEncoder, Job, VectorChunks, made_by_processes
from spacy_pel.kb import KnowledgeBase, build_kb

from ..conftest import ENTITIES


def new_job(folder: Path, linker) -> Job:
    kb = build_kb(ENTITIES, folder / "kb")
    (folder / "partial").mkdir()
    job = Job(
        kb=str(kb.path),
        checksum=kb.settings["checksum"],
        n_entities=7,
        chunk=3,
        partial=str(folder / "partial"),
        row_kind="name",
        reuse=None,
    )
    job.save_model(linker.retriever)
    return job


@pytest.fixture
def job(tmp_path: Path, linker) -> Job:
    return new_job(tmp_path, linker)


def test_a_chunk_is_its_entities_rows(job: Job, linker) -> None:
    assert ChunkEncoder(job, linker.retriever)(1) == 1
    chunk = VectorChunks(Path(job.partial)).read(1)
    assert chunk.entities.tolist() == [3, 3, 3, 4, 4, 5, 5, 5]
    assert chunk.reused == 0
    assert chunk.vectors.shape == (8, 32)


def test_a_saved_model_is_the_same(job: Job, linker) -> None:
    assert job.load_retriever("cpu").fingerprint() == linker.retriever.fingerprint()


def test_another_kb_is_noticed(job: Job, linker) -> None:
    build_kb(ENTITIES[1:], job.kb)
    with pytest.raises(PelError, match="was changed meanwhile"):
        ChunkEncoder(job, linker.retriever)


@pytest.mark.slow
def test_processes_make_the_same_chunks(job: Job, linker, tmp_path: Path) -> None:
    assert sorted(made_by_processes(job, [0, 1, 2], ["cpu", "cpu"])) == [0, 1, 2]
    (tmp_path / "here").mkdir()
    here = new_job(tmp_path / "here", linker)
    for number in range(3):
        ChunkEncoder(here, linker.retriever)(number)
        ours, theirs = (VectorChunks(Path(j.partial)).read(number) for j in (here, job))
        np.testing.assert_array_equal(ours.vectors, theirs.vectors)
        np.testing.assert_array_equal(ours.entities, theirs.entities)


@pytest.mark.slow
def test_an_error_of_a_process_arrives(job: Job) -> None:
    build_kb(ENTITIES[1:], job.kb)
    with pytest.raises(PelError):
        list(made_by_processes(job, [0, 1, 2], ["cpu"]))
    assert KnowledgeBase.open(job.kb)
