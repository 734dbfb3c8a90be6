"""How well and how fast ``pel check`` tells right pairs of name and id from those wrong by one step.

    python benchmarks/check_pairs.py KB [--parents KB] [--retired TABLE] [--pipeline PIPELINE]

PIPELINE made the vectors of the KB, if it has any. Parents are those of the KB, or of another one with the
same ids. TABLE has old ids and those of today, as for "pel kb build --retired". A copy of the KB checks.

Half of the 2,000 pairs are right. Of these, half have a name that is taken out of the KB which checks:
spelling alone does not do it. The others have the name of a parent, a child or a sibling, or a retired id.
The last row is not among the 2,000: there the wrong names too are taken out, so that it does not help to
believe every name that the KB lacks.
"""

import random
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import typer

from spacy_pel import KnowledgeBase
from spacy_pel.curation.check_ids import CORRECT, RETIRED, Source, check, opened
from spacy_pel.curation.kb_encoder import KBEncoder
from spacy_pel.kb import Entity
from spacy_pel.kb.change import change_entities
from spacy_pel.kb.records.names import normalised
from spacy_pel.metrics.linking import markdown_table

OUT = "taken out"
STEPS = ("parent", "child", "sibling")
HARDER = f"wrong name {OUT}"

Pair = tuple[str, str]  # a name and an id
Drawn = dict[str, list[tuple[Pair, str]]]  # pairs of each kind, with the id that the name means


def main(
    kb: Path,
    parents: Path | None = None,
    retired: Path | None = None,
    pipeline: str | None = None,
    seed: int = 0,
) -> None:
    """Print how many of 2,000 pairs are told apart, by kind, and how many a second."""
    linker = opened(pipeline, kb=kb) if pipeline else None
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(shutil.copytree(kb, Path(scratch, "kb")))
        pairs = Pairs(KnowledgeBase.open(kb), parents, retired, seed)
        drawn = pairs.drawn()
        change_entities(folder, "update", pairs.changed(), KBEncoder(linker) if linker else None)
        if linker:
            linker.set_kb(folder)
        report(linker or KnowledgeBase.open(folder), drawn)


def report(source: Source, drawn: Drawn) -> None:
    """Print a row for each kind of pairs."""
    table, told = [], 0
    for kind, pairs in drawn.items():
        if not pairs:
            continue
        verdicts = list(check(source, [pair for pair, _ in pairs]))
        right, kept = kind.startswith("right"), [v.verdict == CORRECT for v in verdicts]
        if kind == "retired":
            right, kept = True, [v.verdict == RETIRED for v in verdicts]
        hits = kept.count(right)
        told += hits if kind != HARDER else 0
        proposed = sum(verdict.proposed == id for verdict, (_, id) in zip(verdicts, pairs))
        of_all = (f"{100 * n / len(pairs):.1f}" for n in (hits, proposed))
        table.append([kind, str(len(pairs)), *of_all])
    print(markdown_table(["pairs", "n", "told apart", "right id proposed"], table))
    asked = [pair for kind in drawn if kind != HARDER for pair, _ in drawn[kind]]
    random.Random(0).shuffle(asked)
    began, worked = time.perf_counter(), time.process_time()
    list(check(source, asked))
    rates = len(asked) / (time.perf_counter() - began), len(asked) / (time.process_time() - worked)
    print(
        f"{told / len(asked):.1%} of {len(asked):,} told apart; {rates[0]:,.0f} pairs a second, ",
        end="",
    )
    print(f"{rates[1]:,.0f} a second of processor time")


class Pairs:
    """Draws pairs of a KB, and takes names out of its entities."""

    def __init__(self, kb: KnowledgeBase, parents: Path | None, retired: Path | None, seed: int):
        self.kb, self.random = kb, random.Random(seed)
        self.entities = {entity.concept_id: entity for entity in kb}
        self.parents: dict[str, list[str]] = {}
        self.children: dict[str, list[str]] = defaultdict(list)
        for entity in KnowledgeBase.open(parents) if parents else kb:
            above = [id for id in entity.parents if id in self.entities]
            if entity.concept_id in self.entities and above:
                self.parents[entity.concept_id] = above
                for id in above:
                    self.children[id].append(entity.concept_id)
        for line in retired.read_text("utf8").splitlines() if retired else ():
            old, new, *_ = line.split("\t")
            if new in self.entities:
                known = self.entities[new]
                self.entities[new] = known._replace(retired_ids=(*known.retired_ids, old))
        self._asked: set[tuple[str, str]] = set()  # names that stay, with their entities
        self._changed: set[str] = set()

    def drawn(self) -> Drawn:
        """1,000 right pairs, 1,000 wrong ones, and 500 that are harder."""
        old = [
            ((name, id), entity.concept_id)
            for entity in self.entities.values()
            for id in entity.retired_ids
            for name in entity.names
        ]
        old = self.random.sample(old, min(250, len(old)))
        n = [(1000 - len(old) + more) // 3 for more in range(3)]
        drawn = {kind: list(self._pairs(kind, size)) for kind, size in zip(STEPS, n)}
        drawn = {"right": list(self._pairs("right", 500)), **drawn, "retired": old}
        self._asked |= {(id, normalised(pair[0])) for pair, id in old}
        return drawn | {
            kind: list(self._pairs(kind, 500)) for kind in (f"right, name {OUT}", HARDER)
        }

    def changed(self) -> list[Entity]:
        """Return the entities whose names or ids differ from those of the KB."""
        return [new for old in self.kb if old != (new := self.entities[old.concept_id])]

    def _pairs(self, kind: str, n: int) -> Iterator[tuple[Pair, str]]:
        ids = sorted(self.parents)
        while n:
            id = self.random.choice(ids)
            meant = id if kind.startswith("right") else self._near(kind, id)
            if meant is None:
                continue
            name = self.random.choice(self.entities[meant].names)
            key = normalised(name)
            if id != meant and key in map(normalised, self.entities[id].names):
                continue
            if not kind.endswith(OUT) or self._takes_out(meant, name):
                self._asked.add((meant, key))
                yield (name, id), meant
                n -= 1

    def _near(self, kind: str, id: str) -> str | None:
        """Return an entity one step away, if there is one."""
        step = self.random.choice(STEPS) if kind == HARDER else kind
        near = self.parents[id] if step == "parent" else self.children[id]
        if step == "sibling":
            near = [other for up in self.parents[id] for other in self.children[up] if other != id]
        return self.random.choice(near) if near else None

    def _takes_out(self, id: str, name: str) -> bool:
        """Whether a name could be taken out: another is left, and nobody else has it or is asked for it."""
        entity, key = self.entities[id], normalised(name)
        kept = [other for other in entity.names if normalised(other) != key]
        alone = len(self.kb.numbers_named(name)) == 1
        if not kept or not alone or id in self._changed or (id, key) in self._asked:
            return False
        self._changed.add(id)
        self.entities[id] = entity._replace(canonical_name=kept[0], aliases=tuple(kept[1:]))
        return True


if __name__ == "__main__":
    typer.run(main)
