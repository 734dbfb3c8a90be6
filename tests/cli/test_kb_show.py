import json
from pathlib import Path

from spacy_pel.kb import Entity, KnowledgeBase, build_kb
from spacy_pel.kb.change import change_entities, remove_entities
from spacy_pel.kb.store import KB_FILE

from ..conftest import ENTITIES
from ..kb.living import edit_settings


def info(run, folder: Path, *names: str) -> tuple:
    """Facts of ``kb info`` with these names."""
    told = json.loads(run("kb", "info", folder, "--json"))
    return tuple(told[name] for name in names)


def test_info_of_a_kb_without_vectors(run, tmp_path: Path) -> None:
    folder = build_kb(ENTITIES, tmp_path / "kb").path
    assert info(run, folder, "entities", "aliases", "definitions") == (7, 10, 2)
    assert info(run, folder, "alt_ids", "removed") == (1, 0)
    types, size = info(run, folder, "types", "bytes")
    assert types == ["Anatomy", "Chemical", "Disease", "Procedure"]
    files = (path for path in folder.iterdir() if path.suffix != ".json")
    assert size == sum(path.stat().st_size for path in files)
    of_vectors = ("rows", "index_unit", "dim", "stored_dim", "dtype", "index", "codes", "recall")
    assert set(info(run, folder, *of_vectors)) == {None}
    change_entities(folder, "add", [Entity("C08", "gout")])
    remove_entities(folder, ["C01", "C08"])
    assert info(run, folder, "entities", "removed") == (6, 2)
    (folder / KB_FILE).write_bytes(b"x" * 4096)
    assert "kb.sqlite: cannot be read" in run("kb", "info", folder, code=1)


def test_find_by_words_and_by_id(run, bare_kb: KnowledgeBase) -> None:
    sclerosis = "C01 multiple sclerosis Disease also: MS; disseminated sclerosis"
    spectrometry = "C02 mass spectrometry Procedure also: MS; mass spectroscopy"
    for arguments, found in (
        (["SCLEROSIS"], sclerosis),
        (["ms"], f"{sclerosis} {spectrometry}"),
        (["ms", "--limit", 1], sclerosis),
        (["X3"], "C03 rheumatoid arthritis Disease also: RA"),
    ):
        assert run("kb", "info", bare_kb.path, *arguments) == found
    assert "neither the id 'yeti' nor an entity wh" in run("kb", "info", bare_kb.path, "yeti")


def test_a_stranger_s_kb_does_not_control_the_terminal(run, bare_kb: KnowledgeBase) -> None:
    evil = "\x1b]0;owned\x07\x9b2J MS"
    edit_settings(bare_kb.path, lambda settings: settings.update(sources=[evil]))
    shown = run("kb", "info", bare_kb.path)
    assert "\ufffd]0;owned\ufffd\ufffd2J MS" in shown
    assert not set(shown) & {"\x1b", "\x07", "\x9b"}
    assert "\x9b" not in run("kb", "info", bare_kb.path, "--json")


def test_verify_names_each_fault(run, bare_kb: KnowledgeBase) -> None:
    records = bare_kb.path / KB_FILE
    content = bytearray(records.read_bytes())
    content[len(content) // 2] ^= 1
    records.write_bytes(content)
    output = run("kb", "verify", bare_kb.path, code=1)
    assert "does not match its checksum; copy the folder again" in output
    assert output.count("Error:") == 1
