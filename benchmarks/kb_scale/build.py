"""``pel kb build --preset st21pv`` compared with a plain Python loop over the same UMLS release.

    python benchmarks/kb_scale/build.py META

Each runs in a process of its own, on a folder that ``generate.py`` wrote or a real one. The loop
reads MRCONSO, MRSTY and MRDEF line by line into dictionaries, filters and joins them, and writes
JSON lines; it makes no look-ups, no parents and no cross-references. Both must give the same ids
and names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import typer

from spacy_pel import KnowledgeBase
from spacy_pel.kb.readers.rrf import DEFINITION_SOURCES, ST21PV_TYPES, ST21PV_VOCABULARIES


class Usage(NamedTuple):
    """The time and the memory of a process."""

    seconds: float
    cpu_seconds: float  # of all its threads; it tells more where others work on the machine
    peak_mb: float


app = typer.Typer(add_completion=False)


@app.command("compare")
def compare(meta: Path) -> None:
    """Measure both on META, check that they agree, and print a table in Markdown."""
    with tempfile.TemporaryDirectory(prefix="kb-scale-") as folder:
        kb, lines = Path(folder) / "kb", Path(folder) / "kb.jsonl"
        build = ["-m", "spacy", "pel", "kb", "build", meta, kb, "--preset", "st21pv"]
        usage = [measured(build), measured([__file__, "loop", meta, lines])]
        with KnowledgeBase.open(kb) as opened:
            entities, names = agreed(opened, lines)
        sizes = [sum(path.stat().st_size for path in kb.iterdir()), lines.stat().st_size]
    print("| | seconds | of CPU | peak memory, MB | entities | names | written, MB |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for what, used, size in zip(("`kb build`", "plain Python loop"), usage, sizes):
        figures = (*used, entities, names, size / 1e6)
        print(f"| {what} | {' | '.join(f'{figure:,.0f}' for figure in figures)} |")


@app.command("loop")
def loop(meta: Path, out: Path) -> None:
    """The plain loop by itself: META to JSON lines in OUT."""
    ranks = {(row[1], row[2]): int(row[0]) for row in _rows(meta, "MRRANK")}
    types: dict[str, set[str]] = defaultdict(set)
    wanted = set()
    for cui, _, number, name, *_ in _rows(meta, "MRSTY"):
        types[cui].add(name)
        if any(f"{number}.".startswith(f"{above}.") for above in ST21PV_TYPES):
            wanted.add(cui)
    vocabularies = set(ST21PV_VOCABULARIES)
    names: dict[str, list[tuple[int, bool, str]]] = defaultdict(list)
    for row in _rows(meta, "MRCONSO"):
        if row[1] == "ENG" and row[16] == "N" and row[11] in vocabularies and row[0] in wanted:
            flagged = (row[2], row[4], row[6]) == ("P", "PF", "Y")
            names[row[0]].append((-ranks.get((row[11], row[12]), 0), not flagged, row[14]))
    definitions: dict[str, tuple[bool, str]] = {}
    for row in _rows(meta, "MRDEF"):
        if row[6] == "N" and row[4] in vocabularies and row[0] in names:
            other = row[4] not in DEFINITION_SOURCES
            if row[0] not in definitions or definitions[row[0]][0] > other:
                definitions[row[0]] = (other, row[5])
    with open(out, "w", encoding="utf-8") as file:
        for cui in sorted(names):
            first, *others = dict.fromkeys(
                name for _, _, name in sorted(names[cui], key=lambda row: row[:2])
            )
            record = {
                "concept_id": cui,
                "canonical_name": first,
                "aliases": others,
                "types": sorted(types[cui]),
                "definition": definitions.get(cui, (False, None))[1],
            }
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def _rows(meta: Path, table: str) -> Iterator[list[str]]:
    with open(meta / f"{table}.RRF", encoding="utf-8", newline="\n") as file:
        for line in file:
            yield line.rstrip("\n").split("|")


def measured(arguments: list) -> Usage:
    """Run Python with these arguments and measure it; SystemExit if it fails."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, *map(str, arguments)], stdout=sys.stderr)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"failed: {' '.join(map(str, arguments))}")
    seconds = time.perf_counter() - start
    return Usage(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def agreed(kb: KnowledgeBase, lines: Path) -> tuple[int, int]:
    """The numbers of entities and names; SystemExit if the KB and the file differ."""
    entities = names = 0
    found = iter(kb)
    with open(lines, encoding="utf-8") as file:
        for line in file:
            record = json.loads(line)
            entity = next(found, None)
            expected = (record["concept_id"], record["canonical_name"], *record["aliases"])
            if entity is None or (entity.concept_id, *entity.names) != expected:
                raise SystemExit(f"the KB has {entity}, the loop {record}")
            entities += 1
            names += len(expected) - 1
    if next(found, None) is not None:
        raise SystemExit("the KB has entities that the loop has not")
    return entities, names


if __name__ == "__main__":
    # ``build.py META`` compares; ``build.py loop META OUT`` is for its own use.
    app(sys.argv[1:] if sys.argv[1:2] == ["loop"] else ["compare", *sys.argv[1:]])
