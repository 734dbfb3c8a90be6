"""Ground names in a KB, and check whether ids mean the names that were written with them.

Names are compared with the names of entities: exactly, or else by the vectors of a linker, or by character
trigrams if there is only a KB.
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
CORRECT, UNKNOWN, RETIRED, OTHER = "correct", "unknown id", "retired", "other name"
_BATCH_SIZE = 1000  # pairs
_N_NEAREST = 16  # entities that a name is compared with
_NO_ENTITY = -1  # stands for the number of an entity
# The odds that a name means an entity are the inverse square of its distance from the name, times a factor
# if the entity's id was given. The factors were fitted on names that were removed from HPO and DOID
# (benchmarks/check_pairs.py).
_MIN_DISTANCE, _VECTOR_FACTOR, _TRIGRAM_FACTOR = 0.02, 3.0, 2.0
_MIN_SIMILARITY = 0.5  # from which a name may mean an entity
_MAX_PROBABILITY = 0.99


@dataclass(frozen=True)
class Meaning:
    """An entity that a name may mean.

    Attributes:
        id: Its concept id.
        name: Its preferred name.
        probability: The probability that the name means it and not its best rival.
    """

    id: str
    name: str
    probability: float


@dataclass(frozen=True)
class Verdict:
    """The result of checking a pair of a name and an id.

    Attributes:
        verdict: CORRECT; UNKNOWN: the KB lacks the id; RETIRED: the id is of an earlier release; OTHER: the
            id means something else.
        means: The preferred name of the entity with this id; "" for an unknown one.
        proposed: The current id of the entity that the name means; "" if no entity is near.
        proposed_name: The preferred name of that entity.
        probability: See ``Meaning``; if no entity is near, the probability of that.
    """

    verdict: str
    means: str
    proposed: str
    proposed_name: str
    probability: float


def opened(folder: str, component: str = "proxy_linker", kb: Path | None = None) -> Source:
    """Open the KB in a folder, or the linker of a pipeline; PelError if there is neither."""
    if (Path(folder) / KB_FILE).is_file():
        return KnowledgeBase.open(folder)
    from ..kb.location import pipeline_at
    from ..pipeline.pipelines import linker_of, load_pipeline  # here: spaCy takes a second

    pipeline = pipeline_at(folder)
    if pipeline is None or not (pipeline / "config.cfg").is_file():
        raise PelError(
            f"{folder}: no knowledge base or trained pipeline",
            'check the path, or make one with "kb build" or "start"',
        )
    linker = linker_of(load_pipeline(folder), component, kb=kb)
    linker.check_kb()
    return linker


def ground(source: Source, names: Sequence[str], n: int = 5) -> list[list[Meaning]]:
    """Return the n most probable entities of each name, the best first; fewer if fewer are near."""
    no_ids = np.full(len(names), _NO_ENTITY)
    ranked = _ranked(source, names, no_ids, n)
    return [[meaning for meaning in meanings.values() if meaning.id][:n] for meanings in ranked]


def check(source: Source, pairs: Iterable[tuple[str, str]]) -> Iterator[Verdict]:
    """Yield the verdict on each pair of a name and an id."""
    kb, pairs = kb_of(source), iter(pairs)
    while batch := [(name.strip(), id.strip()) for name, id in islice(pairs, _BATCH_SIZE)]:
        names, ids = zip(*batch)
        numbers = kb.numbers_of(ids)
        for i in np.flatnonzero(numbers < 0).tolist():  # alternative, retired, or with a prefix
            alternatives = kb.number(ids[i]), kb.number(plain_id(ids[i]))
            numbers[i] = next((number for number in alternatives if number is not None), _NO_ENTITY)
        distinct = np.unique(numbers[numbers >= 0])
        entities = dict(zip(distinct.tolist(), kb.entities(distinct)))
        ranked = _ranked(source, names, numbers, 1)
        for id, number, meanings in zip(ids, numbers.tolist(), ranked):
            best, meaning = next(iter(meanings.items()))
            verdict, means = UNKNOWN, ""
            if entity := entities.get(number):
                verdict, means = CORRECT if best == number else OTHER, entity.canonical_name
                if {id, plain_id(id)} & {*entity.retired_ids}:
                    verdict = RETIRED
            yield Verdict(verdict, means, meaning.id, meaning.name, meaning.probability)


def check_table(source: Source, table: Path, out: IO[str], suffix: str = ".tsv") -> Iterator[str]:
    """Check the columns "name" and "id" of a table (.tsv, .csv; also .gz), and yield each verdict.

    The rows are written with all their columns and those of ``Verdict``, as .tsv, .csv or .jsonl.

    Raises:
        PelError: The table is missing or damaged, or lacks a column.
    """
    rows = text_rows(table)
    _, head = next(rows, ("", {}))
    if not {"name", "id"} <= set(head):
        problem = f"{table}: line 1 names no columns 'name' and 'id', but: {', '.join(head)}"
        raise PelError(problem, "rename the two columns")
    is_table = suffix != ".jsonl"
    to_line = partial(csv_line, "," if suffix == ".csv" else "\t")
    if is_table:
        out.write(to_line({**head, **Verdict.__annotations__}))
    rows_to_write, rows_to_check = tee(row for _, row in rows)
    verdicts = check(source, ((row["name"], row["id"]) for row in rows_to_check))
    for row, verdict in zip(rows_to_write, verdicts):
        full = {**row, **vars(verdict)}
        if is_table:
            out.write(to_line(full.values()))
        else:
            out.write(f"{json.dumps(full, ensure_ascii=False)}\n")
        yield verdict.verdict


def kb_of(source: Source) -> KnowledgeBase:
    """Return the KB itself, or that of a linker."""
    return source if isinstance(source, KnowledgeBase) else source.kb


def _ranked(
    source: Source, names: Sequence[str], given: np.ndarray, n: int
) -> list[dict[int, Meaning]]:
    """Return the meanings of each name by entity number, the best first. One of them is no entity.

    Entities with exactly this name come before all others, which are searched if there are fewer than n.
    ``given`` has the number of the entity whose id was given with each name, or _NO_ENTITY.
    """
    kb = kb_of(source)
    exact = {name: kb.numbers_named(name).tolist() for name in dict.fromkeys(names)}
    odds = [
        {_NO_ENTITY: _odds(_MIN_SIMILARITY)} | dict.fromkeys(exact[name], _odds(1.0))
        for name in names
    ]
    few = [i for i, name in enumerate(names) if len(exact[name]) < n]
    if few:
        nearest = _nearest(source, [names[i] for i in few], given[few])
        for i, numbers, similarities in zip(few, *nearest):
            for number, similarity in zip(numbers.tolist(), similarities.tolist()):
                odds[i].setdefault(number, _odds(similarity))
    factor = _TRIGRAM_FACTOR if kb is source else _VECTOR_FACTOR
    for name_odds, number in zip(odds, given.tolist()):
        if number in name_odds and number != _NO_ENTITY:
            name_odds[number] *= factor
    distinct = sorted({number for name_odds in odds for number in name_odds} - {_NO_ENTITY})
    labels = {_NO_ENTITY: ("", "")} | dict(zip(distinct, kb.labels(distinct)))
    ranked = []
    for name_odds in odds:
        order = sorted(name_odds, key=lambda number: (-name_odds[number], labels[number]))
        best, *others = order
        meanings = {}
        for number in order:
            rival = best if number != best else others[0] if others else None
            rival_odds = 0.0 if rival is None else name_odds[rival]
            probability = name_odds[number] / (name_odds[number] + rival_odds)
            probability = round(min(_MAX_PROBABILITY, probability), 3)
            meanings[number] = Meaning(*labels[number], probability)
        ranked.append(meanings)
    return ranked


def _odds(similarity: float) -> float:
    return float((max(1 - similarity, 0) + _MIN_DISTANCE) ** -2)


def _nearest(
    source: Source, names: Sequence[str], given: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers and similarities, [n, 1 + k], of the given entity and the k nearest ones."""
    kb = kb_of(source)
    if isinstance(source, KnowledgeBase):
        numbers = np.column_stack([given, kb.fuzzy_candidates(names, _N_NEAREST)])
        distinct = np.unique(numbers[numbers >= 0])
        of_entities = {n: e.names for n, e in zip(distinct.tolist(), kb.entities(distinct))}
        surfaces = [american(normalised(name)) for name in names]
        return numbers, trigram_similarity(kb, surfaces, numbers, of_entities)[0]
    with source.runtime.use([source.retriever.entity_tower]):
        vectors = source.retriever.entity_vectors([EntityText(name) for name in names])
    candidates = kb.search(vectors, _N_NEAREST, with_mentions=False)
    known = np.flatnonzero(given >= 0)
    given_scores = np.full(len(names), -np.inf)
    if len(known):
        lines = np.arange(len(known))
        given_scores[known] = kb.vectors.name_scores(vectors[known], lines, given[known])
    return (
        np.column_stack([given, candidates.numbers]),
        np.column_stack([given_scores, candidates.scores]),
    )
