"""A damaged KB in use: an error that names the file and ``kb verify``, and never another error.

Files are compared with their checksums when they are first read, unless they are large. The fixture
``large`` makes all files large, for what is checked in those as well.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, SearchFilter, SemanticType, build_kb, write_vectors
from spacy_pel.kb.folder import file_checks
from spacy_pel.kb.folder.checksums import sha256
from spacy_pel.kb.folder.manifest import MANIFEST
from spacy_pel.kb.writing import vector_writing
from spacy_pel.kb.writing.compaction import compact
from spacy_pel.kb.writing.entity_changes import add_entities, remove_entities
from spacy_pel.kb.writing.reduction import reduce_vectors

from .living import NameRows, name_vector

N = 300
FLIPS = 60  # of each file
TYPES = [SemanticType("Disease", "T1", "A1"), SemanticType("Finding", "T2", "A1.1")]
PEOPLE = [
    Entity(f"C{i}", f"Name {i}", (f"Alias {i}",), (TYPES[i % 2].name,), "Text.", (f"A{i}",))
    for i in range(N)
]
KINDS = {
    "exact": {"index": "exact"},
    "float16": {"index": "exact", "dtype": "float16"},
    "codes": {"index": "approximate", "dtype": "int8"},
    "lists": {"index": "approximate"},
    "reduced": {"index": "approximate"},
}


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file is compared with its checksum."""
    monkeypatch.setattr(file_checks, "CHECKED_BYTES", 0)


def made(folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A KB of two segments with removed entities, or if reduced of one."""
    if kind == "lists":
        monkeypatch.setattr(vector_writing, "SCANNED_ROWS", 0)
    build_kb(PEOPLE, folder, types=TYPES, sources=["people"]).close()
    with KnowledgeBase.open(folder) as kb:
        rows = NameRows().rows(list(kb))
    settings = {"dim": 8, "fingerprint": "names", "row_kind": "name", **KINDS[kind]}
    write_vectors(folder, [rows], **settings).close()
    if kind == "reduced":
        reduce_vectors(folder, dim=6, alike=0.9)[0].close()
    else:
        add_entities(folder, [Entity("D1", "Gout", ("Podagra",), ("Disease",))], NameRows())
        remove_entities(folder, ["C7"])
    return folder


def use(folder: Path) -> None:
    """Opens a KB, and asks for a bit of everything."""
    with KnowledgeBase.open(folder) as kb:
        queries = np.array([name_vector("Name 5"), name_vector("Gout"), name_vector("?")])
        kb.labels(kb.search(queries, 5).numbers.ravel())
        disease = SearchFilter(types=("Disease",), ids=("C1", "C2", "A4", "D1"))
        kb.search(queries, 2, disease)
        kb.rows(kb.numbers()[:20])
        [kb.number(id) for id in ("C1", "A9", "D1", "none")]
        kb.named("name 8"), kb.named("Gout", exact=True), kb.found("alias"), kb.found("Name 9")
        kb.of_types("Disease"), kb.semantic_types, list(kb.semantic_type_tree.flat_nodes)
        sum(1 for _ in kb)


def flips(folder: Path, n: int, seed: int = 0) -> Iterator[Path]:
    """Flips a bit of each file of the manifest, n times."""
    chance = random.Random(seed)
    for name in json.loads((folder / MANIFEST).read_text())["files"]:
        path = folder / name
        content = path.read_bytes()
        places = [chance.randrange(len(content)) for _ in range(n // 2)]
        places += [chance.randrange(min(200, len(content))) for _ in range(n // 2)]  # headers
        for place in places:
            byte = content[place] ^ 1 << chance.randrange(8)
            path.write_bytes(content[:place] + bytes([byte]) + content[place + 1 :])
            yield path
        path.write_bytes(content)


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_of_what_is_read_is_found(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(tmp_path / "kb", kind, monkeypatch)
    for path in flips(folder, 10):
        with pytest.raises(PelError, match="does not agree with its checksum") as caught:
            use(folder)
        assert path.name in str(caught.value)
        assert f"kb verify {folder}" in str(caught.value)
    use(folder)


def test_each_file_is_compared_once_and_only_if_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(tmp_path / "kb", "codes", monkeypatch)
    compared = []
    monkeypatch.setattr(file_checks, "sha256", lambda path: compared.append(path) or sha256(path))
    with KnowledgeBase.open(folder) as kb:
        assert compared == []
        for _ in range(2):
            kb.number("none")
        assert {path.name.partition("-")[0] for path in compared} == {"entities"}
        use(folder)
        del compared[:]
        for _ in range(2):
            kb.search(name_vector("Gout")[None], 3)
            kb.entities(kb.numbers())
    assert len(compared) == len(set(compared))
    assert {path.name.partition("-")[0] for path in compared} == {
        "vectors", "scales", "rows", "index", "removed"
    }  # fmt: skip


def test_what_a_damaged_index_does_not_touch_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index is built again when a KB is compacted, so damage to it can be mended."""
    folder = made(tmp_path / "kb", "codes", monkeypatch)
    path = max(folder.glob("index-*"), key=lambda path: path.stat().st_size)
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with KnowledgeBase.open(folder) as kb:
        kb.rows([5]), kb["C5"]
        with pytest.raises(PelError, match="does not agree with its checksum"):
            kb.search(name_vector("Gout")[None], 3)
    compact(folder).close()
    use(folder)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("large")
def test_a_flipped_bit_raises_no_other_error(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(tmp_path / "kb", kind, monkeypatch)
    use(folder)
    for path in flips(folder, FLIPS):
        try:
            use(folder)
        except PelError as error:
            assert path.name in str(error)
            assert f"kb verify {folder}" in str(error)
        with pytest.raises(PelError, match="does not agree with its checksum"):
            KnowledgeBase.open(folder, verify=True)
    use(folder)
    KnowledgeBase.open(folder, verify=True).close()


def overwritten(folder: Path, stem: str, change) -> Path:
    """A file of the KB with other values, in the same number of bytes."""
    path = max(folder.glob(f"{stem}-*"), key=lambda path: path.stat().st_size)
    values = np.load(path)
    change(values)
    np.save(path, values)
    return path


def fill(value: float):
    return lambda values: values.fill(value)


def put(place: int, value: float):
    return lambda values: values.__setitem__(place, value)


@pytest.mark.parametrize("kind", ["exact", "float16", "lists", "reduced"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.usefixtures("large")
def test_vectors_that_are_not_finite(
    tmp_path: Path, kind: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(tmp_path / "kb", kind, monkeypatch)
    path = overwritten(folder, "vectors", fill(value))
    with KnowledgeBase.open(folder) as kb:
        for read in (lambda: kb.search(name_vector("Gout")[None], 3), lambda: kb.rows([5])):
            with pytest.raises(PelError) as caught:
                read()
            assert str(caught.value).startswith(f"{path}: holds NaN or infinity; ")


@pytest.mark.usefixtures("large")
def test_one_nan_is_met_by_exact_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made(tmp_path / "kb", "exact", monkeypatch)
    overwritten(folder, "vectors", put(2 * 77, np.nan))
    with KnowledgeBase.open(folder) as kb:
        kb.rows([5])
        with pytest.raises(PelError, match="holds NaN or infinity"):
            kb.search(name_vector("Gout")[None], 3)


@pytest.mark.parametrize(
    "stem, change, fault",
    [
        ("scales", put(3, np.nan), "holds NaN or infinity"),
        ("rows", put(3, 9), "does not hold ascending numbers"),
        ("rows", put(0, -1), "does not hold ascending numbers"),
        ("rows", put(-1, N), "names entities beyond the 300 of its segment"),
        ("removed", put(0, N), "does not hold ascending numbers below 300"),
        ("removed", put(0, -1), "does not hold ascending numbers below 300"),
    ],
)
@pytest.mark.usefixtures("large")
def test_ranges(
    tmp_path: Path, stem: str, change, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(tmp_path / "kb", "codes", monkeypatch)
    path = overwritten(folder, stem, change)
    with pytest.raises(PelError) as caught:
        use(folder)
    assert str(caught.value).startswith(f"{path}: {fault}")


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE entity SET aliases = '[1]'",
        "UPDATE entity SET aliases = '\"text\"'",
        "UPDATE entity SET types = '{'",
        "UPDATE entity SET canonical_name = x'ff'",
        "UPDATE entity SET definition = CAST(x'ff' AS TEXT)",
        "UPDATE alternative SET number = 'x'",
        "UPDATE alternative SET number = 100000",
        "UPDATE alternative SET number = -5",
        "DELETE FROM entity WHERE number = 8",
        "UPDATE typed SET numbers = x'000000'",
        "UPDATE typed SET numbers = x'00000070'",
        "UPDATE semantic_type SET name = x'07'",
    ],
)
@pytest.mark.usefixtures("large")
def test_values_of_records(tmp_path: Path, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made(tmp_path / "kb", "exact", monkeypatch)
    with KnowledgeBase.open(folder) as kb:
        path = kb.segments[0].store.path
    size = path.stat().st_size
    database = sqlite3.connect(path)
    database.execute(sql)
    database.commit()
    database.close()
    assert path.stat().st_size == size
    with pytest.raises(PelError) as caught:
        use(folder)
    assert str(caught.value).startswith(str(path))
    assert f"kb verify {folder}" in str(caught.value)


def test_a_kb_of_another_process_is_left_alone(tmp_path: Path) -> None:
    """Opening with ``verify`` ignores what does not belong to the KB, as opening does."""
    build_kb(PEOPLE[:3], tmp_path / "kb").close()
    (tmp_path / "kb" / "README").write_text("mine")
    KnowledgeBase.open(tmp_path / "kb", verify=True).close()
    shutil.rmtree(tmp_path / "kb")
