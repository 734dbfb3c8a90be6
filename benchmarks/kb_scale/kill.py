"""Writers of a KB killed at random moments, and flipped bits: is the KB whole, is damage found?

    python benchmarks/kb_scale/kill.py SCRATCH [--entities 20000] [--moments 50] [--flips 1000]
    python benchmarks/kb_scale/kill.py SCRATCH --kb KB --within 60 --moments 2

Each of build, embed, update and compact runs over a KB in a process of its own, which is killed
(SIGKILL) after a random time. By its manifest and by ``kb verify``, the KB must then be the old one
or the new one. After that, single bits of a whole KB are flipped, one at a time, in a file drawn at
random, and ``kb verify`` must find each. SCRATCH may be deleted afterwards.

With ``--kb`` the KB is one of random_vectors.py, which is not changed: SCRATCH, on the same disk, gets
hard links to its files. No writer runs to its end, which may take hours: they are killed within so
many seconds. ``update`` then replaces 1,000 entities, and no bits are flipped.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from spacy_pel.kb import Entity, KnowledgeBase, build_kb, write_vectors
from spacy_pel.kb.folder.manifest import MANIFEST
from spacy_pel.kb.verify import verify
from spacy_pel.kb.writing.compaction import compact
from spacy_pel.kb.writing.entity_changes import update_entities


class RandomRows:
    """Encodes an entity as one random unit vector, drawn from its id and name."""

    fingerprint = "random"

    def __init__(self, dim: int = 64, row_kind: str = "entity") -> None:
        self.dim, self.row_kind = dim, row_kind

    def rows(self, entities: Sequence[Entity]) -> tuple[np.ndarray, np.ndarray]:
        """The vectors, float32 [n, dim], and the places of their entities."""
        return np.stack([self._vector(entity) for entity in entities]), np.arange(len(entities))

    def _vector(self, entity: Entity) -> np.ndarray:
        seed = zlib.crc32("\n".join(entity[:2]).encode())
        vector = np.random.default_rng(seed).standard_normal(self.dim, dtype=np.float32)
        return vector / np.linalg.norm(vector)


def entities(n: int, name: str) -> Iterator[Entity]:
    for number in range(n):
        yield Entity(f"C{number:08}", f"{name} {number}", (f"alias {number}",), ("Type",))


def build(folder: Path, n: int) -> None:
    build_kb(entities(n, "rebuilt"), folder)


def embed(folder: Path, n: int) -> None:
    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, len(kb), 1000):
            vectors, places = rows.rows(kb.entities(range(start, min(start + 1000, len(kb)))))
            yield -vectors, places + start

    with KnowledgeBase.open(folder) as kb:
        rows = rows_of(kb)
        settings = {"dim": rows.dim, "fingerprint": "another", "row_kind": "entity"}
        write_vectors(folder, batches(), index="approximate", dtype="int8", **settings)


def update(folder: Path, n: int) -> None:
    with KnowledgeBase.open(folder) as kb:
        rows = rows_of(kb)
    update_entities(folder, entities(n // 4, "updated"), rows)


def rows_of(kb: KnowledgeBase) -> RandomRows:
    return RandomRows(kb.dim, kb.row_kind)


WRITERS: dict[str, Callable[[Path, int], object]] = {
    "build": build,
    "embed": embed,
    "update": update,
    "compact": lambda folder, n: compact(folder),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scratch", type=Path)
    parser.add_argument("--entities", type=int, default=20_000)
    parser.add_argument("--moments", type=int, default=50)
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--kb", type=Path, help="a KB of random_vectors.py")
    parser.add_argument("--within", type=float, help="kill within so many seconds")
    parser.add_argument("--writer", help="for the processes that this one starts")
    arguments = parser.parse_args()
    if arguments.writer:
        print("started", flush=True)
        WRITERS[arguments.writer](arguments.scratch, arguments.entities)
        return
    chance = random.Random(0)
    if arguments.kb:
        folders = linked_kbs(arguments.scratch, arguments.kb)
    else:
        folders = written_kbs(arguments.scratch, arguments.entities)
    print("| writer | seconds | killed | old KB | new KB | neither | faults by verify |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for writer in WRITERS:
        old = folders["changed" if writer == "compact" else "embedded"]
        kill_often(writer, old, arguments, chance)
    if arguments.kb:
        return
    print("\n| file | flips | found |\n|---|---:|---:|")
    flip_often(folders["changed"], arguments.flips, chance)


def written_kbs(scratch: Path, n: int) -> dict[str, Path]:
    """Write two KBs with vectors, of which the second was then updated."""
    folders = {name: scratch / name for name in ("embedded", "changed")}
    shutil.rmtree(scratch, ignore_errors=True)
    encoder = RandomRows()
    for folder in folders.values():
        with build_kb(entities(n, "name"), folder) as kb:
            rows = encoder.rows(list(kb))
        settings = {"dim": encoder.dim, "fingerprint": "random", "row_kind": "entity"}
        write_vectors(folder, [rows], index="approximate", **settings).close()
    update_entities(folders["changed"], entities(n // 8, "changed"), encoder)
    return folders


def linked_kbs(scratch: Path, kb: Path) -> dict[str, Path]:
    """Two copies of a KB, of which the second is then updated; their files are links to its own."""
    shutil.rmtree(scratch, ignore_errors=True)
    folders = {name: scratch / name for name in ("embedded", "changed")}
    for folder in folders.values():
        shutil.copytree(kb, folder, copy_function=os.link)
    update(folders["changed"], 4000)
    return folders


def kill_often(
    writer: str, old: Path, arguments: argparse.Namespace, chance: random.Random
) -> None:
    """Kill a writer at random moments, and print its line of the table."""
    seconds = arguments.within
    states = {(old / MANIFEST).read_bytes(): "old"}
    if seconds is None:
        folder = linked_copy(old)
        seconds = run_and_kill(writer, folder, arguments.entities, None)
        states[(folder / MANIFEST).read_bytes()] = "new"
        assert len(states) == 2 and verify(folder) == []
    counts: Counter[str] = Counter()
    for _ in range(arguments.moments):
        folder = linked_copy(old)
        run_and_kill(writer, folder, arguments.entities, chance.uniform(0, seconds))
        found = (folder / MANIFEST).read_bytes()
        counts[states.get(found, "new" if arguments.within else "neither")] += 1
        counts["faults"] += len(verify(folder))
        if not arguments.kb:
            with KnowledgeBase.open(folder) as kb:
                assert len(kb) == len(list(kb)) == arguments.entities
    print(
        f"| {writer} | {seconds:.2f} | {arguments.moments} | {counts['old']} | {counts['new']} | "
        f"{counts['neither']} | {counts['faults']} |",
        flush=True,
    )


def linked_copy(folder: Path) -> Path:
    """A folder of hard links to the files of another; writers replace files and never change them."""
    copy = folder.with_name("work")
    shutil.rmtree(copy, ignore_errors=True)
    return shutil.copytree(folder, copy, copy_function=os.link)


def run_and_kill(writer: str, folder: Path, n: int, after: float | None) -> float:
    """Run a writer, and kill it after some seconds, or never for None; the seconds that it ran."""
    command = [sys.executable, __file__, str(folder), "--writer", writer, "--entities", str(n)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.readline()  # what follows is the writer's own
        start = time.perf_counter()
        if after is not None:
            time.sleep(after)
            process.send_signal(signal.SIGKILL)
        process.wait()
        seconds = time.perf_counter() - start
    if after is None and process.returncode:
        sys.exit(f"{writer}: failed")
    return seconds


def flip_often(folder: Path, flips: int, chance: random.Random) -> None:
    """Flip bits, and print the table of them by kind of file."""
    tried: Counter[str] = Counter()
    found: Counter[str] = Counter()
    paths = sorted(folder.iterdir())
    for _ in range(flips):
        path = chance.choice(paths)
        kind = path.name.partition("-")[0]
        place, bit = chance.randrange(path.stat().st_size), chance.randrange(8)
        flip(path, place, bit)
        tried[kind] += 1
        found[kind] += bool(verify(folder))
        flip(path, place, bit)
    assert verify(folder) == []
    for kind in sorted(tried):
        print(f"| {kind} | {tried[kind]} | {found[kind]} |")
    print(f"| all | {flips} | {sum(found.values())} |")


def flip(path: Path, place: int, bit: int) -> None:
    with open(path, "r+b") as file:
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 1 << bit]))


if __name__ == "__main__":
    main()
