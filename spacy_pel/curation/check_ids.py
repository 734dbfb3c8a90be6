"""What names mean in a KB, and whether ids mean the names that somebody gave with them.

Names are compared with the names of entities: exactly, or else by the vectors of a linker, or by trigrams
where there is none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, tee
from pathlib import Path
from typing import IO, TYPE_CHECKING, TypeAlias

import numpy as np

from ..corpora.formats.tables import csv_line
from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..kb.readers.tables import text_rows
from ..kb.records.entity import plain_id
from ..kb.records.names import american, normalised
from ..kb.store import KB_FILE
from ..linking.similarity import trigram_similarity
from ..text.entity_texts import EntityText

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker

Source: TypeAlias = "KnowledgeBase | ProxyLinker"
RIGHT, UNKNOWN, RETIRED, OTHER = "right", "unknown id", "retired", "other name"
_TOGETHER = 1000  # pairs
_NEAR = 16  # entities that a name is compared with
_NONE = -1  # in place of the number of an entity: the name means none of them
# The odds that a name means one entity and not another are the inverse squares of their distances from
# it, times a factor if the entity's id was given: 3 by vectors, 2 by trigrams. These were fitted on names
# that were taken out of HPO and DOID, as by benchmarks/check_pairs.py.
_LEAST_DISTANCE, _GIVEN, _GIVEN_BY_TRIGRAMS = 0.02, 3.0, 2.0
_OF_NONE = 0.5  # the similarity from which a name may mean an entity
_SUREST = 0.99


@dataclass(frozen=True)
class Meaning:
    """An entity that a name may mean, and how sure it is: the probability against its best rival."""

    id: str
    name: str
    sure: float


@dataclass(frozen=True)
class Verdict:
    """What a KB says of a name and an id that were written together.

    Attributes:
        verdict: RIGHT; UNKNOWN: the KB lacks the id; RETIRED: it is of an earlier release; OTHER: it means
            something else.
        means: The preferred name of the entity with this id; "" for an unknown one.
        proposed: The id that the name needs, of today; "" if no entity is near.
        proposed_name: The preferred name of that entity.
        sure: As of ``Meaning``; if no entity is near, that there is none.
    """

    verdict: str
    means: str
    proposed: str
    proposed_name: str
    sure: float


def opened(folder: str, component: str = "proxy_linker", kb: Path | None = None) -> Source:
    """The KB in a folder, or the linker of a pipeline; PelError if there is neither."""
    if (Path(folder) / KB_FILE).is_file():
        return KnowledgeBase.open(folder)
    from ..models.architectures import pipeline_folder  # here: spaCy takes a second
    from ..pipeline.pipelines import linker_of, load_pipeline

    found = pipeline_folder(folder)
    if found is None or not (found / "config.cfg").is_file():
        raise PelError(
            f"{folder}: neither a knowledge base nor a trained pipeline is there",
            'check the path, or make one with "kb build" or "start"',
        )
    linker = linker_of(load_pipeline(folder), component, kb=kb)
    linker.check_kb()
    return linker


def ground(source: Source, names: Sequence[str], n: int = 5) -> list[list[Meaning]]:
    """The n entities that each name most probably means, the best first; fewer if fewer are near."""
    ranked = _ranked(source, names, np.full(len(names), _NONE), n)
    return [[meaning for meaning in own.values() if meaning.id][:n] for own in ranked]


def check(source: Source, pairs: Iterable[tuple[str, str]]) -> Iterator[Verdict]:
    """What a KB says of each pair of a name and an id. They are compared some at a time."""
    kb, pairs = kb_of(source), iter(pairs)
    while block := [(name.strip(), id.strip()) for name, id in islice(pairs, _TOGETHER)]:
        names, ids = zip(*block)
        given = kb.numbers_of(ids)
        for place in np.flatnonzero(given < 0).tolist():  # alternative, retired, or with a prefix
            numbers = kb.number(ids[place]), kb.number(plain_id(ids[place]))
            given[place] = next((number for number in numbers if number is not None), _NONE)
        distinct = np.unique(given[given >= 0])
        entities = dict(zip(distinct.tolist(), kb.entities(distinct)))
        for id, number, own in zip(ids, given.tolist(), _ranked(source, names, given, 1)):
            (best, meant), *_ = own.items()
            verdict, means = UNKNOWN, ""
            if entity := entities.get(number):
                verdict, means = RIGHT if best == number else OTHER, entity.canonical_name
                if {id, plain_id(id)} & {*entity.retired_ids}:
                    verdict = RETIRED
            yield Verdict(verdict, means, meant.id, meant.name, meant.sure)


def check_table(source: Source, table: Path, out: IO[str], suffix: str = ".tsv") -> Iterator[str]:
    """Check the columns "name" and "id" of a table (.tsv, .csv; also .gz), and give each verdict.

    Its rows are written with all their columns and those of ``Verdict``, as .tsv, .csv or .jsonl.
    PelError if the table is missing or damaged, or lacks one of the two columns.
    """
    rows = text_rows(table)
    _, head = next(rows, ("", {}))
    if not {"name", "id"} <= set(head):
        problem = f"{table}: line 1 names no columns 'name' and 'id', but: {', '.join(head)}"
        raise PelError(problem, "name the two columns so")
    if as_table := suffix != ".jsonl":
        line = partial(csv_line, "," if suffix == ".csv" else "\t")
        out.write(line(head | dict.fromkeys(Verdict.__annotations__)))
    read, asked = tee(row for _, row in rows)
    for row, verdict in zip(read, check(source, ((row["name"], row["id"]) for row in asked))):
        full = row | vars(verdict)
        out.write(line(full.values()) if as_table else f"{json.dumps(full, ensure_ascii=False)}\n")
        yield verdict.verdict


def kb_of(source: Source) -> KnowledgeBase:
    """The KB itself, or that of a linker."""
    return source if isinstance(source, KnowledgeBase) else source.kb


def _ranked(
    source: Source, names: Sequence[str], given: np.ndarray, n: int
) -> list[dict[int, Meaning]]:
    """What each name may mean by number, the best first, one of them being no entity.

    Entities with exactly this name go before all others, which are looked at if there are fewer than
    n. ``given`` has the number of the entity whose id was given with each name, or _NONE.
    """
    kb = kb_of(source)
    owners = {name: kb.numbers_named(name).tolist() for name in dict.fromkeys(names)}
    odds = [{_NONE: _odds(_OF_NONE)} | dict.fromkeys(owners[name], _odds(1.0)) for name in names]
    more = [place for place, name in enumerate(names) if len(owners[name]) < n]
    near = _near(source, [names[place] for place in more], given[more]) if more else ()
    for place, numbers, similarities in zip(more, *near):
        for number, similarity in zip(numbers.tolist(), similarities.tolist()):
            odds[place].setdefault(number, _odds(similarity))
    factor = _GIVEN_BY_TRIGRAMS if kb is source else _GIVEN
    for own, number in zip(odds, given.tolist()):
        if number in own and number != _NONE:
            own[number] *= factor
    distinct = sorted({number for own in odds for number in own} - {_NONE})
    labels = {_NONE: ("", "")} | dict(zip(distinct, kb.labels(distinct)))
    ranked = []
    for own in odds:
        order = sorted(own, key=lambda number: (-own[number], labels[number]))
        best, *others = order
        rivals = dict.fromkeys(others, own[best]) | {best: own[others[0]] if others else 0.0}
        sure = {n: round(min(_SUREST, own[n] / (own[n] + rivals[n])), 3) for n in order}
        ranked.append({n: Meaning(*labels[n], sure[n]) for n in order})
    return ranked


def _odds(similarity: float) -> float:
    return (max(1 - similarity, 0) + _LEAST_DISTANCE) ** -2


def _near(source: Source, names: Sequence[str], given: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the given entity and of those near each name, and how similar: [n, 1 + k]."""
    kb = kb_of(source)
    if isinstance(source, KnowledgeBase):
        numbers = np.column_stack([given, kb.fuzzy_candidates(names, _NEAR)])
        distinct = np.unique(numbers[numbers >= 0])
        entities = dict(zip(distinct.tolist(), kb.entities(distinct)))
        return numbers, trigram_similarity(
            [american(normalised(name)) for name in names], numbers, entities
        )[0]
    with source.runtime.use([source.retriever.entity_tower]):
        vectors = source.retriever.entity_vectors([EntityText(name) for name in names])
    found = kb.search(vectors, _NEAR, with_mentions=False)
    known, own = np.flatnonzero(given >= 0), np.full(len(names), -np.inf)
    if len(known):
        lines = np.arange(len(known))
        own[known] = kb.vectors.name_scores(vectors[known], lines, given[known])
    return np.column_stack([given, found.numbers]), np.column_stack([own, found.scores])
