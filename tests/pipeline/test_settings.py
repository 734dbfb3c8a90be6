"""The settings of the linker: flat in a config, and as attributes."""

from __future__ import annotations

import inspect
from dataclasses import fields

import spacy

from spacy_pel.pipeline.factory import DEFAULTS, make_proxy_linker
from spacy_pel.pipeline.settings import Settings

OWN = {
    *("kb", "path", "nil_threshold", "row_kind", "model", "reranker", "runtime", "scorer"),
    *("linker_name", "k"),
}
CHANGED = {
    "spans_key": "sc",
    "resolve_abbreviations": False,
    "types": ["T047"],
    "sources": ["MSH"],
    "label_types": {"D": ["T047"]},
    "sole_owners_first": False,
    "sure_probability": None,
    "agree": True,
    "candidates": 7,
    "rerank": 3,
    "threshold": 0.5,
    "no_definition_threshold": 0.3,
    "filter_for_definitions": True,
    "max_entities_per_mention": 2,
    "overwrite": False,
    "xrefs": ["MSH"],
    "vectors": True,
    "name_dropout": 0.4,
    "freeze_entities": True,
    "gradient_caching": True,
    "regularizer": None,
}


def test_each_setting_stands_in_the_config_and_in_one_place_besides() -> None:
    names = {field.name for field in fields(Settings)}
    assert names | OWN == set(DEFAULTS) and OWN.isdisjoint(names)
    assert set(inspect.signature(make_proxy_linker).parameters) == {*DEFAULTS, "nlp", "name"}


def test_a_setting_of_the_config_is_an_attribute_and_is_saved(tmp_path) -> None:
    made = spacy.blank("en")
    made.add_pipe("proxy_linker", config=CHANGED)
    made.to_disk(tmp_path / "pipeline")
    for nlp in (made, spacy.load(tmp_path / "pipeline")):
        linker = nlp.get_pipe("proxy_linker")
        for name, value in CHANGED.items():
            assert getattr(linker, name) == value
            assert value != DEFAULTS[name]
