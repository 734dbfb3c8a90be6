"""What decides the answers of a linker."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import spacy
from spacy.language import Language

from spacy_pel.jobs.fingerprints import linker_state


def test_a_reranker_is_the_same_wherever_the_kb_lies(
    tiny_folder: Path, tiny_kb: Path, tmp_path: Path
) -> None:
    encoder = {"@misc": "spacy-pel.TrainedEncoder.v1", "path": str(tiny_folder)}
    reranker = {"@architectures": "spacy-pel.CrossEncoder.v1", "length": 40, "encoder": encoder}
    nlp = spacy.blank("en")
    config = {"path": str(tiny_folder), "reranker": reranker}
    linker = nlp.add_pipe("proxy_linker", config=config)
    linker.reranker_model.initialize(X=[])
    state = linker_state(nlp)
    linker.set_kb(shutil.copytree(tiny_kb, tmp_path / "kb"))
    assert state["reranker"] and linker_state(nlp) == state


def test_the_state_is_what_decides_the_answers(
    tiny_folder: Path, tiny_nlp: Language, tmp_path: Path
) -> None:
    state = linker_state(tiny_nlp)
    assert json.loads(json.dumps(state)) == state
    opened = spacy.blank("en")
    linker = opened.add_pipe("proxy_linker", config={"path": str(tiny_folder), "candidates": 3})
    assert linker_state(opened) == state
    linker.nil_threshold = 0.1
    assert linker_state(opened) != state
    config = {"path": str(tiny_folder), "label_types": {"TERM": ["Disease"]}}
    limited = spacy.blank("en")
    limited.add_pipe("proxy_linker", config=config)
    assert linker_state(limited) != state
