"""The config of a linker on a pipeline's own transformer: its first steps."""

from __future__ import annotations

import json
from pathlib import Path

import spacy

from spacy_pel.kb import build_kb

from ..conftest import ENTITIES
from ..towers import save_bert
from .test_paper_configs import train

CORPUS = """1|t|Aspirin for headache
1|a|
1\t0\t7\tAspirin\tDrug\tC05
1\t12\t20\theadache\tDisease\tC06
"""


def test_first_steps_on_a_transformer(project: Path, tmp_path: Path) -> None:
    kb = build_kb(ENTITIES, tmp_path / "kb").path
    corpus = tmp_path / "corpus.pubtator"
    corpus.write_text(CORPUS)
    (tmp_path / "bert").mkdir()
    paths = {"kb": kb, "transformer": save_bert(tmp_path / "bert"), "train": corpus, "dev": corpus}
    settings = {f"paths.{name}": path for name, path in paths.items()}
    alone = {"components.proxy_linker.freeze_entities": json.dumps(False)}  # there is no teacher
    few = {"components.proxy_linker.negatives.n": 2}
    steps = train("shared", tmp_path / "out", "model", **settings, **alone, **few)
    assert len(steps) == 3 and steps[-1]["counts"]["mention_inputs"] == 6
    nlp = spacy.load(tmp_path / "out" / "model-last")
    assert nlp.pipe_names == ["transformer", "proxy_linker"]
    assert nlp.get_pipe("transformer").listening_components == ["proxy_linker"]
