"""A linker whose mention tower learns alone, against the KB that its teacher has embedded."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
import torch
from spacy.language import Language

from spacy_pel.errors import PelError
from spacy_pel.models.packed_weights import under
from spacy_pel.reading.entity_texts import EntityText
from spacy_pel.training.checkpoint import load_checkpoint
from spacy_pel.training.loop import CHECKPOINT

from ..training.problem import contents, same, training_run, weights, write_config
from .conftest import (
    CONFIG,
    PROBLEM,
    TEST,
    TRAIN,
    Trained,
    brute_force,
    examples,
    mentions_of,
    results,
    train,
    untrained,
)

SENTENCES = {
    "@architectures": "spacy-pel.BiEncoder.v1",
    "shared": False,
    "pooling": "focus",
    "mention_length": 24,
    "entity_length": 32,
}
DOCUMENTS = {
    "@architectures": "spacy-pel.DocumentEncoder.v1",
    "shared": False,
    "entity_pooling": "focus",
    "window": 32,
    "entity_length": 32,
}
TEXTS = [EntityText(entity.canonical_name) for entity in PROBLEM]


def config_of(teacher: Trained, model: dict[str, Any] = SENTENCES, **changes: Any) -> dict:
    encoder = {"@misc": "spacy-pel.TrainedEncoder.v1", "path": str(teacher.path)}
    return {
        **CONFIG,
        "freeze_entities": True,
        "regularizer": None,
        "model": {**model, "encoder": encoder},
        **changes,
    }


def mention_weights(nlp: Language) -> dict[str, np.ndarray]:
    return weights(nlp.get_pipe("proxy_linker").retriever.mention_tower)


def entity_weights(nlp: Language) -> dict[str, np.ndarray]:
    return weights(nlp.get_pipe("proxy_linker").retriever.entity_tower)


def n_right(nlp: Language, texts=TRAIN) -> int:
    wanted = [id for _, ids in texts for id in ids.values()]
    found = [ent.kb_id_ for doc in nlp.pipe(mentions_of(nlp, texts)) for ent in doc.ents]
    return sum(a == b for a, b in zip(wanted, found, strict=True))


@pytest.fixture(scope="module", params=[SENTENCES, DOCUMENTS], ids=["sentences", "documents"])
def student(request, trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Trained against the KB of its teacher, which stays as it is. Its session goes on."""
    before = contents(trained.kb)
    nlp = untrained(trained.kb, config_of(trained, request.param))
    begun = mention_weights(nlp)
    losses = train(nlp, 20)
    assert losses[-1] < 0.2 * losses[0] or losses[0] < 0.1  # the one begins where its teacher ended
    assert not any(np.array_equal(begun[k], w) for k, w in mention_weights(nlp).items())
    path = tmp_path_factory.mktemp("student") / "pipeline"
    nlp.to_disk(path)
    assert contents(trained.kb) == before
    return Trained(nlp, path, trained.kb)


def test_the_kb_fits_after_training_and_is_searched(student: Trained) -> None:
    linker = student.nlp.get_pipe("proxy_linker")
    assert linker.index is linker.kb  # in a training session, too
    assert linker.retriever.entity_fingerprint() == linker.kb.fingerprint
    texts = [*TRAIN[:8], *TRAIN[9:]]  # all whose mentions are in the KB
    assert n_right(student.nlp, texts) == sum(len(ids) for _, ids in texts)
    for text, ids in TEST:
        (doc,) = student.nlp.pipe(mentions_of(student.nlp, [(text, ids)]))
        scores = brute_force(linker, text, *ids)
        ((_, score, _, candidates),) = results([doc])
        best = sorted(scores.values(), reverse=True)[: len(candidates)]
        assert score == pytest.approx(best[0], abs=1e-3)
        found = [candidate["score"] for candidate in candidates]
        np.testing.assert_allclose(found, best, atol=1e-3)


def test_vectors_of_entities_are_the_teachers(student: Trained, trained: Trained) -> None:
    teacher, linker = (t.nlp.get_pipe("proxy_linker").retriever for t in (trained, student))
    np.testing.assert_array_equal(linker.entity_vectors(TEXTS), teacher.entity_vectors(TEXTS))
    assert linker.entity_fingerprint() == teacher.entity_fingerprint()
    assert same(entity_weights(student.nlp), mention_weights(trained.nlp))  # of its one tower
    assert not same(mention_weights(student.nlp), mention_weights(trained.nlp))


def test_training_goes_on_from_a_saved_pipeline(student: Trained) -> None:
    nlp = spacy.load(student.path)
    entities, mentions = entity_weights(nlp), mention_weights(nlp)
    optimizer = nlp.resume_training()
    for _ in range(3):
        assert nlp.update(examples(nlp), sgd=optimizer)["proxy_linker"] > 0
    assert same(entity_weights(nlp), entities)
    assert not same(mention_weights(nlp), mentions)
    assert n_right(nlp) > 0  # the KB fits


def test_a_run_that_was_broken_off_goes_on_to_the_same_end(
    trained: Trained, tmp_path: Path
) -> None:
    config = config_of(trained, DOCUMENTS)
    changes = {f"components.proxy_linker.{k}": config[k] for k in ("freeze_entities", "model")}
    path = write_config(tmp_path, trained.kb, **changes)
    unbroken, broken = tmp_path / "unbroken", tmp_path / "broken"
    list(training_run(path, unbroken).run())
    list(islice(training_run(path, broken).run(), 6))
    resumed = training_run(path, broken)
    assert resumed.progress.step > 0
    list(resumed.run())
    nlp = spacy.load(broken / "model-last")
    assert same(entity_weights(nlp), mention_weights(trained.nlp))
    expected, checkpoint = (load_checkpoint(run / CHECKPOINT) for run in (unbroken, broken))
    assert checkpoint.tensors.keys() == expected.tensors.keys()
    assert all(torch.equal(t, expected.tensors[name]) for name, t in checkpoint.tensors.items())
    optimized = {
        name.rsplit(".", 1)[0] for name in under("optimizer/proxy_linker/", checkpoint.tensors)
    }
    assert len(optimized) == len(mention_weights(nlp))  # and nothing of the entity tower


# What cannot be


@pytest.mark.parametrize(
    ("model", "changes", "remedy"),
    [
        ({"shared": True}, {}, 'its towers are one; set "shared" of its model to false'),
        ({"entity_length": 31}, {}, "another encoder .* with its .* entity_length"),
        ({}, {"regularizer": {"@misc": "spacy-pel.FGSM.v1"}}, 'set its "regularizer" to null'),
        (
            {},
            {"coreference": {"@misc": "spacy-pel.Arborescence.v1"}},
            'set its "freeze_entities" to false, or its "coreference" to null',
        ),
        ({}, {"row_kind": "entity"}, 'row kind "name", .* set its "row_kind" to "name"'),
    ],
)
def test_settings_that_do_not_fit(
    trained: Trained, model: dict[str, Any], changes: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(PelError, match=remedy):
        untrained(trained.kb, config_of(trained, {**SENTENCES, **model}, **changes))


def test_a_kb_of_another_encoder(trained: Trained) -> None:
    config = config_of(trained)
    scratch = {"@misc": "spacy-pel.ScratchEncoder.v1", **CONFIG["model"]["encoder"]}
    with pytest.raises(PelError, match="another encoder .* start from the pipeline"):
        untrained(trained.kb, {**config, "model": {**SENTENCES, "encoder": scratch}})
