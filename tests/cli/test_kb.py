"""kb build, embed and info, and what a failure leaves behind."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from spacy_pel.embedding import is_embedded
from spacy_pel.kb import Entity, KnowledgeBase

from ..conftest import ENTITIES


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.jsonl"
    lines = [json.dumps(entity._asdict()) for entity in ENTITIES]
    path.write_text("\n".join(lines), encoding="utf8")
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_build(run, source: Path, tmp_path: Path) -> None:
    output = run("kb", "build", source, tmp_path / "kb")
    kb = KnowledgeBase.open(tmp_path / "kb")
    assert list(kb) == ENTITIES
    assert kb.manifest["sources"] == [str(source)]
    assert "7 entities with 10 aliases" in output
    assert f"kb embed {tmp_path / 'kb'} PIPELINE" in output


def test_build_takes_a_format(run, source: Path, tmp_path: Path) -> None:
    renamed = source.rename(tmp_path / "source.json")
    assert "cannot tell the format" in run("kb", "build", renamed, tmp_path / "kb", code=1)
    run("kb", "build", renamed, tmp_path / "kb", "--format", "jsonl")
    assert len(KnowledgeBase.open(tmp_path / "kb")) == len(ENTITIES)


def test_build_names_the_bad_line_and_leaves_nothing(run, source: Path, tmp_path: Path) -> None:
    source.write_text(source.read_text("utf8") + '\n{"concept_id": "C99"}\n', encoding="utf8")
    output = run("kb", "build", source, tmp_path / "kb", code=1)
    assert f"{source}, line 8: 'canonical_name' is missing" in output
    assert not (tmp_path / "kb").exists()


@pytest.mark.parametrize(
    "error, code, message",
    [
        (KeyboardInterrupt(), 130, "interrupted; nothing was written"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "No space left on device"),
    ],
)
def test_a_build_that_breaks_off_leaves_the_old_kb(
    run, bare_kb: KnowledgeBase, monkeypatch, error: BaseException, code: int, message: str
) -> None:
    def broken(source: Path, format: str) -> Iterator[Entity]:
        yield ENTITIES[0]
        raise error

    before = contents(bare_kb.path)
    monkeypatch.setattr("spacy_pel.cli.kb.read_entities", broken)
    assert message in run("kb", "build", "any.jsonl", bare_kb.path, code=code)
    assert contents(bare_kb.path) == before


def test_embed(run, bare_kb: KnowledgeBase, tiny_folder: Path, tiny_nlp) -> None:
    output = run("kb", "embed", bare_kb.path, tiny_folder)
    assert is_embedded(KnowledgeBase.open(bare_kb.path), tiny_nlp.get_pipe("proxy_linker"))
    assert "7 entities, 17 vectors of 32 dimensions, one for each name" in output


def test_embed_does_nothing_twice(
    run, bare_kb: KnowledgeBase, tiny_folder: Path, monkeypatch
) -> None:
    run("kb", "embed", bare_kb.path, tiny_folder)
    monkeypatch.setattr("spacy_pel.cli.kb.embed_kb", None)
    assert "has the vectors of this encoder already" in run(
        "kb", "embed", bare_kb.path, tiny_folder
    )


def test_embed_interrupted_leaves_the_kb(
    run, bare_kb: KnowledgeBase, tiny_folder: Path, monkeypatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = contents(bare_kb.path)
    monkeypatch.setattr("spacy_pel.retriever.Retriever.entity_vectors", interrupt)
    assert "interrupted" in run("kb", "embed", bare_kb.path, tiny_folder, code=130)
    assert contents(bare_kb.path) == before


def test_embed_needs_a_linker(run, bare_kb: KnowledgeBase, tiny_folder: Path) -> None:
    output = run("kb", "embed", bare_kb.path, tiny_folder, "--component", "entity_ruler", code=1)
    assert 'no linker "entity_ruler" among its components (entity_ruler, proxy_linker)' in output


def test_info_of_a_kb_without_vectors(run, bare_kb: KnowledgeBase) -> None:
    info = json.loads(run("kb", "info", bare_kb.path, "--json"))
    assert (info["entities"], info["aliases"], info["definitions"]) == (7, 10, 2)
    assert info["alt_ids"] == 1
    assert info["bytes"] == sum(
        path.stat().st_size for path in bare_kb.path.iterdir() if path.suffix != ".json"
    )
    assert info["rows"] is info["row_kind"] is info["dim"] is info["fingerprint"] is None


def test_info_of_a_kb_with_vectors(run, tiny_kb: Path, tiny_folder: Path) -> None:
    info = json.loads(run("kb", "info", tiny_kb, "--json"))
    assert (info["rows"], info["row_kind"], info["dim"]) == (17, "name", 32)
    assert info["fingerprint"] in run("kb", "info", tiny_kb)


def test_info_of_a_damaged_kb(run, bare_kb: KnowledgeBase, tmp_path: Path) -> None:
    copy = shutil.copytree(bare_kb.path, tmp_path / "copy")
    next(copy.glob("entities-*")).unlink()
    assert "missing; copy the whole folder" in run("kb", "info", copy, code=1)
