"""What the tests of blocks share: how it is linked, two files, and a folder to write; and a BERT."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from spacy.language import Language

from spacy_pel.batch.document_blocks import LinkedCounts, NoBar
from spacy_pel.batch.link_docs import Linking
from spacy_pel.batch.link_files import link_files
from spacy_pel.coreference.joint import JointSettings, Neighbourhood
from spacy_pel.text import entity_texts

from ..rankings import ranking_by_score

TEXTS = [f"Case {n}: the patient has MS." for n in range(5)]


def link_to_folder(linking: Linking, input: str | Path, folder: Path, **settings) -> LinkedCounts:
    """Link files to a folder with one file a block."""
    return link_files(linking, input, f"{folder}/", **settings)


def files(folder: Path) -> dict[str, bytes]:
    """The files of a folder by name; not what is in folders in it."""
    found = {path.name.removesuffix(".jsonl"): path for path in folder.iterdir() if path.is_file()}
    return {name: found[name].read_bytes() for name in sorted(found)}


class Told(NoBar):
    """A bar that remembers what it was told, and may break a run off at its n-th update."""

    def __init__(self, break_at: int = 0) -> None:
        self.updates: list[float] = []
        self.break_at = break_at

    def __call__(self, *, total: int | None, initial: int = 0) -> Told:
        self.total, self.initial = total, initial
        return self

    def update(self, n: float) -> None:
        self.updates.append(n)
        if len(self.updates) == self.break_at:
            raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> None:
    """What jobs log is in ``caplog.messages``."""
    caplog.set_level("INFO", "spacy_pel.batch")


@pytest.fixture
def linking(tiny_folder: Path) -> Linking:
    return Linking(str(tiny_folder), candidates=5, batch_size=1)


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two files of five documents and one, two of which make a block."""
    monkeypatch.setattr("spacy_pel.batch.link_files.DOCUMENTS_PER_BLOCK", 2)
    monkeypatch.setattr("spacy_pel.batch.document_blocks.BYTES_PER_GROUP", 1)
    folder = tmp_path / "notes"
    folder.mkdir()
    lines = [json.dumps({"text": text, "id": f"a{n}"}) for n, text in enumerate(TEXTS)]
    (folder / "a.jsonl").write_text("\n".join(lines) + "\n", encoding="utf8")
    (folder / "b.jsonl").write_text('{"text": "The patient has MS.", "id": "b0"}\n')
    return folder


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "linked.jsonl"


@pytest.fixture
def linker(tiny_nlp: Language):
    return tiny_nlp.get_pipe("proxy_linker")


def make_joint(
    nlp: Language,
    linking: Neighbourhood = Neighbourhood(2, 0.0, True),
    discovery: Neighbourhood = Neighbourhood(4, 0.9, False),
    intercept: float = 0.0,
) -> Language:
    """Have a pipeline link jointly; alike mentions mean the same with a logit of 10 * cosine."""
    linker = nlp.get_pipe("proxy_linker")
    linker.ranking = ranking_by_score()
    linker.joint = JointSettings(10.0, intercept, linking, discovery)
    return nlp


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of three entities: the tiny KB has three of them, and the last is not full."""
    monkeypatch.setattr(entity_texts, "CHUNK", 3)
