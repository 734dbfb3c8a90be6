"""Copies of a KB on the disk of a node."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import KnowledgeBase, copies
from spacy_pel.kb.copies import local_copy
from spacy_pel.kb.knowledge_base import verify


def test_all_workers_of_a_node_have_one_copy(
    bare_kb: KnowledgeBase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def copy(kb: KnowledgeBase, folder: Path, copy=copies.copy_kb) -> None:
        made.append(folder)
        copy(kb, folder)

    monkeypatch.setattr(copies, "copy_kb", copy)
    with ThreadPoolExecutor(4) as pool:
        paths = list(pool.map(lambda _: local_copy(bare_kb, tmp_path / "disk"), range(4)))
    assert len(set(paths)) == len(made) == 1
    verify(paths[0])
    with KnowledgeBase.open(paths[0]) as kb:
        assert kb.settings == bare_kb.settings


def test_a_damaged_kb_is_not_copied(bare_kb: KnowledgeBase, tmp_path: Path) -> None:
    damaged = shutil.copytree(bare_kb.path, tmp_path / "damaged")
    (records,) = damaged.glob("*.sqlite")
    data = bytearray(records.read_bytes())
    data[-1] ^= 1
    records.write_bytes(data)
    with pytest.raises(PelError, match="does not agree with its checksum"):
        local_copy(KnowledgeBase.open(damaged), tmp_path / "disk")
    assert not list((tmp_path / "disk").glob("kb-*/"))
