"""A linker that is trained against the other mentions of its gold clusters."""

from __future__ import annotations

from pathlib import Path

import pytest
import spacy
from spacy.tokens import Span
from spacy.training import Example

from spacy_pel.errors import PelError
from spacy_pel.kb import build_kb
from spacy_pel.models.losses import PositiveNegativeLoss

from .conftest import CONFIG, PROBLEM, TEST, TRAIN, examples, mentions_of, train, untrained

EDGES = {
    **CONFIG,
    "regularizer": None,
    "loss": {"@losses": "spacy-pel.PositiveNegativeLoss.v1", "scale": 16},
    "coreference": {"@misc": "spacy-pel.Arborescence.v1", "negatives": 3, "refresh": 5},
    "negatives": {"@misc": "spacy-pel.MixedNegatives.v1", "n": 4, "p": 1.0, "refresh": 5},
}


@pytest.fixture
def kb(tmp_path: Path) -> Path:
    return build_kb(PROBLEM, tmp_path / "kb").path


def test_it_learns_which_entity_is_meant(kb: Path) -> None:
    nlp = untrained(kb, EDGES)
    losses = train(nlp, 60)
    linker = nlp.get_pipe("proxy_linker")
    assert linker.trainer.coreference is linker.coreference
    assert isinstance(linker.loss, PositiveNegativeLoss) and linker.coreference.refresh == 5
    assert losses[-1] < 0.5 * losses[0]
    found = [e.kb_id_ for doc in nlp.pipe(mentions_of(nlp)) for e in doc.ents]
    assert found == [id for _, mentions in TEST for id in mentions.values()]


def with_some(example: Example, n: int) -> Example:
    """The example with one of its mentions, as a batch may have it."""
    reference = example.reference.copy()
    span = example.reference.ents[n]
    reference.ents = [Span(reference, span.start, span.end, span.label, kb_id=span.kb_id)]
    return Example(example.predicted, reference)


def test_a_mention_is_known_whatever_other_mentions_its_batch_has(kb: Path) -> None:
    """An acronym is read in full where it is a mention of the batch, and there alone."""
    text = "Multiple sclerosis (MS) was found; in MS of the brain the kidney is well."
    texts = [(text, {"MS": "C01", "kidney": "C07"}), *TRAIN]

    nlp = spacy.blank("en")
    nlp.add_pipe("proxy_linker", config={**EDGES, "kb": str(kb)})
    nlp.initialize(lambda: examples(nlp, texts))
    whole = examples(nlp, texts)[0]
    assert [e.text for e in whole.reference.ents] == ["MS", "kidney"]
    for n in range(2):
        assert nlp.update([with_some(whole, n)], sgd=None)["proxy_linker"] > 0


def test_a_mention_that_initialize_did_not_see_is_an_error(kb: Path) -> None:
    nlp = untrained(kb, EDGES)
    other = examples(nlp, [("Another kidney.", {"kidney": "C07"})])
    with pytest.raises(PelError, match='"kidney" is none of the .* max_epochs = 0 or more'):
        nlp.update(other)


def test_it_does_not_go_on_from_a_saved_pipeline(kb: Path, tmp_path: Path) -> None:
    untrained(kb, EDGES).to_disk(tmp_path / "saved")
    nlp = spacy.load(tmp_path / "saved")
    with pytest.raises(PelError, match="gold clusters .* spacy-pel.TrainedEncoder.v1 in place"):
        nlp.update(examples(nlp))
