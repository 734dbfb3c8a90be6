"""The name encoder is trained with pairs of names of ontologies."""

import json
from pathlib import Path

import name_encoder
import numpy as np
import pytest
import spacy

from spacy_pel.models.architectures import encoder_of, entity_vectors
from spacy_pel.text.entity_texts import EntityText

# Each name and its synonym share no word.
COLOURS = ["red", "green", "blue", "black", "white", "grey", "pink", "brown"]
PAIRS = [(f"{colour} fox", f"vulpes {colour}us") for colour in COLOURS]


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """An ontology of the pairs; batches are small."""
    monkeypatch.setattr(name_encoder, "GROUPS", 2)
    monkeypatch.setattr(name_encoder, "GROUP", 3)
    monkeypatch.setattr(name_encoder, "SAVED", 4)
    monkeypatch.setattr(name_encoder, "HELD", 2)
    records = [
        {"concept_id": f"F{n}", "canonical_name": name, "aliases": [other]}
        for n, (name, other) in enumerate(PAIRS)
    ]
    path = tmp_path / "foxes.jsonl"
    path.write_text("\n".join(map(json.dumps, records)), "utf8")
    return f"{path}=1"


def weights(folder: Path) -> list[np.ndarray]:
    tower = spacy.load(folder).get_pipe("proxy_linker").model.get_ref("entity")
    return [w.numpy() for w in encoder_of(tower).weights().values()]


def margin(folder: Path) -> float:
    """By how much the synonym of a name is nearer than other names."""
    model = spacy.load(folder).get_pipe("proxy_linker").model
    first, second = (entity_vectors(model, list(map(EntityText, own))) for own in zip(*PAIRS))
    cosines = first @ second.T
    return float(cosines.diagonal().mean() - cosines[~np.eye(len(PAIRS), dtype=bool)].mean())


def test_synonyms_become_nearer_than_similar_names(
    tiny_folder: Path, tmp_path: Path, source: str
) -> None:
    name_encoder.main(str(tiny_folder), tmp_path / "out", [source], steps=40, rate=1e-2, hold=0.1)
    assert margin(tmp_path / "out") > margin(tiny_folder) + 0.1


def test_an_interrupted_run_resumes_with_the_same_result(
    tiny_folder: Path, tmp_path: Path, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"steps": 8, "rate": 1e-3}
    name_encoder.main(str(tiny_folder), tmp_path / "whole", [source], **settings)
    whole, n_batches = name_encoder.batch, 0

    def interrupted(*given):
        nonlocal n_batches
        n_batches += 1
        if n_batches == 7:
            raise KeyboardInterrupt
        return whole(*given)

    monkeypatch.setattr(name_encoder, "batch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        name_encoder.main(str(tiny_folder), tmp_path / "out", [source], **settings)
    name_encoder.main(str(tiny_folder), tmp_path / "out", [source], **settings)
    assert n_batches == 7 + 4  # from the checkpoint of step 4 on
    for wanted, found in zip(weights(tmp_path / "whole"), weights(tmp_path / "out")):
        np.testing.assert_array_equal(wanted, found)


def test_names_that_are_left_out_are_in_no_pair(
    tiny_nlp: spacy.Language, tmp_path: Path, source: str
) -> None:
    retriever = tiny_nlp.get_pipe("proxy_linker").model
    left = name_encoder.read(Path(source[:-2]), {"red fox", "vulpes blueus"}, retriever)
    assert left.names == [list(pair) for pair in PAIRS if pair[0] not in ("red fox", "blue fox")]
    rng = np.random.default_rng(0)
    for _ in range(20):
        mentions, proxies = name_encoder.batch(left, rng)
        for mention, proxy in zip(mentions, proxies):
            assert {mention.title, proxy.title} in [set(names) for names in left.names]
