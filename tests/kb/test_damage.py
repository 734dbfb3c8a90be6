"""Damaged KBs: ``verify`` finds the damage; in use an error names the file and ``kb verify``.

Files of vectors are compared with their checksums when they are first read, unless they are large. The
fixture ``large`` makes all files large, for what is checked in those as well.
"""

import random
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, SearchFilter, SemanticType, build_kb
from spacy_pel.kb.change import change_entities, remove_entities
from spacy_pel.kb.describe import copy_kb
from spacy_pel.kb.knowledge_base import COPY_OR_BUILD, verify
from spacy_pel.kb.store import JOURNAL, KB_FILE
from spacy_pel.kb.transaction import CHECKSUMS, write_checksums
from spacy_pel.kb.vectors import stored as stored_vectors

from .living import NameRows, edit_settings, embed, execute, learn, name_vector

N = 150
TYPES = [SemanticType("Disease", "T1", "A1"), SemanticType("Finding", "T2", "A1.1")]
PEOPLE = [
    Entity(f"C{i}", f"Name {i}", (f"Alias {i}",), (TYPES[i % 2].name,), "Text.", (f"A{i}",))
    for i in range(N)
]
KINDS = {
    "float16": {"index": "exact", "dtype": "float16"},
    "codes": {"index": "approximate", "dtype": "int8"},
    "lists": {"index": "approximate"},
    "reduced": {"index": "approximate", "stored_dim": 6, "alike": 0.9},
}
USES = KnowledgeBase.open, lambda path: remove_entities(path, ["C1"])


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file of vectors is compared with its checksum."""
    monkeypatch.setattr(stored_vectors, "CHECKED_BYTES", 0)


def made(folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A KB that was changed, unless its vectors were made shorter."""
    if kind == "lists":
        monkeypatch.setattr("spacy_pel.kb.vectors.index_building.MAX_CODED_ROWS", 0)
    build_kb(PEOPLE, folder, types=TYPES, sources=["people"]).close()
    embed(folder, **KINDS[kind]).close()
    learn(folder, "a", [("Gout", "C1"), ("Name 5", "C2"), ("?", "C3")])
    if kind != "reduced":
        gout = Entity("D1", "Gout", ("Podagra",), ("Disease",))
        change_entities(folder, "add", [gout], NameRows())
        remove_entities(folder, ["C7"])
    return folder


@pytest.fixture
def changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return made(tmp_path / "changed", "codes", monkeypatch)


def use(folder: Path) -> None:
    """Opens a KB, and asks for a bit of everything."""
    with KnowledgeBase.open(folder) as kb:
        queries = np.array([name_vector("Name 5"), name_vector("Gout"), name_vector("?")])
        kb.labels(kb.search(queries, 5).numbers.ravel())
        disease = SearchFilter(types=("Disease",), ids=("C1", "C2", "A4", "D1"))
        kb.search(queries, 2, disease)
        kb.rows(kb.numbers()[:20])
        kb.mentions.counts(), kb.mentions.passages()
        rows = kb.mentions.nearest_of(queries, np.tile(kb.numbers()[:9], (3, 1)))
        kb.mentions.described(rows[rows >= 0])
        [kb.number(id) for id in ("C1", "A9", "D1", "none")]
        kb.named("name 8"), kb.search_names("alias"), kb.search_names("Name 9")
        kb.of_types("Disease"), kb.semantic_type_tree
        sum(1 for _ in kb)


def flips(folder: Path, n: int) -> Iterator[Path]:
    """Flips a bit of each file of a KB, n times."""
    chance = random.Random(0)
    for path in sorted(set(folder.iterdir()) - {folder / CHECKSUMS}):
        content = path.read_bytes()
        places = [chance.randrange(len(content)) for _ in range(n // 2)]
        places += [chance.randrange(min(200, len(content))) for _ in range(n // 2)]  # headers
        for place in places:
            byte = content[place] ^ 1 << chance.randrange(8)
            path.write_bytes(content[:place] + bytes([byte]) + content[place + 1 :])
            yield path
        path.write_bytes(content)


@pytest.mark.parametrize("kind", ["codes", "lists", "reduced"])
def test_a_flipped_bit_raises_no_other_error(tmp_path: Path, kind: str, monkeypatch) -> None:
    folder = made(tmp_path / "kb", kind, monkeypatch)
    for path in flips(folder, 4):
        if path.name != KB_FILE:
            with pytest.raises(PelError, match=f"{path.name}: does not match .*kb verify {folder}"):
                use(folder)
    monkeypatch.setattr(stored_vectors, "CHECKED_BYTES", 0)
    for path in flips(folder, 12):
        try:
            use(folder)
        except PelError as error:
            told = f"kb verify {folder}"  # which file it is, if what is read does not show it
            assert any(part in str(error) for part in (path.name, KB_FILE, told))
    use(folder)
    (folder / "README").write_text("mine")  # opening with ``verify`` ignores it, as opening does
    KnowledgeBase.open(folder, verify=True).close()


@pytest.mark.parametrize("kind, value", [("float16", np.nan), ("lists", -np.inf)])
@pytest.mark.usefixtures("large")
def test_vectors_that_are_not_finite(tmp_path: Path, kind: str, value: float, monkeypatch) -> None:
    folder = made(tmp_path / "kb", kind, monkeypatch)
    [path] = folder.glob("vectors-*")
    np.save(path, np.full_like(np.load(path), value))
    with KnowledgeBase.open(folder) as kb:
        for read in (lambda: kb.search(name_vector("Gout")[None], 3), lambda: kb.rows([5])):
            with pytest.raises(PelError) as caught:
                read()
            assert str(caught.value).startswith(f"{path}: holds NaN or infinity; ")


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE entity SET aliases = '[1]'",
        "UPDATE entity SET definition = CAST(x'ff' AS TEXT)",
        "DELETE FROM entity WHERE number = 8",
        "UPDATE typed SET numbers = x'000000'",
        "UPDATE semantic_type SET name = x'07'",
        "UPDATE passage SET text = ''",
        "UPDATE mention SET concept_id = x'07'",
        "UPDATE vectors SET owners = x'00000000'",
        "UPDATE row SET vector = x'00'",
    ],
)
@pytest.mark.usefixtures("large")
def test_values_of_the_database(changed: Path, sql: str) -> None:
    execute(changed, sql)
    with pytest.raises(PelError) as caught:
        use(changed)
    assert f"kb verify {changed}" in str(caught.value)


def test_a_whole_kb(changed: Path) -> None:
    (changed / ".tmp-1.sqlite").write_text("half")  # what killed writers left
    (changed / ".lock").write_text("process 1")
    (changed / ".partial-0123").mkdir()
    read = []
    assert verify(changed, progress=read.append) == []
    files = [*changed.glob("vectors-*"), *changed.glob("index-*")]
    assert sum(read) == sum(path.stat().st_size for path in files) and len(files) == 2


def test_any_flipped_bit_of_an_assembled_kb_is_found(changed: Path, tmp_path: Path) -> None:
    with KnowledgeBase.open(changed) as kb:
        copy_kb(kb, copy := tmp_path / "copy")
    for path in flips(copy, 12):
        assert any(problem.problem.startswith(str(path)) for problem in verify(copy))
    assert verify(copy) == []


@pytest.mark.parametrize("size", [0, stored_vectors.CHECKED_BYTES])
def test_a_damaged_table_of_names_is_made_anew(changed: Path, size: int, monkeypatch) -> None:
    """With its checksum, or, where that is not read, only if its numbers are in their ranges."""
    monkeypatch.setattr(stored_vectors, "CHECKED_BYTES", size)
    with KnowledgeBase.open(changed) as kb:
        kb.name_finder()
        [path] = changed.glob(f"{kb.names_stem}-*")
        content, table = path.read_bytes(), kb.name_table()
        for column, value in {
            "owners": kb.settings["next_number"],
            "bounds": len(table["owners"][0]) + 1,
            "hashes": 0,
            "beginnings": False,  # names vanish
        }.items():
            edited = table.copy()
            edited[column][0][1:] = value
            np.save(path, edited)
            assert verify(changed)
            if size or column != "beginnings":
                assert kb.stored_names() is None and kb.name_finder().find("Name 5")
                assert path.read_bytes() == content  # made anew


def test_missing_and_short_files(changed: Path) -> None:
    vectors = next(changed.glob("vectors-*"))
    vectors.write_bytes(vectors.read_bytes()[:-1])
    [short] = verify(changed)
    vectors.unlink()
    [missing] = verify(changed)
    assert "bytes, not" in short.problem and missing.problem == f"{vectors}: missing"


def test_a_change_after_the_checksums_is_no_damage(changed: Path) -> None:
    write_checksums(changed)
    remove_entities(changed, ["C1"])
    assert verify(changed) == []
    write_checksums(changed)
    assert verify(changed) == []
    (changed / KB_FILE).write_bytes((changed / KB_FILE).read_bytes() + bytes(4096))
    [problem] = verify(changed)
    assert str(changed / KB_FILE) in problem.problem and problem.remedy == COPY_OR_BUILD


@pytest.mark.parametrize(
    "sql, fault",
    [
        ("INSERT INTO removed VALUES (2, 1)", "counts 150 entities where there are 149"),
        ("UPDATE vectors SET scales = NULL", "vectors do not fit"),
        ("DELETE FROM vectors", "replaced meanwhile"),
    ],
)
def test_what_contradicts_the_tables(changed: Path, sql: str, fault: str) -> None:
    execute(changed, sql)
    assert fault in "".join(map(str, verify(changed)))


@pytest.mark.parametrize(
    "changes, fault",
    [
        ({"schema_version": 99}, "version 99, this release reads 3; build it again"),
        ({"kind": "web app"}, "is not the database"),
        ({"vectors": {"file": {"name": "../secret"}}}, "unreadable settings"),
    ],
)
def test_settings_that_no_writer_writes(folder: Path, changes: dict, fault: str) -> None:
    def edit(settings: dict) -> None:
        vectors = {**settings["vectors"], **changes.get("vectors", {})}
        settings.update({**changes, "vectors": vectors})

    edit_settings(folder, edit)
    with pytest.raises(PelError, match=fault):
        KnowledgeBase.open(folder)


def test_a_journal_that_names_other_files_is_not_played(changed: Path, tmp_path: Path) -> None:
    """SQLite would delete the file that it names, as if it were the journal of several databases."""
    victim = tmp_path / "thesis.tex"
    victim.write_text("years of work")
    name = str(victim).encode()
    magic, page = bytes.fromhex("d9d505f920a163d7"), 4096
    header = magic + struct.pack(">I4sIII", 0, b"seed", 1, 512, page)
    end = struct.pack(">I", (1 << 30) // page + 1) + name + struct.pack(">II", len(name), sum(name))
    (changed / JOURNAL).write_bytes(header.ljust(512, b"\0") + end + magic)
    for open_it in USES:
        with pytest.raises(PelError, match="journal: is not of a KB"):
            open_it(changed)
    assert victim.read_text() == "years of work"
