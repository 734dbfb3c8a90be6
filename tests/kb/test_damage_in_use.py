"""A damaged KB in use: an error that names the file and ``kb verify``, and never another error.

Files of vectors are compared with their checksums when they are first read, unless they are large. The
fixture ``large`` makes all files large, for what is checked in those as well.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, SearchFilter, SemanticType, build_kb, stored_vectors
from spacy_pel.kb.change import add_entities, remove_entities
from spacy_pel.kb.store import KB_FILE
from spacy_pel.kb.transaction import CHECKSUMS

from .living import NameRows, embed, execute, learn, name_vector

N = 150
FLIPS = 20  # of each file
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


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file of vectors is compared with its checksum."""
    monkeypatch.setattr(stored_vectors, "CHECKED_BYTES", 0)


def made(folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A KB that was changed, unless its vectors were made shorter."""
    if kind == "lists":
        monkeypatch.setattr("spacy_pel.kb.vectors.building.SCANNED_ROWS", 0)
    build_kb(PEOPLE, folder, types=TYPES, sources=["people"]).close()
    embed(folder, **KINDS[kind]).close()
    learn(folder, "a", [("Gout", "C1"), ("Name 5", "C2"), ("?", "C3")])
    if kind != "reduced":
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
        kb.mentions.counts()
        rows = kb.mentions.nearest_of(queries, np.tile(kb.numbers()[:9], (3, 1)))
        kb.mentions.described(rows[rows >= 0])
        [kb.number(id) for id in ("C1", "A9", "D1", "none")]
        kb.named("name 8"), kb.named("Gout", exact=True), kb.found("alias"), kb.found("Name 9")
        kb.of_types("Disease"), kb.semantic_types, list(kb.semantic_type_tree.flat_nodes)
        sum(1 for _ in kb)


def flips(folder: Path, n: int, seed: int = 0) -> Iterator[Path]:
    """Flips a bit of each file of a KB, n times."""
    chance = random.Random(seed)
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
def test_a_flipped_bit_raises_no_other_error(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made(tmp_path / "kb", kind, monkeypatch)
    for path in flips(folder, 4):
        if path.name != KB_FILE:
            with pytest.raises(PelError, match=f"{path.name}: does not agree .*kb verify {folder}"):
                use(folder)
    monkeypatch.setattr(stored_vectors, "CHECKED_BYTES", 0)
    for path in flips(folder, FLIPS):
        try:
            use(folder)
        except PelError as error:
            told = f"kb verify {folder}"  # which file it is, if what is read does not show it
            assert any(part in str(error) for part in (path.name, KB_FILE, told))
    use(folder)
    (folder / "README").write_text("mine")  # opening with ``verify`` ignores it, as opening does
    KnowledgeBase.open(folder, verify=True).close()


@pytest.mark.parametrize(
    "kind, value", [("float16", np.nan), ("lists", -np.inf), ("reduced", np.nan)]
)
@pytest.mark.usefixtures("large")
def test_vectors_that_are_not_finite(
    tmp_path: Path, kind: str, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        "UPDATE entity SET types = '{'",
        "UPDATE entity SET canonical_name = x'ff'",
        "UPDATE entity SET definition = CAST(x'ff' AS TEXT)",
        "UPDATE entity SET definition = 'Txet.'",
        "DELETE FROM entity WHERE number = 8",
        "UPDATE typed SET numbers = x'000000'",
        "UPDATE semantic_type SET name = x'07'",
        "UPDATE vectors SET owners = x'00000000'",
        "UPDATE vectors SET scales = zeroblob(4)",
        "UPDATE vectors SET scales = x'0000c07f'",
        "UPDATE row SET vector = x'00'",
        "UPDATE row SET number = -1",
    ],
)
@pytest.mark.usefixtures("large")
def test_values_of_the_database(tmp_path: Path, sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made(tmp_path / "kb", "codes", monkeypatch)
    execute(folder, sql)
    with pytest.raises(PelError) as caught:
        use(folder)
    assert f"kb verify {folder}" in str(caught.value)
