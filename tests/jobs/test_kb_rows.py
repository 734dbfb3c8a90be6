"""Rows from an encoder and from a KB, against the texts they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from spacy_pel.jobs.embed import LinkerRows, embed_kb, reused_rows
from spacy_pel.kb import Entity, KnowledgeBase
from spacy_pel.kb.change import add_entities, remove_entities, update_entities
from spacy_pel.reading.entity_texts import proxy_texts

from ..conftest import ENTITIES

# How far a stored value of a vector of length 1 may be from the encoder's.
ROUNDING = {"float32": 1e-5, "float16": 1e-3, "int8": 1e-2}


@pytest.fixture(params=ROUNDING)
def changed_kb(request, linker, bare_kb: KnowledgeBase) -> KnowledgeBase:
    """A changed KB: C02 removed, C03 updated, C00 and C08 added."""
    encoder = LinkerRows(linker)
    embed_kb(bare_kb.path, linker, dtype=request.param)
    add_entities(bare_kb.path, [Entity("C00", "fever", ("pyrexia",))], encoder)
    add_entities(bare_kb.path, [Entity("C08", "cough")], encoder)
    remove_entities(bare_kb.path, ["C02"])
    update_entities(bare_kb.path, [ENTITIES[2]._replace(aliases=("RA", "arthritis"))], encoder)
    return KnowledgeBase.open(bare_kb.path)


def test_rows_of_a_kb(linker, changed_kb: KnowledgeBase) -> None:
    """Those of entities with the same texts, whatever else they have, by concept id."""
    given = [
        Entity("C09", "nausea"),  # not there
        ENTITIES[6]._replace(sources=("another",)),
        ENTITIES[0]._replace(aliases=("MS",)),  # other texts
        ENTITIES[2]._replace(aliases=("RA", "arthritis")),
        Entity("C08", "cough"),
        ENTITIES[1],  # removed
        ENTITIES[2],  # as it was before the update
        Entity("C00", "fever", ("pyrexia",)),
    ]
    vectors, owners = reused_rows(changed_kb, given)
    order = np.argsort(owners, kind="stable")
    assert owners[order].tolist() == [1, 3, 3, 3, 4, 7, 7]
    texts = [text for place in (1, 3, 4, 7) for text in proxy_texts(given[place], "name")]
    expected = linker.retriever.entity_vectors(texts)
    dtype = changed_kb.settings["vectors"]["dtype"]
    np.testing.assert_allclose(vectors[order], expected, atol=ROUNDING[dtype])
    for none in ([], [Entity("C09", "nausea")]):
        vectors, owners = reused_rows(changed_kb, none)
        assert vectors.shape == (0, 32) and owners.shape == (0,)
