"""The NIL threshold of an untrained linker, against scores of all names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import spacy

from spacy_pel.fitting.calibrate import nil_threshold_of_names
from spacy_pel.jobs.embed import embed_kb
from spacy_pel.kb import Entity, build_kb
from spacy_pel.reading.entity_texts import EntityText
from spacy_pel.reading.mention import MentionInContext

from ..conftest import CONFIG

SYLLABLES = ["ba", "ko", "mi", "ru", "te", "zu", "lo", "na"]


def linker_to(folder: Path, n: int):
    rng = np.random.default_rng(1)
    names = ["".join(rng.choice(SYLLABLES, size=rng.integers(2, 5))) for _ in range(n)]
    build_kb([Entity(f"E{i}", name) for i, name in enumerate(names)], folder)
    nlp = spacy.blank("xx")
    linker = nlp.add_pipe("proxy_linker", config={**CONFIG, "kb": str(folder)})
    nlp.initialize()
    embed_kb(folder, linker)
    linker.set_kb(folder)
    return linker, names


def test_a_quarter_of_names_would_be_nil_without_their_entities(tmp_path: Path) -> None:
    linker, names = linker_to(tmp_path / "kb", 80)
    of_mentions = linker.retriever.mention_vectors(
        [MentionInContext(name, 0, len(name)) for name in names]
    )
    rows = linker.retriever.entity_vectors([EntityText(name, "", "") for name in names])
    scores = of_mentions @ rows.T
    same = np.array([[one == other for other in names] for one in names])
    others = np.where(same, -np.inf, scores).max(axis=1)
    own = np.where(same, scores, -np.inf).max(axis=1)
    expected = min(np.quantile(others, 0.25), np.quantile(own, 0.01))
    assert nil_threshold_of_names(linker) == pytest.approx(expected, abs=1e-3)
    assert nil_threshold_of_names(linker) == nil_threshold_of_names(linker)


def test_a_few_names_say_nothing(tmp_path: Path) -> None:
    assert nil_threshold_of_names(linker_to(tmp_path / "kb", 20)[0]) is None
