"""kb embed, and what a failure leaves behind."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spacy_pel.jobs.embed import is_embedded
from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.kb.change import add_entities
from spacy_pel.linking.retriever import Retriever
from spacy_pel.reading import proxies

from ..conftest import ENTITIES


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_embed(run, bare_kb: KnowledgeBase, tiny_folder: Path, tiny_nlp) -> None:
    output = run("kb", "embed", bare_kb.path, tiny_folder)
    assert is_embedded(KnowledgeBase.open(bare_kb.path), tiny_nlp.get_pipe("proxy_linker"))
    assert "7 entities, 17 vectors of 32 dimensions, one for each name" in output


def test_embed_does_nothing_twice(
    run, bare_kb: KnowledgeBase, tiny_folder: Path, monkeypatch
) -> None:
    run("kb", "embed", bare_kb.path, tiny_folder)
    monkeypatch.setattr("spacy_pel.jobs.embed.embed_kb", None)
    assert "has the vectors of this encoder already" in run(
        "kb", "embed", bare_kb.path, tiny_folder
    )


def test_vectors_at_rest(run, bare_kb: KnowledgeBase, tiny_folder: Path) -> None:
    run("kb", "embed", bare_kb.path, tiny_folder, "--dtype", "float16")
    assert KnowledgeBase.open(bare_kb.path).settings["vectors"]["dtype"] == "float16"


def test_vectors_kept_otherwise_are_not_encoded_again(
    run, bare_kb: KnowledgeBase, tiny_folder: Path, monkeypatch
) -> None:
    def vectors() -> dict:
        return KnowledgeBase.open(bare_kb.path).settings["vectors"]

    run("kb", "embed", bare_kb.path, tiny_folder)
    encode, encoded = Retriever.entity_vectors, []
    monkeypatch.setattr(
        Retriever,
        "entity_vectors",
        lambda self, texts: encoded.extend(texts) or encode(self, texts),
    )
    assert "choose auto, float32" in run(
        "kb", "embed", bare_kb.path, tiny_folder, "--dtype", "nonsense", code=1
    )
    run("kb", "embed", bare_kb.path, tiny_folder, "--index", "exact", "--dtype", "int8")
    assert (vectors()["dtype"], vectors()["index"]) == ("int8", "exact")
    assert not encoded
    run("kb", "embed", bare_kb.path, tiny_folder, "--dtype", "float32")  # not to be had of int8
    assert len(encoded) == 17 and vectors()["dtype"] == "float32"


def test_interrupted_and_resumed(
    run, bare_kb: KnowledgeBase, tiny_folder: Path, monkeypatch
) -> None:
    encode, calls = Retriever.entity_vectors, iter(range(10))

    def interrupted(self, texts):
        if next(calls) == 2:
            raise KeyboardInterrupt
        return encode(self, texts)

    monkeypatch.setattr(proxies, "CHUNK", 3)
    monkeypatch.setattr(Retriever, "entity_vectors", interrupted)
    before = contents(bare_kb.path)
    run("kb", "embed", bare_kb.path, tiny_folder, code=130)
    assert contents(bare_kb.path) == before
    output = run("kb", "embed", bare_kb.path, tiny_folder)
    assert "resuming: 2 of 3 chunks done" in output and "Embedded" in output


def test_reuse(run, bare_kb: KnowledgeBase, tiny_folder: Path, tmp_path: Path) -> None:
    run("kb", "embed", bare_kb.path, tiny_folder)
    new = build_kb([*ENTITIES[1:], Entity("C08", "cough")], tmp_path / "new").path
    output = run("kb", "embed", new, tiny_folder, "--reuse", bare_kb.path)
    assert "re-used the vectors of 6 of 7 entities" in output


def test_a_changed_kb(run, bare_kb: KnowledgeBase, tiny_folder: Path) -> None:
    add_entities(bare_kb.path, [Entity("C08", "cough")])
    output = run("kb", "embed", bare_kb.path, tiny_folder)
    assert "8 entities" in output


def test_embed_needs_a_linker(run, bare_kb: KnowledgeBase, tiny_folder: Path) -> None:
    output = run("kb", "embed", bare_kb.path, tiny_folder, "--component", "entity_ruler", code=1)
    assert 'no linker "entity_ruler" among its components (entity_ruler, proxy_linker)' in output


@pytest.mark.parametrize(
    "options, message",
    [
        (["--engine", "slurm"], 'unknown engine "slurm"; choose one of local, ray'),
        (["--reuse", "nowhere"], "no knowledge base here"),
    ],
)
def test_bad_options(
    run, bare_kb: KnowledgeBase, tiny_folder: Path, options: list[str], message: str
) -> None:
    before = contents(bare_kb.path)
    assert message in run("kb", "embed", bare_kb.path, tiny_folder, *options, code=1)
    assert contents(bare_kb.path) == before


def test_what_a_run_left_that_ended_at_the_last_moment(
    run, bare_kb: KnowledgeBase, tiny_folder: Path, tmp_path: Path
) -> None:
    """Its vectors are in the KB, its chunks still beside it."""
    run("kb", "embed", bare_kb.path, tiny_folder)
    left = bare_kb.path / ".partial-0123456789abcdef"
    left.mkdir()
    (left / "chunk-000000.npz").touch()
    copy = shutil.copytree(bare_kb.path, tmp_path / "copy")
    run("kb", "embed", copy, tiny_folder)
    assert not (copy / left.name).exists()
