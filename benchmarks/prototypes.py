"""A KB with millions of learnt mentions: opened, searched, and its size, with and without them.

Times are CPU time. Vectors are synthetic: an entity has a random unit vector, and its names and mentions lie around it.

    python benchmarks/prototypes.py FOLDER --entities 125000 --mentions 16
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from spacy_pel.kb import Entity, KnowledgeBase, build_kb, write_vectors
from spacy_pel.kb.records.mention_store import MentionPassage, PassageMention
from spacy_pel.kb.writing.mention_changes import forget_mentions, learn_mentions

TEXT = "the mention of an entity in a sentence of the length that sentences of abstracts have"


class SyntheticMentions:
    """Draws the vectors of mentions around those of their entities."""

    fingerprint = mention_fingerprint = "synthetic"

    def __init__(self, centres: np.ndarray) -> None:
        self.centres = centres
        self.dim = centres.shape[1]
        self.random = np.random.default_rng(1)

    def mention_vectors(self, passages: Sequence[MentionPassage]) -> np.ndarray:
        numbers = [int(mention.id[1:]) for p in passages for mention in p.mentions]
        return near(self.centres[numbers], self.random)


def near(centres: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Unit vectors around others."""
    moved = centres + random.normal(size=centres.shape, scale=0.06).astype(np.float32)
    return moved / np.linalg.norm(moved, axis=1, keepdims=True)


def passages(entities: int, mentions: int) -> Iterator[MentionPassage]:
    """A passage a mention, as self-supervised mentions have."""
    for n in range(entities * mentions):
        placed = PassageMention(4, 11, f"C{n % entities:07}")
        yield MentionPassage(str(n), TEXT, (placed,))


def seconds(work: Callable[[], object]) -> float:
    """The CPU time of a piece of work: it does not depend on what else the computer does."""
    start = time.process_time()
    work()
    return time.process_time() - start


def megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.iterdir()) / 1e6


def report(folder: Path, queries: np.ndarray, label: str) -> None:
    """A line of the table."""
    opened = seconds(lambda: KnowledgeBase.open(folder).close())
    with KnowledgeBase.open(folder) as kb:
        first = seconds(lambda: kb.search(queries[:1], 64))
        rate = len(queries) / min(seconds(lambda: kb.search(queries, 64)) for _ in range(3))
        rows = kb.manifest["vectors"]["rows"] + sum(kb.mentions.counts().values())
    print(
        f"| {label} | {rows:,} | {megabytes(folder):,.0f} | {opened:.2f} | {first:.2f} | {rate:,.0f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--entities", type=int, default=125_000)
    parser.add_argument("--mentions", type=int, default=16)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--queries", type=int, default=1000)
    given = parser.parse_args()
    random = np.random.default_rng(0)
    centres = near(np.zeros((given.entities, given.dim), dtype=np.float32), random)
    queries = near(centres[random.integers(0, given.entities, given.queries)], random)
    build_kb((Entity(f"C{n:07}", f"name {n}") for n in range(given.entities)), given.folder).close()
    numbers = np.repeat(np.arange(given.entities), 2)
    batches = [(near(centres[numbers], random), numbers)]
    settings = {"dim": given.dim, "fingerprint": "synthetic", "row_kind": "name"}
    write_vectors(given.folder, batches, dtype="int8", **settings).close()
    print("| KB | rows | MB | opened, s | first search, s | searches a second |")
    print("|---|---:|---:|---:|---:|---:|")
    report(given.folder, queries, "names")
    made = passages(given.entities, given.mentions)
    learning = seconds(
        lambda: learn_mentions(given.folder, "text", made, SyntheticMentions(centres))
    )
    report(given.folder, queries, "names and mentions")
    forgetting = seconds(lambda: forget_mentions(given.folder, "text"))
    report(given.folder, queries, "names, mentions forgotten")
    print(f"\nlearnt in {learning:.0f} s, forgotten in {forgetting:.1f} s")


if __name__ == "__main__":
    main()
