"""kb build: one source or several, and what a failure leaves behind."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from spacy_pel.kb import Entity, KnowledgeBase
from spacy_pel.kb.readers import ReadOptions, Source, UmlsRecipe

from ..conftest import ENTITIES

OBO = "data-version: 2016\n\n[Term]\nid: D:1\nname: RA\nxref: UMLS:C0000003\n"
SSSOM = "subject_id\tpredicate_id\tobject_id\nM:3\tskos:exactMatch\tUMLS:C0000003\n"


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
    assert kb.settings["sources"] == [str(source)]
    assert "7 entities with 10 aliases" in output
    assert f"kb embed {tmp_path / 'kb'} PIPELINE" in output


def test_build_merges_sources(run, tmp_path: Path) -> None:
    obo, table, mapping = (tmp_path / name for name in ("d.obo", "m.csv", "map.sssom.tsv"))
    obo.write_text(OBO)
    table.write_text("Id,canonical_name,definition\nM:3,arthritis,Of joints.\nM:4,gout,\n")
    mapping.write_text("# mapping_set_version: 2026\n" + SSSOM)
    sources = (obo, table, tmp_path / "kb", "--mapping", mapping, "--column", "concept_id=Id")
    assert ": 2 entities" in run("kb", "build", *sources, "--by-xref").partition("Built")[2]
    kb = KnowledgeBase.open(tmp_path / "kb")
    assert list(kb) == [
        Entity(
            "C0000003", "RA", ("arthritis",), (), "Of joints.", ("D:1", "M:3"),
            xrefs=("UMLS:C0000003",), sources=("D", "m.csv"),
        ),
        Entity("M:4", "gout", sources=("m.csv",)),
    ]  # fmt: skip
    assert kb.settings["sources"] == [f"{obo} (2016)", str(table), f"{mapping} (2026)"]
    assert ": 3 entities" in run("kb", "build", *sources).partition("Built")[2]


def test_build_takes_a_format(run, source: Path, tmp_path: Path) -> None:
    renamed = source.rename(tmp_path / "source.data")
    assert "cannot tell the format" in run("kb", "build", renamed, tmp_path / "kb", code=1)
    run("kb", "build", renamed, tmp_path / "kb", "--format", "jsonl")
    assert len(KnowledgeBase.open(tmp_path / "kb")) == len(ENTITIES)


def test_build_hands_on_the_recipe(run, source: Path, tmp_path: Path, monkeypatch) -> None:
    given: list[ReadOptions] = []

    def opened(path: Path, format: str | None, options: ReadOptions) -> Source:
        given.append(options)
        return Source(iter(ENTITIES))

    monkeypatch.setattr("spacy_pel.kb.readers.build_from_sources.open_source", opened)
    choices = ("--preset", "st21pv", "--language", "all", "--type", "Disease", "--type", "Anatomy")
    run("kb", "build", source, tmp_path / "kb", *choices, "--include-suppressed")
    assert given.pop().umls == UmlsRecipe.preset("st21pv")._replace(
        languages=None, types=("Disease", "Anatomy"), suppressed=True
    )
    run("kb", "build", source, tmp_path / "kb")
    assert given == [ReadOptions(umls=UmlsRecipe())]
    output = run("kb", "build", source, tmp_path / "kb", "--preset", "st22", code=1)
    assert "unknown preset" in output


def test_build_says_what_is_missing(run, source: Path, tmp_path: Path) -> None:
    assert "the last path is the folder to make" in run("kb", "build", source, code=1)
    out = tmp_path / "kb"
    assert "write FIELD=COLUMN" in run("kb", "build", source, out, "--column", "aliases", code=1)
    twice = ("--column", "concept_id=Id", "--column", "canonical_name=Id")
    assert "Id is named twice" in run("kb", "build", source, out, *twice, code=1)
    assert "--by-xref without a --mapping" in run("kb", "build", source, out, "--by-xref", code=1)
    assert "absent: no such file" in run("kb", "build", source, tmp_path / "absent", out, code=1)
    assert not out.exists()


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
    def broken() -> Iterator[Entity]:
        yield ENTITIES[0]
        raise error

    before = contents(bare_kb.path)
    monkeypatch.setattr(
        "spacy_pel.kb.readers.build_from_sources.open_source", lambda *_, **__: Source(broken())
    )
    assert message in run("kb", "build", "any.jsonl", bare_kb.path, code=code)
    assert contents(bare_kb.path) == before


def test_types_of_any_source(run, source: Path, tmp_path: Path) -> None:
    run("kb", "build", source, tmp_path / "kb", "--without-type", "Disease")
    kept = [entity for entity in ENTITIES if "Disease" not in entity.types]
    assert list(KnowledgeBase.open(tmp_path / "kb")) == kept
    run(
        "kb",
        "build",
        tmp_path / "kb",
        tmp_path / "small",
        "--type",
        "Anatomy",
        "--type",
        "Procedure",
    )
    kept = [entity for entity in kept if entity.types[0] in ("Anatomy", "Procedure")]
    assert list(KnowledgeBase.open(tmp_path / "small")) == kept
    output = run("kb", "build", source, tmp_path / "no", "--without-type", "Disaese", code=1)
    assert "no entity has the type 'Disaese'; choose of: Anatomy, Chemical, Disease" in output
    assert not (tmp_path / "no").exists()
