"""What the tests of changing KBs share: an encoder, a KB, and what it should hold and find."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from spacy_pel.kb import Entity, KnowledgeBase, build_kb, write_vectors


class NameRows:
    """One row a name: a unit vector drawn from the name alone, so that equal names tie."""

    fingerprint = "names"
    row_kind = "name"
    dim = 8

    def __init__(self) -> None:
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
    settings = {"dim": 8, "fingerprint": "names", "row_kind": "name", **settings}
    return write_vectors(folder, batches or rows_of(folder), **settings)


def living_kb(folder: Path, entities: Iterable[Entity], **settings) -> Path:
    """A KB of these entities with vectors."""
    build_kb(entities, folder).close()
    embed(folder, **settings).close()
    return folder


def best(entities: Iterable[Entity], query: np.ndarray, k: int) -> list[tuple[str, float]]:
    """The k best entities with their scores, one by one: by score, then by id."""
    scores = {
        entity.concept_id: max(float(query.astype(float) @ name_vector(n)) for n in entity.names)
        for entity in entities
    }
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:k]


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
            wanted = best(expected.values(), query, k)
            assert [id for id, _ in kb.labels(numbers)] == [id for id, _ in wanted]
            np.testing.assert_allclose(scores, [score for _, score in wanted], atol=1e-5)
