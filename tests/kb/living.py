"""What the tests of KBs share: records, encoders, a KB, and naive searches of what it should find."""

import json
import math
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spacy_pel.kb import Entity, KnowledgeBase, build_kb, write_vectors
from spacy_pel.kb.change import (
    change_entities,
    forget_mentions,
    learn_mentions,
    remove_entities,
    set_mention_weight,
)
from spacy_pel.kb.mentions import NEAREST, SHARPNESS, MentionPassage, MentionWeight, PassageMention
from spacy_pel.kb.store import KB_FILE, vector_files
from spacy_pel.kb.transaction import CHECKSUMS

ENTITIES = [
    Entity("C3", "Multiple sclerosis", ("MS", "Disseminated"), ("Disease",), "A disease."),
    Entity("C1", "Mitral stenosis", ("MS",), ("Disease", "Finding"), None, ("OMIM:1", "D1")),
    Entity("C2", "Mass spectrometry", (), (), None),
    Entity("C10", "Été 日本 🧬", ("β-catenin",), (), "Naïve."),
]


def names_of(kb: KnowledgeBase) -> set[str]:
    return {KB_FILE, CHECKSUMS, *(file["name"] for file in vector_files(kb.settings))}


def edit_settings(folder: Path, edit: Callable[[dict[str, Any]], object]) -> None:
    """What a KB says of itself, changed as a writer would that makes a mistake."""
    with closing(sqlite3.connect(folder / KB_FILE)) as database, database:
        (text,) = database.execute("SELECT value FROM setting WHERE name = 'kb'").fetchone()
        settings = json.loads(text)
        edit(settings)
        database.execute("UPDATE setting SET value = ? WHERE name = 'kb'", (json.dumps(settings),))
    (folder / CHECKSUMS).unlink(missing_ok=True)


def execute(folder: Path, sql: str) -> None:
    """Changes the database of a KB."""
    with closing(sqlite3.connect(folder / KB_FILE)) as database, database:
        database.execute(sql)
    (folder / CHECKSUMS).unlink(missing_ok=True)


WEIGHT = MentionWeight(0.5, 0.25)
# For each source its mentions: words and the id that they mean.
Learnt = Mapping[str, Sequence[tuple[str, str]]]


class NameRows:
    """One row a name: a unit vector drawn from the name alone, so that equal names tie."""

    dim = 8

    def __init__(self, fingerprint: str = "names", index_unit: str = "name") -> None:
        self.fingerprint, self.index_unit = fingerprint, index_unit
        self.encoded: list[str] = []  # the ids of all entities it was given

    def rows(self, entities: Sequence[Entity]) -> tuple[np.ndarray, np.ndarray]:
        self.encoded += [entity.concept_id for entity in entities]
        vectors = [name_vector(name) for entity in entities for name in entity.names]
        places = np.repeat(np.arange(len(entities)), [len(e.names) for e in entities])
        return np.array(vectors, dtype=np.float32).reshape(-1, self.dim), places


def name_vector(name: str) -> np.ndarray:
    vector = np.random.default_rng(zlib.crc32(name.encode())).normal(size=NameRows.dim)
    return (vector / np.linalg.norm(vector)).astype(np.float32)


def rows_of(folder: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    with KnowledgeBase.open(folder) as kb:
        vectors, places = NameRows().rows(list(kb.by_id()))
        yield vectors, kb.numbers_by_id()[places]


def embed(folder: Path, batches: Iterable | None = None, **settings) -> KnowledgeBase:
    """Gives a KB its vectors."""
    settings = {"dim": 8, "fingerprint": "names", "index_unit": "name", **settings}
    return write_vectors(folder, batches or rows_of(folder), **settings)


def living_kb(folder: Path, entities: Iterable[Entity], **settings) -> Path:
    """A KB of these entities with vectors."""
    build_kb(entities, folder).close()
    embed(folder, **settings).close()
    return folder


def assert_holds(folder: Path, entities: Iterable[Entity]) -> None:
    """That the KB of a folder is one of just these entities, however it came to be."""
    expected = {entity.concept_id: entity for entity in entities}
    with KnowledgeBase.open(folder) as kb:
        assert {entity.concept_id: entity for entity in kb} == expected
        assert len(kb) == len(expected) == len(kb.numbers())
        for id, entity in expected.items():
            assert kb[id] == entity
            assert all(kb[alt_id] == entity for alt_id in entity.alt_ids)
        counts = kb.settings["counts"]
        assert counts["aliases"] == sum(len(entity.aliases) for entity in expected.values())
        assert counts["alt_ids"] == sum(len(entity.alt_ids) for entity in expected.values())
        assert counts["definitions"] == sum(e.definition is not None for e in expected.values())
        if not kb.has_vectors:
            return
        assert kb.settings["vectors"]["rows"] == sum(len(e.names) for e in expected.values())
        some = [*kb.numbers()[::-1].tolist(), int(kb.numbers()[0])]
        rows, places = kb.rows(some)
        wanted = [(i, n) for i, entity in enumerate(kb.entities(some)) for n in entity.names]
        assert places.tolist() == [place for place, _ in wanted]
        np.testing.assert_allclose(rows, [name_vector(name) for _, name in wanted], atol=1e-6)
        names = sorted(name for entity in expected.values() for name in entity.names)
        queries = np.array([name_vector(name) for name in (*names[:3], "another")])
        k = min(4, len(expected))
        found = kb.search(queries, k, with_mentions=False)
        for query, numbers, scores in zip(queries, found.numbers, found.scores):
            scored_all = scored(expected.values(), {}, query, WEIGHT)
            wanted = sorted(scored_all.items(), key=lambda pair: (-pair[1], pair[0]))[:k]
            assert [id for id, _ in kb.labels(numbers)] == [id for id, _ in wanted]
            np.testing.assert_allclose(scores, [score for _, score in wanted], atol=1e-5)


class MentionRows(NameRows):
    """The vector of a mention is drawn from its words alone."""

    mention_fingerprint = "mentions"

    def mention_vectors(self, passages: Sequence[MentionPassage]) -> np.ndarray:
        words = [p.text[m.start : m.stop] for p in passages for m in p.mentions]
        return np.array([name_vector(word) for word in words], np.float32).reshape(-1, self.dim)


def passages(mentions: Iterable[tuple[str, str]]) -> list[MentionPassage]:
    """A passage for each two mentions."""
    pairs = list(mentions)
    made = []
    for n in range(0, len(pairs), 2):
        text, placed = "", []
        for words, id in pairs[n : n + 2]:
            placed.append(PassageMention(len(text) + 4, len(text) + 4 + len(words), id))
            text += f"the {words} of "
        made.append(MentionPassage(f"doc{n}", text, tuple(placed)))
    return made


def learn(folder: Path, source: str, mentions: Iterable[tuple[str, str]]) -> int:
    return learn_mentions(folder, source, passages(mentions), MentionRows())


def scored(
    entities: Iterable[Entity], learnt: Learnt, query: np.ndarray, weight: MentionWeight
) -> dict[str, float]:
    """The score of each entity, one mention at a time."""
    query = query.astype(float)
    names = {e.concept_id: max(query @ name_vector(n) for n in e.names) for e in entities}
    every = [pair for mentions in learnt.values() for pair in mentions if pair[1] in names]
    near = sorted((-(query @ name_vector(words)), id) for words, id in every)[:NEAREST]
    scores = dict(names)
    for id in {id for _, id in near}:
        total = sum(math.exp(-SHARPNESS * s) for s, other in near if other == id)
        scores[id] += weight.weight * max(0.0, math.log(total) / SHARPNESS - weight.level)
    return scores


def assert_finds(folder: Path, entities: Iterable[Entity], learnt: Learnt) -> None:
    """That a KB finds what a KB of these entities and mentions must find, and knows why."""
    entities = list(entities)
    words = sorted({words for mentions in learnt.values() for words, _ in mentions})
    queries = np.array([name_vector(word) for word in [*words[:4], "another"]])
    with KnowledgeBase.open(folder) as kb:
        ids = {entity.concept_id for entity in entities}
        counts = {s: sum(id in ids for _, id in mentions) for s, mentions in learnt.items()}
        assert kb.mentions.counts() == counts
        found = kb.search(queries, len(entities))
        for query, numbers, scores in zip(queries, *found):
            wanted = scored(entities, learnt, query, kb.mentions.weight)
            assert list(scores) == sorted(scores, reverse=True)
            got = dict(zip((id for id, _ in kb.labels(numbers)), scores))
            assert got == pytest.approx(wanted, abs=1e-5)
        if not kb.mentions:
            return
        near = kb.mentions.nearest(queries, NEAREST)
        for query, rows, scores in zip(queries, near.rows, near.scores):
            rows, scores = rows[rows >= 0], scores[rows >= 0]
            for mention, score in zip(kb.mentions.described(rows), scores):
                words = mention.text[mention.start : mention.stop]
                assert words in {words for words, _ in learnt[mention.source]}
                assert abs(query @ name_vector(words) - score) < 1e-5


CHANGES = {
    "add": lambda kb: change_entities(kb, "add", [Entity("E1", "New", ("Newer",))], NameRows()),
    "update": lambda kb: change_entities(kb, "update", [Entity("C1", "Other")], NameRows()),
    "remove": lambda kb: remove_entities(kb, ["C2"]),
    "learn": lambda kb: learn(kb, "b", [("Gout", "C1")]),
    "forget": lambda kb: forget_mentions(kb, "a"),
    "weight": lambda kb: set_mention_weight(kb, MentionWeight(0.3, 0.4)),
    "embed": lambda kb: embed(kb, dtype="float16", mentions=MentionRows()).close(),
}
