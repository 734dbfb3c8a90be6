"""Sources that somebody made to cost time: reading them is linear in their size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spacy_pel.kb.readers import open_source
from spacy_pel.kb.readers.sssom import read_mapping

from ...growth import assert_linear

TERM = "[Term]\nid: X:{}\nname: {}\n"
EXACT = "subject_id\tpredicate_id\tobject_id\n"

# Suffix, the text of n lines or so, and n.
SHAPES: dict[str, tuple[str, Callable[[int], str], int]] = {
    "rows of one id": (
        ".csv",
        lambda n: "concept_id,canonical_name\n" + "".join(f"A,b{i}\n" for i in range(n)),
        2_000,
    ),
    "columns": (
        ".csv",
        lambda n: "concept_id,canonical_name," + ",".join(f"c{i}" for i in range(n)) + "\n",
        2_000,
    ),
    "frames of one id": (".obo", lambda n: "".join(TERM.format(1, i) for i in range(n)), 2_000),
    "broken clauses": (".obo", lambda n: TERM.format(1, "x") + 'synonym: "x\n' * n, 1_000),
    "broken references": (
        ".obo",
        lambda n: TERM.format(1, "x") + "".join(f'synonym: "s{i}" EXACT [\n' for i in range(n)),
        1_000,
    ),
    "a chain of obsolete terms": (
        ".obo",
        lambda n: "".join(
            f"{TERM.format(i, i)}is_obsolete: true\nreplaced_by: X:{i + 1}\n" for i in range(n)
        ),
        2_000,
    ),
    "records of one heading": (
        ".bin",
        lambda n: "".join(f"*NEWRECORD\nUI = D{i}\nMH = x\nMN = C{i}.1\n" for i in range(n)),
        1_000,
    ),
    "a chain of mappings": (
        ".sssom.tsv",
        lambda n: (
            EXACT
            + "".join(f"X:{i}\tskos:exactMatch\tX:{i + 1}\n" for i in range(n))
            + "".join(f"X:0\tskos:exactMatch\tY:{i}\n" for i in range(n))
        ),
        2_000,
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_sources(tmp_path: Path, shape: str) -> None:
    suffix, text, size = SHAPES[shape]

    def written(n: int) -> Path:
        path = tmp_path / f"{n}{suffix}"
        path.write_text(text(n), encoding="utf8")
        return path

    def read(path: Path) -> None:
        read_mapping([path]) if "sssom" in suffix else list(open_source(path).entities)

    assert_linear(read, written, size)
