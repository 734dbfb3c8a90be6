from __future__ import annotations

import numpy as np
import torch

from spacy_pel.architectures import encoder_of, from_settings, settings
from spacy_pel.kb.index import VectorIndex
from spacy_pel.linking import link
from spacy_pel.retriever import Retriever

from .towers import ENTITIES, MENTIONS, bert_vector, retriever


def test_vectors_of_each_side_are_its_towers() -> None:
    linker = retriever(shared=False)
    sides = [
        (linker.mention_vectors(MENTIONS), linker.mention_tower, linker.mention_tokens(MENTIONS)),
        (linker.entity_vectors(ENTITIES), linker.entity_tower, linker.entity_tokens(ENTITIES)),
    ]
    for vectors, tower, tokens in sides:
        encoder = encoder_of(tower).eval()
        with torch.no_grad():
            expected = torch.stack([bert_vector(encoder, t) for t in tokens]).numpy()
        np.testing.assert_allclose(vectors, expected, atol=1e-5)
        assert vectors.shape == (len(tokens), linker.width)


def test_linking_is_brute_force_over_cosines() -> None:
    linker = retriever()
    rows = linker.entity_vectors(ENTITIES)
    owners = np.array([7, 3, 7, 5, 3])  # two entities with two rows each
    found = link(linker, VectorIndex.from_vectors(rows, owners), MENTIONS, 2)
    cosines = linker.mention_vectors(MENTIONS) @ rows.T
    for numbers, scores, cosine in zip(found.numbers, found.scores, cosines, strict=True):
        best = {e: max(cosine[owners == e]) for e in (3, 5, 7)}
        expected = sorted(best, key=lambda e: -best[e])[:2]
        assert numbers.tolist() == expected
        np.testing.assert_allclose(scores, [best[e] for e in expected], atol=1e-5)


def test_no_mention_is_no_candidate() -> None:
    linker = retriever()
    assert linker.mention_vectors([]).shape == (0, 32)
    assert linker.entity_vectors([]).shape == (0, 32)


def test_a_fingerprint_is_of_all_that_decides_the_vectors() -> None:
    linker = retriever(shared=False)
    fingerprint = linker.fingerprint()
    assert fingerprint == linker.fingerprint() == retriever(shared=False).fingerprint()
    assert len(fingerprint) == 32
    loaded = from_settings(settings(linker.model)).from_bytes(linker.model.to_bytes())
    assert Retriever(loaded).fingerprint() == fingerprint

    others = [
        retriever(shared=False, pooling="focus").fingerprint(),
        retriever(shared=False, similarity="dot").fingerprint(),
        retriever(shared=False, entity_length=23).fingerprint(),
        retriever(shared=True).fingerprint(),
    ]
    for tower in (linker.mention_tower, linker.entity_tower):
        bias = encoder_of(tower).transformer.encoder.layer[0].output.dense.bias
        with torch.no_grad():
            bias[3] += 1e-3
        others.append(linker.fingerprint())
    encoder_of(linker.entity_tower).tokenizer.add_tokens(["anything"])
    others.append(linker.fingerprint())
    assert len({fingerprint, *others}) == len(others) + 1
