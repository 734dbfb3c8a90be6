"""What small or large files that somebody made to cost time or memory cost, by format.

    python benchmarks/hostile_inputs.py

Each file is read in a process of its own, as ``pel link`` or ``kb build`` would read it. The seconds are of
the processor, and the memory is the most that the process held, with Python and this package in it.
"""

import gzip
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import duckdb
from srsly import msgpack_dumps

MEGABYTE = 2**20
READ = """
import re, sys, time
from spacy_pel.corpora import open_documents
from spacy_pel.errors import PelError
from spacy_pel.kb.readers import open_source

def read(path):
    if "/kb-" in path:
        return sum(1 for _ in open_source(path).entities)
    return sum(len(raw.document().text) for raw in open_documents(path))

began = time.process_time()
try:
    said = f"read ({read(sys.argv[1]):,})"
except PelError as error:
    said = str(error).partition(": ")[2]
seconds = time.process_time() - began
# Not getrusage, which counts the memory of the process that began this one.
held = re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]
print(said[:90], f"{seconds:.1f}", int(held) >> 10, sep="|")
"""


def files() -> Iterator[tuple[str, Iterable[bytes]]]:
    """Yield the names of files and their blocks. Files named "kb-…" have entities."""

    def whole(head: bytes, unit: bytes, size: int = 63 * MEGABYTE) -> Iterator[bytes]:
        yield head
        block = unit * (MEGABYTE // len(unit))
        for _ in range(size // len(block)):
            yield block

    for name in ("levels.json", "levels.bioc.json", "levels.jsonl", "kb-levels.jsonl"):
        yield name, whole(b"", b"[")
    yield "small.json", [b"[" * 64_000]
    yield "values.json", whole(b'[{"text": "", "a": [', b"{},")
    yield "values.jsonl", whole(b'{"text": "", "a": [', b"{},")
    yield "escapes.json", [*whole(b'[{"text": "', b'x\\"['), b'"}]']
    yield "keys.json", [b'{"%s":' % (b"k" * 600_000) * 90]
    yield "tag.xml", whole(b"<a", b"0")
    yield "comment.xml", whole(b"<a><!--", b"0")
    yield "text.xml.gz", whole(b"<a><b>", b"0", 512 * MEGABYTE)
    yield "elements.xml", whole(b"<a><document>", b"<passage/>")
    yield "levels.xml", whole(b"<a>", b"<passage>")
    yield (
        "kb-elements.owl",
        whole(b'<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><a>', b"<b/>"),
    )
    yield "quotes.csv", whole(b"text,id\n", b'"a\n')
    # Each row is a document, which costs some microseconds, honest or not.
    for name, row in ("rows", b"a\t1\n"), ("quotes", b'"a\t1\n'), ("ends", b'"\t"\n'):
        yield f"{name}.tsv", whole(b"text\tid\n", row, 4 * MEGABYTE)
    for name, row in ("rows", b"a\ta\n"), ("quotes", b'a\t"a\n'):
        yield f"kb-{name}.tsv", whole(b"concept_id\tcanonical_name\n", row, 4 * MEGABYTE)
    yield "quoted.tsv", [*whole(b'text\tid\n"', b"a\n"), b'"\t1\n']
    yield "kb-synonyms.obo", whole(b"[Term]\nid: A:1\nname: a\n", b'synonym: "a" EXACT []\n')
    yield "kb-clauses.obo", whole(b"[Term]\nid: A:1\nname: a\n", b"def: (\n")
    yield "kb-rrf/MRSTY.RRF", [b"C1|T047|B2|Disease|A|256|\n"]
    yield "kb-rrf/MRCONSO.RRF", whole(b"", b"C1|ENG|P|L1|PF|S1|Y|A1|||D1|MSH|MH|D1|a|0|N||\n")
    snomed = "kb-snomed/sct2_{}_INT_20260101.txt"
    columns = b"id\teffectiveTime\tactive\tmoduleId\tdefinitionStatusId\n"
    yield snomed.format("Concept_Snapshot"), [columns, b"1\t20260101\t1\t1\t1\n"]
    columns = columns.replace(
        b"definitionStatusId", b"conceptId\tlanguageCode\ttypeId\tterm\tcaseSignificanceId"
    )
    row = b"2\t20260101\t1\t1\t1\ten\t900000000000003001\ta (disorder)\t1\n"
    yield snomed.format("Description_Snapshot-en"), whole(columns, row)
    yield "mentions.pubtator", whole(b"1|t|x\n", b"1\t0\t1\tx\tD\t-\n")
    yield "line.txt", whole(b"", b"a")
    tokens = {"attrs": [65], "strings": [], "lengths": bytes(4), "spaces": b"", "cats": [{}]}
    tokens |= {"tokens": bytes(310 * MEGABYTE), "flags": [{}], "span_groups": [b""]}
    yield "large.spacy", [zlib.compress(msgpack_dumps(tokens), 1)]
    yield "zeros.spacy", [zlib.compress(bytes(2**30), 1)]
    empty = b"\xdd" + (40 * MEGABYTE).to_bytes(4, "big") + b"\x80" * (40 * MEGABYTE)
    yield "values.spacy", [zlib.compress(b"\x81\xa1x" + empty)]
    yield (
        "tokens.spacy",
        [zlib.compress(msgpack_dumps({"lengths": b"\xff\xff\xff\x7f", "tokens": b""}))],
    )


def tables(folder: Path) -> None:
    """Parquet files of long cells."""
    for name, rows in (("few", 1), ("many", 16)):
        columns = (
            "'1' AS concept_id, repeat('a', 200000000) AS canonical_name, canonical_name AS text"
        )
        for kind in ("", "kb-"):
            path = folder / f"{kind}{name}.parquet"
            query = f"SELECT {columns} FROM range({rows})"
            duckdb.sql(f"COPY ({query}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)")


def report(path: Path) -> None:
    """Print the row of a file, or of a folder."""
    command = [sys.executable, "-c", READ, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    said, seconds, memory = (done.stdout.splitlines() or ["crash|-|-"])[-1].rsplit("|", 2)
    n_bytes = sum(each.stat().st_size for each in (path, *path.rglob("*")) if each.is_file())
    print(f"| {path.name} | {n_bytes:,} | {said} | {seconds} | {memory} |", flush=True)


def main() -> None:
    """Print a table."""
    print("| file | bytes | answer | seconds | MB |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        tables(folder)
        for path in sorted(folder.iterdir()):
            report(path)
        for name, blocks in files():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            with gzip.open(path, "wb", 1) if name.endswith(".gz") else path.open("wb") as file:
                file.writelines(blocks)
            if path.parent == folder:
                report(path)
                path.unlink()
            elif len(list(path.parent.iterdir())) == 2:  # the release has both its files
                report(path.parent)


if __name__ == "__main__":
    main()
