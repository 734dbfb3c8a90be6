"""Test a KB under load: kills, concurrent writers and readers, three million rows, filters, damage.

    python benchmarks/kb_gates.py SCRATCH [--only kills]... [--kb KB]

KB is an embedded KB for "search". The others make their own.
"""

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from enum import Enum
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, SearchFilter, build_kb, write_vectors
from spacy_pel.kb.change import change_entities, learn_mentions, remove_entities
from spacy_pel.kb.knowledge_base import verify
from spacy_pel.kb.mentions import MentionPassage, PassageMention

DIM, K = 64, 64


class Encoder:
    """Vectors drawn from names, and from words of mentions."""

    fingerprint, mention_fingerprint, index_unit, dim = "random", "mentions", "name", DIM

    def rows(self, entities):
        names = [name for entity in entities for name in entity.names]
        places = np.repeat(np.arange(len(entities)), [len(entity.names) for entity in entities])
        return drawn(names), places

    def mention_vectors(self, passages):
        return drawn([p.text[m.start : m.stop] for p in passages for m in p.mentions])


def drawn(words) -> np.ndarray:
    seeds = [np.random.default_rng(abs(hash(word))) for word in words]
    vectors = np.array([seed.standard_normal(DIM) for seed in seeds], np.float32).reshape(-1, DIM)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def entities(n: int, prefix: str = "C") -> list[Entity]:
    types = ("Disease", "Chemical", "Finding")
    return [
        Entity(f"{prefix}{i:08d}", f"{prefix} name {i}", (f"alias {i}",), (types[i % 3],))
        for i in range(n)
    ]


def made_kb(folder: Path, n: int, index: str = "auto") -> Path:
    """Make an embedded KB of n entities with two names and two vectors each."""
    build_kb(entities(n), folder).close()
    random_ = np.random.default_rng(0)

    def batches():
        for start in range(0, n, 10_000):
            size = min(10_000, n - start)
            vectors = random_.standard_normal((size, DIM), dtype=np.float32)
            yield (
                vectors / np.linalg.norm(vectors, axis=1, keepdims=True),
                np.arange(start, start + size),
            )

    write_vectors(
        folder, batches(), dim=DIM, fingerprint="random", index_unit="name", index=index
    ).close()
    return folder


def work(kind: str, folder: Path) -> None:
    """Make one change of each kind."""
    some = entities(300)
    if kind == "build":
        build_kb(entities(2000, "B"), folder)
    elif kind == "add":
        change_entities(folder, "add", entities(300, "N"), Encoder())
    elif kind == "update":
        change_entities(
            folder, "update", [e._replace(definition="A text.") for e in some], Encoder()
        )
    elif kind == "remove":
        remove_entities(folder, [entity.concept_id for entity in some])
    elif kind == "merge":
        change_entities(folder, "merge", [e._replace(aliases=("merged",)) for e in some], Encoder())
    elif kind == "learn":
        mention = [PassageMention(0, 4, entity.concept_id) for entity in some]
        passages = [MentionPassage(m.id, "word in a text", (m,)) for m in mention]
        learn_mentions(folder, "gold", passages, Encoder())


KINDS = ("build", "add", "update", "remove", "merge", "learn")


def kills(scratch: Path, n: int) -> None:
    """Kill writers at random moments: the KB is the old or the new one, and verify finds nothing."""
    old = made_kb(scratch / "old", 2000)
    with KnowledgeBase.open(old) as kb:
        before = kb.settings["checksum"]
    chance, counts = random.Random(0), {"old": 0, "new": 0, "bad": 0}
    for number in range(n):
        kind, folder = KINDS[number % len(KINDS)], scratch / "killed"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(old, folder)
        child = os.fork()
        if not child:
            work(kind, folder)
            os._exit(0)
        time.sleep(chance.uniform(0.0, 0.6))
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with KnowledgeBase.open(folder) as kb:
            state = "old" if kb.settings["checksum"] == before else "new"
            whole = len(list(kb)) == len(kb)
        counts[state if whole and not verify(folder) else "bad"] += 1
    print(f"kills: {n} of {', '.join(KINDS)}: {counts}", flush=True)


def writers(scratch: Path) -> None:
    """Run four writers and three readers at the same time."""
    folder = made_kb(scratch / "shared", 2000)
    spawned = get_context("spawn").Process
    write = [spawned(target=keep_adding, args=(folder, f"write{n}")) for n in range(4)]
    read = [spawned(target=keep_searching, args=(folder, scratch / "done")) for _ in range(3)]
    for process in (*write, *read):
        process.start()
    for process in write:
        process.join()
    (scratch / "done").touch()
    for process in read:
        process.join()
    codes = [process.exitcode for process in (*write, *read)]
    with KnowledgeBase.open(folder) as kb:
        found = len(kb)
    print(f"writers: exit codes {codes}; {found:,} entities of {2000 + 4 * 25 * 4:,}; "
          f"verify: {verify(folder) or 'clean'}", flush=True)  # fmt: skip


def keep_adding(folder: Path, name: str) -> None:
    """Add 25 times 4 entities."""
    for n in range(25):
        while True:
            try:
                change_entities(folder, "add", entities(4, f"{name}-{n}-"), Encoder())
                break
            except PelError as error:
                assert "is writing to it" in str(error), error
                time.sleep(0.01)


def keep_searching(folder: Path, done: Path) -> None:
    """Search until the writers have ended."""
    with KnowledgeBase.open(folder) as kb:
        while not done.exists():
            kb.refresh()
            found = kb.search(drawn(["x", "y"]), 10)
            assert (found.numbers >= 0).all() and len(kb.labels(found.numbers.ravel())) == 20
            assert sum(1 for _ in kb) == len(kb)


def opening(folder: Path) -> None:
    """Measure the time and memory of opening a KB and of one look-up, in a new process."""
    script = (
        "import resource, time, sys\n"
        "from spacy_pel.kb.knowledge_base import KnowledgeBase\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        "before, start = peak(), time.perf_counter()\n"
        "kb = KnowledgeBase.open(sys.argv[1])\n"
        "opened = time.perf_counter() - start\n"
        "kb.number('C00000005'); looked = time.perf_counter() - start\n"
        "print(f'{len(kb):,} entities: opened in {1000 * opened:.1f} ms, look-up after '\n"
        "      f'{1000 * looked:.1f} ms, {peak():.0f} MB in all ({peak() - before:.0f} of them)')\n"
    )
    for _ in range(2):
        subprocess.run([sys.executable, "-c", script, str(folder)], check=True)


def searching(folder: Path) -> None:
    """Measure time and recall at 64 against a brute-force product, and a filtered search."""
    with KnowledgeBase.open(folder) as kb:
        numbers = kb.numbers()
        rows, owners = kb.rows(numbers)
        chance = np.random.default_rng(0)
        queries = rows[np.sort(chance.choice(len(rows), 200, replace=False))]
        queries = queries + 0.3 * chance.standard_normal(queries.shape).astype(
            np.float32
        ) / np.sqrt(kb.dim)
        kb.search(queries[:2], K)
        start = time.perf_counter()
        found = kb.search(queries, K)
        batch = (time.perf_counter() - start) / len(queries)
        start = time.perf_counter()
        for query in queries[:50]:
            kb.search(query[None], K)
        single = (time.perf_counter() - start) / 50
        first = hits = 0
        for query, line in zip(queries, found.numbers):
            best = np.full(len(numbers), -np.inf, np.float32)
            np.maximum.at(best, owners, rows @ query)
            order = numbers[np.argsort(-best, kind="stable")[:K]]
            first += order[0] == line[0]
            hits += len(set(order.tolist()) & set(line.tolist()))
        print(f"search: {len(rows):,} rows, {1000 * batch:.2f} ms a query of 200, {1000 * single:.2f} ms "
              f"one by one; recall@1 {first / 2:.1f} %, @64 {hits / 2 / K:.2f} %", flush=True)  # fmt: skip
        types = [type.name for type in kb.semantic_types]
        for type_ in types[:: max(1, len(types) // 4)][:4]:
            only, there = SearchFilter(types=[type_]), len(kb.of_types(type_))
            filtered = (kb.search(queries[:20], K, only).numbers >= 0).sum(axis=1)
            print(f"filtered to {type_!r} ({there:,}): {set(filtered.tolist())} of {min(K, there)}")


def changes(folder: Path) -> None:
    """Make a thousand additions, updates and removals in one KB."""
    new = entities(1000, "X")
    for name, change in {
        "add": lambda: change_entities(folder, "add", new, Encoder()),
        "update": lambda: change_entities(
            folder, "update", [e._replace(definition="A text.") for e in new], Encoder()
        ),
        "remove": lambda: remove_entities(folder, [entity.concept_id for entity in new]),
    }.items():
        start = time.perf_counter()
        counts = change()
        print(f"changes: {name} {tuple(counts)} in {time.perf_counter() - start:.1f} s", flush=True)


class Gate(str, Enum):
    KILLS, WRITERS, OPENING, SEARCH, CHANGES = "kills", "writers", "opening", "search", "changes"


def main(
    scratch: Path,
    only: list[Gate] = list(Gate),
    kb: Annotated[Path | None, typer.Option(help='An embedded KB for "search"')] = None,
    n_kills: int = 300,
    n_entities: int = 3_000_000,
) -> None:
    """Run all tests, or those of --only (repeatable), in the folder SCRATCH."""
    scratch.mkdir(parents=True, exist_ok=True)
    if Gate.KILLS in only:
        kills(scratch, n_kills)
    if Gate.WRITERS in only:
        writers(scratch)
    if Gate.SEARCH in only and kb:
        searching(kb)
    large = scratch / "large"
    if {Gate.OPENING, Gate.CHANGES} & set(only) and not large.exists():
        start = time.perf_counter()
        made_kb(large, n_entities)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"built in {time.perf_counter() - start:.0f} s, {peak:,.0f} MB", flush=True)
    if Gate.OPENING in only:
        opening(large)
    if Gate.CHANGES in only:
        changes(large)


if __name__ == "__main__":
    typer.run(main)
