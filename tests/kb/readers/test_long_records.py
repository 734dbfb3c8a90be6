"""Records that do not end: small gzip files could otherwise fill the memory."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb.readers import mesh_ascii, mesh_xml, obo, open_source, owl
from spacy_pel.kb.readers.entity_source import ReadOptions
from spacy_pel.kb.readers.rrf import read_rrf

from .test_rrf import conso, write

LIMIT = 2**16


@pytest.mark.parametrize(
    "name, head, rest, message",
    [
        ("a.obo.gz", "[Term]\nid: X:1\nname: x\n", 'synonym: "x" EXACT []\n', r"line 3124: a reco"),
        (
            "d2024.bin.gz",
            "*NEWRECORD\nUI = D1\n",
            "ENTRY = a\n",
            r"line \d+: a record of more than",
        ),
        ("a.xml.gz", "<A><DescriptorRecord>", "<a/>", "no end of a record in 65,536 bytes; give a"),
        ("b.xml.gz", "<A>", "<Other/>", "no end of a record in 65,536 bytes; give a desc"),
    ],
)
def test_a_record_that_does_not_end(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    head: str,
    rest: str,
    message: str,
) -> None:
    for module in (mesh_ascii, mesh_xml, obo):
        monkeypatch.setattr(module, "LONGEST_LINE", LIMIT)
    monkeypatch.setattr("spacy_pel.system.lines.LONGEST_LINE", LIMIT)
    path = tmp_path / name
    path.write_bytes(gzip.compress((head + rest * 20_000).encode()))
    with pytest.raises(PelError, match=f"{name}.*{message}"):
        list(open_source(path).entities)


def test_only_the_start_of_release_dat_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "MRCONSO.RRF", [conso("C1", "Flu")])
    named = b"umls.release.name=2017AB\n"
    with open(tmp_path / "release.dat", "wb") as file:
        file.write(named)
        file.truncate(2**40)  # takes no space on the disk, nor in memory
    assert read_rrf(tmp_path, ReadOptions()).version == "2017AB"


def test_a_graph_that_would_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(obo_graph, "_MOST", LIMIT)
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b'{"graphs": [' + b" " * 10 * LIMIT))
    with pytest.raises(PelError, match="a.json.gz: longer than 65,536 bytes; take the ontology's"):
        obo_graph.read_obo_graph(tmp_path / "a.json.gz", ReadOptions())
