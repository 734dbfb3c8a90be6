"""What a worker does before it links its first block."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.jobs.block_linker import BlockJob, BlockLinker
from spacy_pel.jobs.link_docs import LinkingChoices
from spacy_pel.jobs.link_files import linking_settings


@pytest.fixture
def job(tiny_folder: Path, tmp_path: Path) -> BlockJob:
    choices = LinkingChoices(str(tiny_folder))
    settings = {**linking_settings(choices.opened()), "format": "jsonl"}
    return BlockJob(choices, settings, str(tmp_path / "out"), "jsonl", (2, 1_000))


def test_another_pipeline_than_that_of_the_job(job: BlockJob) -> None:
    versions = {**job.settings["set of versions"], "torch": "0.1"}
    other = job._replace(settings={**job.settings, "set of versions": versions})
    with pytest.raises(PelError, match="has another set of versions; install the same on all"):
        BlockLinker(other).linking


def test_the_kb_is_read_from_the_copy_of_the_node(
    job: BlockJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODE_DISK", str(tmp_path / "disk"))
    linker = BlockLinker(job._replace(copy_to="$NODE_DISK/kb")).linking.linker
    assert linker.kb.path.parent == tmp_path / "disk" / "kb"
    assert linker.kb.manifest == job.choices.opened().linker.kb.manifest
