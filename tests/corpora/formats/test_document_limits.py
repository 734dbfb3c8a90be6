"""Small files that unpack to far more than a document may hold: refused in little memory."""

import gzip
import re
import tracemalloc
from pathlib import Path

import pytest

from spacy_pel.corpora import open_documents
from spacy_pel.corpora.formats import base as format
from spacy_pel.corpora.formats import bioc
from spacy_pel.errors import PelError

MEGABYTE = 2**20
SMALL = 2**16  # bytes that a document may have in these tests


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousandth of the limit; what is refused must not take more than a few of them."""
    for module in (bioc, format):
        monkeypatch.setattr(module, "MAX_DOCUMENT_BYTES", SMALL)


def faults(path: Path) -> str:
    """What is said of a file that is read in 8 MB."""
    messages = []
    tracemalloc.start()
    for raw in open_documents(str(path)):
        try:
            raw.document()
        except PelError as error:
            messages.append(str(error))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * MEGABYTE
    return "\n".join(messages)


NO_END = "no end of a document in 65,536 bytes, and the rest"


@pytest.mark.parametrize(
    "name, head, rest, message",
    [
        ("a.xml.gz", b"<x><y>", b"a", "no end of a (record|document) in 65,536 bytes"),
        ("a.json.gz", b'{"documents": ["', b"a", NO_END),
        ("a.csv.gz", b'text\n"', b'","\n', NO_END),
        ("a.jsonl.gz", b"", b"a", NO_END),
    ],
)
def test_a_gzip_that_would_fill_the_memory(tmp_path, name, head, rest, message) -> None:
    block = rest * (MEGABYTE // len(rest))
    with gzip.open(tmp_path / name, "wb", 1) as file:
        file.write(head)
        for _ in range(100):
            file.write(block)
    assert re.search(message, faults(tmp_path / name))
