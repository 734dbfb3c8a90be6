"""The settings of the linker: flat in a config, and as attributes."""

from __future__ import annotations

import inspect
from dataclasses import fields

import spacy

from spacy_pel.pipeline.factory import DEFAULTS, make_proxy_linker
from spacy_pel.pipeline.settings import Settings

CHANGED = {
    "spans_key": "sc",
    "types": ["T047"],
    "label_types": {"D": ["T047"]},
    "sure_probability": None,
    "agree": True,
    "candidates": 7,
    "threshold": 0.5,
    "regularizer": None,
}


def test_each_setting_stands_in_the_config_and_in_the_signature() -> None:
    assert {field.name for field in fields(Settings)} < set(DEFAULTS)
    assert set(inspect.signature(make_proxy_linker).parameters) == {*DEFAULTS, "nlp", "name"}


def test_a_setting_of_the_config_is_an_attribute_and_is_saved(tmp_path) -> None:
    made = spacy.blank("en")
    made.add_pipe("proxy_linker", config=CHANGED)
    made.to_disk(tmp_path / "pipeline")
    for nlp in (made, spacy.load(tmp_path / "pipeline")):
        linker = nlp.get_pipe("proxy_linker")
        assert {name: getattr(linker, name) for name in CHANGED} == CHANGED
