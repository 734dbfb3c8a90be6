import json
from pathlib import Path

import pytest

from spacy_pel.kb import Entity, KnowledgeBase
from spacy_pel.kb.readers import ReadOptions, Source, UmlsRecipe
from spacy_pel.models.architectures import entity_fingerprint

from ..conftest import ENTITIES, write_text
from .conftest import write_entities

OBO = "data-version: 2016\n\n[Term]\nid: D:1\nname: RA\nxref: UMLS:C0000003\n"
SSSOM = "subject_id\tpredicate_id\tobject_id\n" + "".join(
    f"{id}\tskos:exactMatch\tUMLS:C0000003\n" for id in ("M:3", "D:1")
)
OPEN_SOURCE = "spacy_pel.kb.readers.build_from_sources.open_source"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_entities(tmp_path / "source.jsonl", ENTITIES)


def test_build(run, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "kb"
    output = run("kb", "build", source, out)
    kb = KnowledgeBase.open(out)
    assert list(kb) == ENTITIES and kb.settings["sources"] == [str(source)]
    assert "7 entities with 10 aliases" in output and f"kb embed {out} PIPELINE" in output
    renamed = source.rename(tmp_path / "source.data")
    assert "cannot tell the format" in run("kb", "build", renamed, tmp_path / "b", code=1)
    chosen = ("--without-type", "Disease", "--format", "jsonl")
    run("kb", "build", renamed, tmp_path / "b", *chosen)
    kept = [entity for entity in ENTITIES if "Disease" not in entity.types]
    assert list(KnowledgeBase.open(tmp_path / "b")) == kept


def test_build_merges_sources(run, tmp_path: Path) -> None:
    obo, table, mapping = (tmp_path / name for name in ("d.obo", "m.csv", "map.sssom.tsv"))
    obo.write_text(OBO)
    table.write_text("Id,canonical_name,definition\nM:3,arthritis,Of joints.\nM:4,gout,\n")
    mapping.write_text(SSSOM)
    sources = (obo, table, tmp_path / "kb", "--mapping", mapping, "--column", "concept_id=Id")
    assert ": 2 entities" in run("kb", "build", *sources).partition("Built")[2]
    kb = KnowledgeBase.open(tmp_path / "kb")
    assert list(kb) == [
        Entity(
            "C0000003", "RA", ("arthritis",), (), "Of joints.", ("D:1", "M:3"),
            xrefs=("UMLS:C0000003",), sources=("D", "m.csv"),
        ),
        Entity("M:4", "gout", sources=("m.csv",)),
    ]  # fmt: skip
    assert kb.settings["sources"] == [f"{obo} (2016)", str(table), str(mapping)]


def test_build_knows_ids_of_before(run, source: Path, tmp_path: Path) -> None:
    table = write_text(tmp_path / "retired.tsv", "old\tnew\tname\nOLD1\tC01\tMS\nOLD2\tC01\n")
    run("kb", "build", source, tmp_path / "kb", "--retired", table)
    kb = KnowledgeBase.open(tmp_path / "kb")
    assert kb["OLD1"].retired_ids == kb["C01"].retired_ids == ("OLD1", "OLD2")
    for text, message in (("OLD1 C01", "line 1 has no tab"), ("A\tB", "one of the 1 current ids")):
        table.write_text(text)
        assert message in run("kb", "build", source, tmp_path / "b", "--retired", table, code=1)


def test_build_hands_on_the_recipe(run, source: Path, tmp_path: Path, monkeypatch) -> None:
    given: list[ReadOptions] = []

    def opened(path: Path, format: str | None, options: ReadOptions) -> Source:
        given.append(options)
        return Source(iter(ENTITIES))

    monkeypatch.setattr(OPEN_SOURCE, opened)
    choices = ("--preset", "st21pv", "--language", "all", "--type", "Disease", "--type", "Anatomy")
    run("kb", "build", source, tmp_path / "kb", *choices)
    more = {"languages": None, "types": ("Disease", "Anatomy")}
    assert given.pop().umls == UmlsRecipe.preset("st21pv")._replace(**more)
    run("kb", "build", source, tmp_path / "kb")
    assert given == [ReadOptions(umls=UmlsRecipe())]


@pytest.mark.parametrize(
    "options, message",
    [
        ("--column aliases", "write FIELD=COLUMN"),
        ("--column concept_id=A --column aliases=A", "the column is missing or repeated"),
        ("--preset st22", "unknown preset"),
        ("--without-type Disaese", "no entity has the type 'Disaese'; choose one of: Anatomy, Ch"),
        ("--format obo", "source.jsonl"),
    ],
)
def test_build_says_what_is_wrong(run, source, tmp_path: Path, options, message: str) -> None:
    assert message in run("kb", "build", source, tmp_path / "kb", *options.split(), code=1)
    assert not (tmp_path / "kb").exists()
    assert "there is no SOURCE before it" in run("kb", "build", source, code=1)


def test_embed(run, bare_kb: KnowledgeBase, tiny_folder: Path, tiny_nlp, monkeypatch) -> None:
    output = run("kb", "embed", bare_kb.path, tiny_folder)
    encoder = tiny_nlp.get_pipe("proxy_linker").retriever
    KnowledgeBase.open(bare_kb.path).check_fingerprint(entity_fingerprint(encoder))
    assert "7 entities, 17 vectors of 32 dimensions, one for each name" in output
    info, facts = json.loads(run("kb", "info", bare_kb.path, "--json")), ("rows", "dim", "recall")
    assert [info[fact] for fact in facts] == [17, 32, None]
    assert info["fingerprint"] in run("kb", "info", bare_kb.path)
    # As a run leaves it that ended at the last moment.
    left = bare_kb.path / ".partial-vectors"
    left.mkdir()
    (left / "chunk-000000.npz").touch()
    monkeypatch.setattr("spacy_pel.batch.embed.write_vectors", None)
    said = run("kb", "embed", bare_kb.path, tiny_folder)
    assert "already has the vectors of this encoder" in said and not left.exists()


def test_vectors_kept_otherwise_are_not_encoded_again(run, own_kb, tiny_folder, encoded) -> None:
    run("kb", "embed", own_kb, tiny_folder, "--index", "exact", "--dtype", "int8")
    vectors = KnowledgeBase.open(own_kb).settings["vectors"]
    assert (vectors["dtype"], vectors["index"]) == ("int8", "exact") and not encoded
    run("kb", "embed", own_kb, tiny_folder, "--dtype", "float32")  # not to be had of int8
    assert (
        len(encoded) == 17 and KnowledgeBase.open(own_kb).settings["vectors"]["dtype"] == "float32"
    )


def test_vectors_in_fewer_numbers_and_of_shared_codes(run, own_kb, bare_kb, tiny_folder) -> None:
    output = run("kb", "embed", own_kb, tiny_folder, "--dim", 12)
    assert "stored in 12 numbers, with" in output and "17 vectors of 32 dimensions" in output
    output = run("kb", "embed", bare_kb.path, tiny_folder, "--reuse", own_kb, code=1)
    assert "its vectors were reduced" in output
    run("kb", "embed", own_kb, tiny_folder, "--alike", 0.01, "--index", "approximate")
    info = json.loads(run("kb", "info", own_kb, "--json"))  # whole ones again
    assert info["codes"] < 17 == info["rows"] and info["stored_dim"] == info["dim"]
