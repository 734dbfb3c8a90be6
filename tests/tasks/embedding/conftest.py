"""What the tests of this room share."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from spacy.language import Language

from spacy_pel.kb import KnowledgeBase
from spacy_pel.kb.vectors.stored_index import opened_rows
from spacy_pel.reading import proxies


@pytest.fixture
def linker(tiny_nlp: Language):
    return tiny_nlp.get_pipe("proxy_linker")


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of three entities: the tiny KB has three of them, and the last is not full."""
    monkeypatch.setattr(proxies, "CHUNK", 3)


def rows_of(kb: KnowledgeBase) -> tuple[np.ndarray, list[str]]:
    """All vectors of a KB of one segment in order, and the id of the entity of each."""
    (segment,) = kb.segments
    matrix, owners = opened_rows(segment.folder, segment.entry["vectors"])
    return matrix.take(np.arange(len(owners))), [id for id, _ in kb.labels(owners)]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, by name; not what is in folders in it."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
