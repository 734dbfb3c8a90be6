"""Any flipped bit of a gzip source is found, or harmless: never are other entities read."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb.readers import open_source

from .umls import conso, sty, write

FLIPS = 60
NAMES = ["Feces", "Gout", "Multiple sclerosis", "Rash", "Disseminated sclerosis", "Mitral stenosis"]


def rrf(folder: Path, kind: str) -> tuple[Path, Path]:
    """A release of which MRCONSO is packed; the release and the (last) packed file."""
    write(folder, "MRCONSO.RRF", [conso(f"C{i}", name) for i, name in enumerate(NAMES)], kind)
    write(folder, "MRSTY.RRF", [sty("C1", "Finding")])
    return folder, sorted(folder.glob("MRCONSO*"))[-1]


def table(folder: Path, name: str) -> tuple[Path, Path]:
    separator = "\t" if name.startswith("kb.tsv") else ","
    rows = [("concept_id", "canonical_name"), *((f"C{i}", n) for i, n in enumerate(NAMES))]
    path = folder / name
    path.write_bytes(gzip.compress("".join(f"{separator.join(row)}\n" for row in rows).encode()))
    return path, path


SOURCES = {
    "rrf": lambda folder: rrf(folder, "gz"),
    "rrf in parts": lambda folder: rrf(folder, "packed"),
    "cut rrf": lambda folder: rrf(folder, "cut"),
    "csv": lambda folder: table(folder, "kb.csv.gz"),
    "tsv": lambda folder: table(folder, "kb.tsv.GZ"),
}


def flipped(content: bytes) -> Iterator[bytes]:
    """The content with one bit flipped, for some of its bits."""
    chance = random.Random(0)
    for bit in chance.sample(range(8 * len(content)), FLIPS):
        place = bit // 8
        byte = content[place] ^ 1 << bit % 8
        yield content[:place] + bytes([byte]) + content[place + 1 :]


@pytest.mark.parametrize("kind", SOURCES)
def test_a_flipped_bit_gives_the_right_entities_or_an_error(tmp_path: Path, kind: str) -> None:
    source, path = SOURCES[kind](tmp_path)
    whole = list(open_source(source).entities)
    assert [entity.canonical_name for entity in whole] == NAMES
    errors = 0
    for content in flipped(path.read_bytes()):
        path.write_bytes(content)
        try:
            assert list(open_source(source).entities) == whole
        except PelError as error:
            errors += 1
            assert "damaged gzip" in str(error)
            assert path.name in str(error)
    assert errors > FLIPS / 2


@pytest.mark.parametrize("kind", SOURCES)
def test_a_cut_file(tmp_path: Path, kind: str) -> None:
    source, path = SOURCES[kind](tmp_path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(PelError, match="damaged gzip"):
        list(open_source(source).entities)
