"""Retrievers as they are saved: settings, weights, and the name of the architecture."""

from __future__ import annotations

from typing import Any, NamedTuple

from spacy import registry
from thinc.api import Model

from ..errors import PelError
from ..models.packed_weights import Packed, unpack
from .encoder_sources import no_source
from .retriever_model import Tok2Vec, architecture_of
from .towers import fill_model, pack_model

_NAME, _GIVEN = "architecture", "given"


class SavedArchitecture(NamedTuple):
    """An architecture as it stands in a file.

    Attributes:
        name: The name under which its function is registered.
        given: The arguments of the function that were not saved.
        settings: Its other arguments.
    """

    name: str
    given: list[str]
    settings: dict[str, Any]


def pack_retriever(retriever: Model) -> bytes:
    """The architecture, the settings and the weights of a retriever, as bytes."""
    return pack_model(retriever, saved_settings(retriever))


def unpack_retriever(packed: Packed, tok2vec: Tok2Vec | None = None) -> Model:
    """The retriever that ``pack_retriever`` packed, with or without weights.

    Args:
        packed: What was packed: its file, or its bytes.
        tok2vec: As for ``retriever_from_settings``.

    Raises:
        PelError: If it is no packed retriever, or its architecture is not registered.
    """
    contents = unpack(packed)
    return fill_model(retriever_from_settings(contents.settings, tok2vec), contents)


def saved_settings(retriever: Model) -> dict[str, Any]:
    """What is saved of a retriever apart from its weights, as plain data."""
    architecture = architecture_of(retriever)
    return {**architecture.settings, _NAME: architecture.name, _GIVEN: architecture.given}


def retriever_from_settings(saved: dict[str, Any], tok2vec: Tok2Vec | None = None) -> Model:
    """A retriever without weights.

    Args:
        saved: What ``saved_settings`` gave.
        tok2vec: Reads its documents, if the architecture listens. It is not saved with the retriever.

    Raises:
        PelError: If the architecture is not registered, or refuses its settings.
    """
    architecture = _architecture_in(saved)
    if not registry.has("architectures", architecture.name):
        raise PelError(
            f'the saved retriever is of the architecture "{architecture.name}", which is not registered',
            "install or import what registers it",
        )
    known = {"encoder": no_source, "tok2vec": tok2vec}
    given = {argument: known[argument] for argument in architecture.given}
    make = registry.get("architectures", architecture.name)
    return make(**given, **architecture.settings)


def _architecture_in(saved: dict[str, Any]) -> SavedArchitecture:
    """The architecture in a file."""
    settings = dict(saved)
    if _NAME not in settings:
        return _nameless_architecture(settings)
    return SavedArchitecture(settings.pop(_NAME), settings.pop(_GIVEN), settings)


def _nameless_architecture(settings: dict[str, Any]) -> SavedArchitecture:
    """The architecture in an older file, which has the settings alone."""
    if "window" in settings:
        return SavedArchitecture("spacy-pel.DocumentEncoder.v1", ["encoder"], settings)
    if "mention_length" in settings:
        return SavedArchitecture("spacy-pel.BiEncoder.v1", ["encoder"], settings)
    return SavedArchitecture("spacy-pel.SharedEncoder.v1", ["tok2vec", "encoder"], settings)
