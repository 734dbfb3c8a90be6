"""The settings of the linker: flat in a config, and as attributes; records inside."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError, fields

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


@pytest.mark.parametrize(("holder", "name"), FIELDS)
def test_a_setting_is_an_attribute_of_the_component(holder: str, name: str) -> None:
    linker = spacy.blank("en").add_pipe("proxy_linker")
    record = getattr(linker, holder)
    assert getattr(linker, name) is getattr(record, name)
    others = {field.name: getattr(record, field.name) for field in fields(record)}
    setattr(linker, name, "another value")
    assert getattr(linker, name) == "another value"
    now = {field.name: getattr(getattr(linker, holder), field.name) for field in fields(record)}
    assert now == {**others, name: "another value"}
    assert getattr(record, name) != "another value"


def test_a_record_itself_stays_as_it_is() -> None:
    linker = spacy.blank("en").add_pipe("proxy_linker", config={"candidates": 7})
    assert linker.search_settings.candidates == 7
    with pytest.raises(FrozenInstanceError):
        linker.search_settings.candidates = 8
