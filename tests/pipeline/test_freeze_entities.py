"""A linker whose mention tower learns alone, against the KB that its teacher has embedded."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import spacy
from spacy.language import Language

from spacy_pel.errors import PelError
from spacy_pel.models.architectures import entity_fingerprint

from ..conftest import contents
from ..training.problem import same, weights
from .conftest import CONFIG, SCRATCH, TRAIN, Trained, examples, mentions_of, train, untrained

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


def config_of(teacher: Trained, model: dict[str, Any] = SENTENCES, **changes: Any) -> dict:
    encoder = {"@misc": "spacy-pel.TrainedEncoder.v1", "path": str(teacher.path)}
    frozen = {"freeze_entities": True, "regularizer": None, "model": {"encoder": encoder, **model}}
    return {**CONFIG, **frozen, **changes}


def towers(nlp: Language) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The weights of the mention tower and of the entity tower."""
    retriever = nlp.get_pipe("proxy_linker").retriever
    return weights(retriever.get_ref("mention")), weights(retriever.get_ref("entity"))


def n_right(nlp: Language, texts=TRAIN) -> int:
    wanted = [id for _, ids in texts for id in ids.values()]
    found = [ent.kb_id_ for doc in nlp.pipe(mentions_of(nlp, texts)) for ent in doc.ents]
    return sum(a == b for a, b in zip(wanted, found, strict=True))


@pytest.mark.parametrize("model", [SENTENCES, DOCUMENTS], ids=["sentences", "documents"])
def test_the_mention_tower_learns_and_the_kb_stays_as_it_is(
    model: dict[str, Any], trained: Trained, tmp_path: Path
) -> None:
    before, (teacher, _) = contents(trained.kb), towers(trained.nlp)  # it has one tower
    nlp = untrained(trained.kb, config_of(trained, model))
    losses = train(nlp, 20)
    assert losses[-1] < 0.2 * losses[0] or losses[0] < 0.1  # the one begins where its teacher ended
    mentions, entities = towers(nlp)
    assert same(entities, teacher) and not any(
        np.array_equal(teacher[name], weight) for name, weight in mentions.items()
    )
    linker = nlp.get_pipe("proxy_linker")
    assert linker.searched(linker.kb) is linker.kb  # in a training session, too
    assert entity_fingerprint(linker.retriever) == linker.kb.fingerprint
    texts = [*TRAIN[:8], *TRAIN[9:]]  # all whose mentions are in the KB
    assert n_right(nlp, texts) == sum(len(ids) for _, ids in texts)
    nlp.to_disk(tmp_path)
    assert contents(trained.kb) == before

    again = spacy.load(tmp_path)  # training goes on
    again.update(examples(again), sgd=again.resume_training())
    assert same(towers(again)[1], teacher) and not same(towers(again)[0], mentions)
    assert n_right(again) > 0  # the KB fits


@pytest.mark.parametrize(
    ("model", "changes", "remedy"),
    [
        ({"shared": True}, {}, 'set "shared" of its model to false'),
        ({"entity_length": 31}, {}, "another encoder .* with its .* entity_length"),
        ({"encoder": SCRATCH}, {}, "another encoder .* start from the pipeline"),
        ({}, {"regularizer": {"@misc": "spacy-pel.FGSM.v1"}}, 'set its "regularizer" to null'),
        ({}, {"coreference": {"@misc": "spacy-pel.Arborescence.v1"}}, 'or its "coreference"'),
        ({}, {"index_unit": "entity"}, 'index unit "name", .* set its "index_unit" to "name"'),
    ],
)
def test_settings_that_do_not_fit(
    trained: Trained, model: dict[str, Any], changes: dict[str, Any], remedy: str
) -> None:
    with pytest.raises(PelError, match=remedy):
        untrained(trained.kb, config_of(trained, {**SENTENCES, **model}, **changes))
