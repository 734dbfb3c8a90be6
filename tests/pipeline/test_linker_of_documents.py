"""A linker whose model reads documents in windows: trained, saved, loaded, and linking."""

from __future__ import annotations

import pytest
import spacy

from spacy_pel.kb import build_kb

from .conftest import (
    CONFIG,
    PROBLEM,
    TEST,
    TRAIN,
    Trained,
    mentions_of,
    results,
    saved,
    train,
    untrained,
)

DOCUMENTS = {
    "@architectures": "spacy-pel.DocumentEncoder.v1",
    "window": 32,
    "entity_length": 32,
    "encoder": {"@misc": "spacy-pel.ScratchEncoder.v1", **CONFIG["model"]["encoder"]},
}
# Several mentions a document, some documents longer than a window.
TEXTS = [
    (
        " ".join(text for text, _ in TRAIN[i : i + 6]),
        {name: id for _, ids in TRAIN[i : i + 6] for name, id in ids.items()},
    )
    for i in range(8, len(TRAIN), 6)
]


@pytest.fixture(scope="module")
def linked(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("documents")
    kb = build_kb(PROBLEM, folder / "kb").path
    nlp = untrained(kb, {**CONFIG, "model": DOCUMENTS})
    losses = train(nlp, 45)
    assert losses[-1] < 0.2 * losses[0]
    return saved(nlp, kb, folder)


def test_it_learns_which_entity_is_meant(linked: Trained) -> None:
    for texts in (TRAIN, TEST):
        for doc, (_, ids) in zip(linked.nlp.pipe(mentions_of(linked.nlp, texts)), texts):
            assert [e.kb_id_ for e in doc.ents if ids[e.text] != "NIL"] == [
                id for id in ids.values() if id != "NIL"
            ]


def test_loaded_it_links_alike_in_batches_of_any_size(linked: Trained) -> None:
    expected = results(linked.nlp.pipe(mentions_of(linked.nlp, TEXTS), batch_size=64))
    assert sum(map(len, results(mentions_of(linked.nlp, TEXTS)))) > len(TEXTS)
    loaded = spacy.load(linked.path)
    for size in (1, 3, 64):
        found = results(loaded.pipe(mentions_of(loaded, TEXTS), batch_size=size))
        assert found == expected  # to the last bit of each score
