"""Names that ``registry.py`` has and the installed package lacks, or the other way round."""

from __future__ import annotations

import pytest
from catalogue import RegistryError
from spacy.util import registry

from spacy_pel.errors import PelError
from spacy_pel.pipeline.registered_names import names_to_install, unknown_names_explained
from spacy_pel.registry import REGISTERED

LOSSES = REGISTERED["thinc_losses"]


def test_names_that_are_new_moved_or_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert names_to_install() == []
    moved = {"spacy-pel.ProxyLoss.v1": "spacy_pel.models.elsewhere:ProxyLoss"}
    new = {"spacy-pel.New.v1": "spacy_pel.models.losses:ProxyLoss"}
    monkeypatch.setitem(REGISTERED, "thinc_losses", {**moved, **new})
    gone = set(LOSSES) - set(moved)
    assert names_to_install() == sorted({*gone, *moved, *new})


def test_the_error_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PelError, match='here: .* find "spacy-pel.New.v1"; check its spelling'):
        look_up("spacy-pel.New.v1")
    monkeypatch.setitem(REGISTERED, "thinc_losses", {**LOSSES, "spacy-pel.New.v1": "a:b"})
    with pytest.raises(PelError, match='find "spacy-pel.New.v1"; install the package again'):
        look_up("spacy-pel.New.v1")


def test_names_of_others_are_left_to_spacy() -> None:
    with pytest.raises(RegistryError, match="E893"):
        look_up("theirs.v1")


def look_up(name: str) -> None:
    with unknown_names_explained("here"):
        registry.get("losses", name)
