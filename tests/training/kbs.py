"""A KB of a few entities for the tests of training, and brute force over its rows."""

from collections.abc import Container, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from thinc.api import Model
from torch import Tensor

from spacy_pel.kb import Entity, KnowledgeBase, build_kb, write_vectors
from spacy_pel.models.architectures import (
    Retriever,
    encoder_of,
    entity_fingerprint,
    entity_vectors,
    towers_of,
)
from spacy_pel.text.entity_texts import encode_rows, proxy_texts
from spacy_pel.text.mention_inputs import GoldMention
from spacy_pel.training.pool import Encode, NegativePool, Row, entity_index

from ..towers import MENTIONS, TEXTS, mention

ENTITIES = [
    Entity("C0", "Multiple sclerosis", ("MS", "disease of the nerves"), ("Disease",), "myelin"),
    Entity("C1", "Mass spectrometry", ("MS", "MS of ions", "spectrum"), ("Procedure",)),
    Entity("C2", "Mitral stenosis", (), ("Disease",), None, ("OMIM:1",)),
    Entity("C3", "Aspirin", ("fever pain",)),
    Entity("C4", "murmur of the heart"),
    Entity("C5", "patient", ("sample",)),
]
EVERYTHING = np.arange(len(ENTITIES))
GOLD = [GoldMention(context, (number,)) for number, context in enumerate(MENTIONS)]
# Gold clusters; entity 3 has one mention.
PLACES = [
    *((0, name, 0) for name in ("MS", "Multiple sclerosis", "disease", "lesions")),
    *((1, name, 1) for name in ("MS", "Mass spectrometry", "spectrum")),
    *((2, name, 2) for name in ("Mitral stenosis", "valve")),
    (3, "Aspirin", 3),
]
CLUSTERED = [GoldMention(mention(TEXTS[t], name), (n,), TEXTS[t]) for t, name, n in PLACES]


def embedded_kb(
    folder: Path, linker: Retriever, index_unit: str = "name", without: Container[str] = ()
) -> KnowledgeBase:
    """A KB of ENTITIES with the retriever's vectors, but for the ids that go without."""
    with build_kb(ENTITIES, folder) as kb:
        numbers = [n for n in kb.numbers().tolist() if kb.labels([n])[0][0] not in without]
        rows = list(encode_rows(kb, numbers, index_unit, partial(entity_vectors, linker)))
    return write_vectors(
        folder,
        rows,
        dim=linker.get_dim("nO"),
        fingerprint=entity_fingerprint(linker),
        index_unit=index_unit,
        dtype="float32",
    )


def encoded_pool(
    kb: KnowledgeBase,
    linker: Retriever,
    index_unit: str = "name",
    searched: np.ndarray = EVERYTHING,
    mined: np.ndarray | None = None,
    name_dropout: float = 0.0,
    mentions=None,
) -> NegativePool:
    """A pool of rows that the retriever encodes and counts (``encoded``).

    Without ``mined``, the searched rows are mined.
    """
    of_searched = of_mined = entity_index(kb, linker, index_unit, searched)
    if mined is not None:
        of_mined = entity_index(kb, linker, index_unit, mined)
    pool = NegativePool(kb, index_unit, name_dropout, of_mined, of_searched, mentions)
    pool.encoded = 0
    for index in {of_mined, of_searched}:
        index._encode = partial(counted, index._encode, pool)
    return pool


def counted(encode: Encode, pool: NegativePool, numbers: np.ndarray):
    """As ``encode``. The pool knows how many rows were encoded."""
    for vectors, owners in encode(numbers):
        pool.encoded += len(owners)
        yield vectors, owners


def ranking(
    linker: Retriever, index_unit: str, vector: np.ndarray, numbers: Sequence[int] = EVERYTHING
) -> list[tuple[float, Row]]:
    """Brute force: the best row of each of the entities, best entity first."""
    best = []
    for number in map(int, numbers):
        texts = proxy_texts(ENTITIES[number], index_unit)
        scores = [float(entity_vectors(linker, [text])[0] @ vector) for text in texts]
        name = int(np.argmax(scores))
        best.append((scores[name], Row(number, name)))
    return sorted(best, reverse=True)


def gradients(model: Model) -> dict[str, Tensor]:
    """By the name of the weight and the place of its tower; zeros where there is none."""
    return {
        f"{place}.{name}": torch.zeros_like(weight) if weight.grad is None else weight.grad
        for place, tower in enumerate(towers_of(model))
        for name, weight in encoder_of(tower).named_parameters()
    }


def assert_same_gradients(ours: Model, *references: Model) -> None:
    """Those of the first model are the sums of those of the others, and most are not nothing."""
    parts = [gradients(reference) for reference in references]
    expected = {name: sum(part[name] for part in parts) for name in parts[0]}
    for name, gradient in gradients(ours).items():
        # The weights of keys' biases have no gradient but rounding.
        scale = expected[name].abs().max().item()
        torch.testing.assert_close(gradient, expected[name], rtol=1e-3, atol=1e-3 * scale + 1e-6)
    assert sum(g.abs().max() > 1e-4 for g in expected.values()) > 15
