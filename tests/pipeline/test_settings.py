"""The settings of the linker: flat in a config, and as attributes; records inside."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest
import spacy

from spacy_pel.pipeline.factory import DEFAULTS, make_proxy_linker
from spacy_pel.pipeline.settings import RECORDS

FIELDS = [(holder, field.name) for holder, record in RECORDS.items() for field in fields(record)]
OWN = {
    *("kb", "path", "nil_threshold", "row_kind", "model", "reranker", "runtime", "scorer"),
    *("linker_name", "k"),
}


def test_each_setting_stands_in_the_config_and_in_one_place_besides() -> None:
    names = [name for _, name in FIELDS]
    assert len(names) == len(set(names))
    assert {*names, *OWN} == set(DEFAULTS) and OWN.isdisjoint(names)
    assert set(inspect.signature(make_proxy_linker).parameters) == {*DEFAULTS, "nlp", "name"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("spans_key", "sc"), ("resolve_abbreviations", False), ("types", ["T047"])],
        *[("sources", ["MSH"]), ("label_types", {"D": ["T047"]}), ("sole_owners_first", False)],
        *[
            ("sure_probability", None),
            ("agree", True),
            ("candidates", 7),
            ("rerank", 3),
            ("threshold", 0.5),
        ],
        *[("no_definition_threshold", 0.3), ("filter_for_definitions", True)],
        *[("max_entities_per_mention", 2), ("overwrite", False), ("xrefs", ["MSH"])],
        *[("vectors", True), ("name_dropout", 0.4), ("freeze_entities", True)],
        *[("gradient_caching", True), ("regularizer", None)],
    ],
)
def test_a_setting_of_the_config_is_an_attribute_of_its_record(name: str, value: object) -> None:
    linker = spacy.blank("en").add_pipe("proxy_linker", config={name: value})
    (holder,) = [holder for holder, field in FIELDS if field == name]
    assert getattr(linker, name) == getattr(getattr(linker, holder), name) == value
    assert value != DEFAULTS[name]
    setattr(linker, name, "another")
    assert getattr(getattr(linker, holder), name) == "another"
