"""What the tests of blocks share: how it is linked, two files, and a folder to write; and a BERT."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spacy_pel.jobs.link_docs import LinkingChoices

from .block_examples import TEXTS


@pytest.fixture
def choices(tiny_folder: Path) -> LinkingChoices:
    return LinkingChoices(str(tiny_folder), batch_size=1)


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two files of five documents and one, two of which make a block."""
    monkeypatch.setattr("spacy_pel.jobs.link.DOCUMENTS_PER_BLOCK", 2)
    monkeypatch.setattr("spacy_pel.jobs.document_blocks.BYTES_PER_GROUP", 1)
    folder = tmp_path / "notes"
    folder.mkdir()
    lines = [json.dumps({"text": text, "id": f"a{n}"}) for n, text in enumerate(TEXTS)]
    (folder / "a.jsonl").write_text("\n".join(lines) + "\n", encoding="utf8")
    (folder / "b.jsonl").write_text('{"text": "The patient has MS.", "id": "b0"}\n')
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "linked.jsonl"
