"""Damaged files of a knowledge base or a saved pipeline in use: right answers, or errors?

    python benchmarks/damage.py kb SCRATCH [--cases 1000] [--unchecked]
    python benchmarks/damage.py pipeline SCRATCH PIPELINE TEXTS [--cases 1000] [--unchecked]
    python benchmarks/damage.py costs SCRATCH [--rows 50000]

One file at a time is damaged: a bit is flipped, a block of 4 KB becomes zeros, or the end is cut off.
Then a process of its own opens the KB or the pipeline, and asks what the undamaged one was asked. The
answer must be the same, or the error a PelError. A KB is then opened with ``verify``, which must
find every damage.

With "--unchecked" no file is compared with its checksum, as if each were larger than the files that
are. "costs" measures opening, a look-up and a search with and without these checks,
in milliseconds of the processor.
SCRATCH may be deleted afterwards.
"""

from __future__ import annotations

import hashlib
import os
import random
import resource
import shutil
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import typer
from wasabi import msg

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, SearchFilter, SemanticType, build_kb, write_vectors
from spacy_pel.kb.folder import file_checks
from spacy_pel.kb.writing import vector_writing
from spacy_pel.kb.writing.entity_changes import add_entities, remove_entities
from spacy_pel.kb.writing.reduction import reduce_vectors

ENTITIES, DIM = 2000, 32
SECONDS = 60  # the most that a case may take
OUTCOMES = ("right", "PelError", "wrong", "other error", "crash", "missed by verify")
# How the vectors of each kind of KB are written.
KINDS = {
    "exact, float32": {"index": "exact"},
    "exact, float16": {"index": "exact", "dtype": "float16"},
    "codes, float16": {"index": "approximate"},
    "codes, int8": {"index": "approximate", "dtype": "int8"},
    "codes, reduced": {"index": "approximate"},
    "lists, float16": {"index": "approximate"},
    "lists, int8": {"index": "approximate", "dtype": "int8"},
}
TYPES = [SemanticType("Disease", "T1", "A1"), SemanticType("Finding", "T2", "A1.1")]

Answer = Callable[[Path], Any]
Totals = dict[str, Counter[str]]
app = typer.Typer(add_completion=False, help=__doc__)


@app.command("kb")
def damage_kbs(scratch: Path, cases: int = 1000, unchecked: bool = False) -> None:
    """Damage a KB of each kind of index, CASES times each."""
    if unchecked:
        file_checks.CHECKED_BYTES = 0
    for kind in KINDS:
        folder = written_kb(scratch / "kb", kind)
        show(kind, outcomes(folder, cases, kb_answer, verified))


@app.command("pipeline")
def damage_pipeline(
    scratch: Path, pipeline: Path, texts: Path, cases: int = 1000, unchecked: bool = False
) -> None:
    """Damage the files of PIPELINE, CASES times, and link the first 20 lines of TEXTS."""
    from spacy_pel.pipeline.pipelines import load_pipeline

    def answer(folder: Path) -> Any:
        nlp = load_pipeline(folder)
        ents = [ent for doc in nlp.pipe(lines) for ent in doc.ents]
        return [(ent.text, ent.label_, ent.kb_id_, ent._.kb_candidates) for ent in ents]

    if unchecked:
        file_checks.CHECKED_BYTES = 0
    lines = texts.read_text(encoding="utf8").splitlines()[:20]
    folder = scratch / "pipeline"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(pipeline, folder)
    show(str(pipeline), outcomes(folder, cases, answer))


@app.command("costs")
def costs_of_checks(scratch: Path, rows: int = 50_000, repeats: int = 9) -> None:
    """Measure opening, looking up and searching KBs, with and without checks."""
    lines = []
    for entities, dim in ((ENTITIES, DIM), (rows, 384)):
        for kind in ("exact, float32", "codes, float16"):
            folder = written_kb(scratch / "costs", kind, entities, dim)
            size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
            for label, limit in (("none", 0), ("default", file_checks.CHECKED_BYTES)):
                taken = np.array([milliseconds(folder, limit) for _ in range(repeats)])
                shown = [f"{median(column):.1f}" for column in taken.T]
                lines.append((f"{entities:,}", dim, kind, f"{size:.1f}", label, *shown))
    steps = ("open", "first look-up", "first search", "a look-up", "a search")
    header = ("entities", "dim", "vectors", "MB", "checks", *steps)
    msg.table(lines, header=header, divider=True)


def written_kb(path: Path, kind: str, entities: int = ENTITIES, dim: int = DIM) -> Path:
    """A KB of two segments with removed entities, or of one if its vectors are reduced."""
    vector_writing.SCANNED_ROWS = 0 if kind.startswith("lists") else 2_000_000
    shutil.rmtree(path, ignore_errors=True)
    people = (
        Entity(f"C{i}", f"Name {i}", (f"Alias {i}",), (TYPES[i % 2].name,), "Text.", (f"A{i}",))
        for i in range(entities)
    )
    build_kb(people, path, types=TYPES, sources=["people"]).close()
    settings = {"dim": dim, "fingerprint": "random", "row_kind": "entity", **KINDS[kind]}
    encoder = RandomRows(dim)
    write_vectors(path, [encoder.rows(range(entities))], **settings).close()
    if kind.endswith("reduced"):
        reduce_vectors(path, dim=dim * 3 // 4, alike=0.9)[0].close()
    else:
        more = [Entity(f"D{i}", f"Other {i}", (), ("Disease",)) for i in range(entities // 20)]
        add_entities(path, more, encoder)
        remove_entities(path, ["C7", "C11"])
    return path


class RandomRows:
    """One unit vector for each entity, drawn at random."""

    fingerprint, row_kind = "random", "entity"

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def rows(self, entities: Sequence) -> tuple[np.ndarray, np.ndarray]:
        """Vectors, float32 [n, dim], and the places of their entities."""
        vectors = queries(len(entities), self.dim)
        return vectors, np.arange(len(entities))


def queries(n: int, dim: int) -> np.ndarray:
    """Unit vectors, float32 [n, dim], always the same."""
    vectors = np.random.default_rng(0).standard_normal((n, dim), dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def kb_answer(folder: Path) -> Any:
    """All records of a KB, look-ups of all kinds, and 40 searches, with their scores."""
    with KnowledgeBase.open(folder) as kb:
        asked = queries(40, kb.dim)
        found = [kb.search(asked, 10), kb.search(asked, 3, SearchFilter(types=("Disease",)))]
        ids = [f"{letter}{i}" for letter in "CAD" for i in range(0, ENTITIES, 40)]
        names = [f"{word} {i}" for word in ("name", "ALIAS", "other") for i in range(0, 400, 20)]
        return (
            [(f.numbers.tolist(), f.scores.tolist()) for f in found],
            kb.labels(found[0].numbers.ravel()),
            [kb.number(id) for id in ids],
            [(kb.named(name), kb.found(name)) for name in names],
            [array.tolist() for array in kb.rows(kb.numbers()[::40])],
            [kb.of_types(type.name).tolist() for type in TYPES],
            kb.semantic_types,
            list(kb),
        )


def verified(folder: Path) -> bool:
    """Whether a KB is opened with ``verify``."""
    try:
        KnowledgeBase.open(folder, verify=True).close()
    except PelError:
        return False
    return True


def outcomes(
    folder: Path, cases: int, answer: Answer, passes: Callable[[Path], bool] | None = None
) -> Totals:
    """Damage the files of a folder, one at a time, and count the outcomes by kind of file.

    Args:
        folder: The folder. Its files are whole again afterwards.
        cases: The number of damages, the same for each file.
        answer: What is asked of the folder.
        passes: A check of the folder that must not pass.
    """
    right = digest(answer(folder))
    chance, totals = random.Random(0), defaultdict(Counter)
    paths = sorted(path for path in folder.rglob("*") if path.stat().st_size > 1 and path.is_file())
    for case in range(cases):
        path = paths[case % len(paths)]
        whole = path.read_bytes()
        path.write_bytes(damaged(whole, chance))
        outcome = outcome_of(lambda: classified(folder, answer, right))
        count = totals[str(path.relative_to(folder).with_name(path.name.partition("-")[0]))]
        count[outcome] += 1
        if passes:
            count["missed by verify"] += outcome_of(lambda: str(passes(folder))) != "False"
        path.write_bytes(whole)
    assert digest(answer(folder)) == right
    return totals


def damaged(content: bytes, chance: random.Random) -> bytes:
    """Other content: mostly with a bit flipped, else with a block of zeros or without its end."""
    while True:
        # A third of the damages is in headers.
        place = chance.randrange(
            min(len(content), 4096) if chance.random() < 1 / 3 else len(content)
        )
        kind = chance.choices(("bit", "zeros", "end"), (8, 1, 1))[0]
        if kind == "end":
            changed = content[:place]
        elif kind == "zeros":
            block = content[place // 4096 * 4096 :][:4096]
            start = place // 4096 * 4096
            changed = content[:start] + bytes(len(block)) + content[start + len(block) :]
        else:
            byte = bytes([content[place] ^ 1 << chance.randrange(8)])
            changed = content[:place] + byte + content[place + 1 :]
        if changed != content:
            return changed


def classified(folder: Path, answer: Answer, right: str) -> str:
    """What comes of asking a damaged folder."""
    try:
        return "right" if digest(answer(folder)) == right else "wrong"
    except PelError:
        return "PelError"
    except Exception as error:
        print(f"{type(error).__name__}: {error}"[:300], flush=True)
        return "other error"


def digest(answer: Any) -> str:
    """A digest of an answer, as processes can pass it on."""
    return hashlib.sha256(repr(answer).encode()).hexdigest()


def outcome_of(work: Callable[[], str]) -> str:
    """What some work returns in a process of its own; "crash" if that ends before it returns."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(SECONDS)
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + (4 << 30),) * 2)
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            os.write(writer, work().encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        outcome = pipe.read().decode()
    os.waitpid(child, 0)
    return outcome or "crash"


def milliseconds(folder: Path, checked_bytes: int) -> list[float]:
    """What it takes to open a KB, and for a look-up and a search, first and later."""
    file_checks.CHECKED_BYTES = checked_bytes
    moments = [time.process_time()]
    with KnowledgeBase.open(folder) as kb:
        asked = queries(1, kb.dim)
        steps = (lambda: kb.entities([5]), lambda: kb.search(asked, 64))
        moments.append(time.process_time())
        for step in steps * 2:
            step()
            moments.append(time.process_time())
    return (np.diff(moments) * 1000).tolist()


def show(title: str, totals: Totals) -> None:
    """Print a table of outcomes by kind of file."""
    rows = [(file, *(counts[name] for name in OUTCOMES)) for file, counts in sorted(totals.items())]
    rows.append(
        ("all", *(sum(row[column] for row in rows) for column in range(1, len(OUTCOMES) + 1)))
    )
    print(f"\n{title}")
    msg.table(rows, header=("file", *OUTCOMES), divider=True)


if __name__ == "__main__":
    app()
