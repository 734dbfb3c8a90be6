"""A KB with the vectors of a retriever that no pipeline has, for the tests of stored proxies."""

from __future__ import annotations

from collections.abc import Container, Iterable
from pathlib import Path

import numpy as np

from spacy_pel.kb import Entity, KnowledgeBase, build_kb, write_vectors
from spacy_pel.linking.retriever import Retriever
from spacy_pel.reading.proxies import encode_rows, proxy_texts
from spacy_pel.training.negatives import Row


def embedded_kb(
    folder: Path,
    entities: Iterable[Entity],
    linker: Retriever,
    row_kind: str = "name",
    without: Container[str] = (),
) -> KnowledgeBase:
    """A KB of these entities with the retriever's vectors, but for the ids that go without."""
    with build_kb(entities, folder) as kb:
        numbers = [n for n in kb.numbers().tolist() if kb.labels([n])[0][0] not in without]
        rows = list(encode_rows(kb, numbers, row_kind, linker.entity_vectors))
    return write_vectors(
        folder,
        rows,
        dim=linker.width,
        fingerprint=linker.entity_fingerprint(),
        row_kind=row_kind,
        dtype="float32",
    )


def ranking(
    kb: KnowledgeBase, linker: Retriever, row_kind: str, vector: np.ndarray
) -> list[tuple[float, Row]]:
    """Brute force: the best row of each entity of the KB, best entity first."""
    best = []
    for number in kb.numbers().tolist():
        texts = proxy_texts(kb.entities([number])[0], row_kind)
        scores = [float(linker.entity_vectors([text])[0] @ vector) for text in texts]
        name = int(np.argmax(scores))
        best.append((scores[name], Row(number, name)))
    return sorted(best, reverse=True)
