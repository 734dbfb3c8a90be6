"""What every retriever is made of, how it is saved, and what the rest of the package asks one.

A kind of retriever is a function that is registered and calls ``make_retriever``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from spacy import registry
from thinc.api import Model

from ..errors import PelError
from ..models.encoders import BertEncoder, TextEncoder
from ..models.packed_weights import Packed, unpack
from ..reading.entity_texts import EntityReader
from ..reading.mention import MentionReader
from .towers import (
    EncoderSource,
    encoder_of,
    fill_model,
    load_encoder,
    make_tower,
    no_source,
    pack_model,
)

# From the documents of spaCy to the states of the tokens of each, [t, w].
Tok2Vec = Model

_ARCHITECTURE = "architecture"
# In a file: the name of the architecture, and the arguments of its function that were not saved.
_NAME, _GIVEN = "architecture", "given"


@dataclass(frozen=True)
class Architecture:
    """How a retriever was made, and how it reads.

    Attributes:
        name: The name under which its function is registered.
        settings: The arguments of the function that are plain data. They are saved.
        entity_settings: The settings that decide the vectors of entities, named as those of
            ``BiEncoder``: "pooling", "similarity", "entity_length" and, if set, "n_numbers" and
            "tree_numbers".
        make_reader: From the encoder of the entities to what turns mentions into the inputs of the
            mention tower.
        listens: Whether another component reads its documents. Then the function has an argument
            ``tok2vec``.
    """

    name: str
    settings: dict[str, Any]
    entity_settings: dict[str, Any]
    make_reader: Callable[[BertEncoder], MentionReader]
    listens: bool = False

    @property
    def given(self) -> list[str]:
        """The arguments of its function that are not saved, and given again when it is loaded."""
        return ["tok2vec", "encoder"] if self.listens else ["encoder"]


def give_tree_numbers(retriever: Model, numbers: dict[str, str]) -> None:
    """Tell a retriever whose setting is ``tree_numbers = true`` the tree numbers of types, by name.

    They are saved with it. Another retriever stays as it is.

    Raises:
        PelError: There are none.
    """
    architecture = architecture_of(retriever)
    if not architecture.entity_settings.get("tree_numbers"):
        return
    if not numbers:
        raise PelError(
            "the types of the KB have no tree numbers",
            'set "tree_numbers" of the model to false, or build the KB from UMLS',
        )
    known = {"tree_numbers": numbers}
    retriever.attrs[_ARCHITECTURE] = replace(
        architecture,
        settings={**architecture.settings, **known},
        entity_settings={**architecture.entity_settings, **known},
    )


def make_retriever(
    architecture: Architecture,
    source: EncoderSource,
    make_encoder: Callable[[], TextEncoder],
    *,
    shared: bool,
    mention_layers: int | None = None,
) -> Model:
    """A retriever of a mention tower and an entity tower, each around a BERT.

    Args:
        architecture: How it is made and reads.
        source: Where the weights come from.
        make_encoder: Makes the torch module of a tower.
        shared: Whether both sides have one tower.
        mention_layers: The number of layers of the mention tower; None for all of the source's.

    Raises:
        PelError: If shared towers are to differ.
    """
    if shared and mention_layers is not None:
        raise PelError("mention_layers needs two towers, and they are one", 'set "shared" to false')
    towers = [make_tower(make_encoder()) for _ in range(1 if shared else 2)]
    return retriever_of(
        architecture, towers[0], towers[-1], init=load_encoder(source, mention_layers)
    )


def retriever_of(
    architecture: Architecture,
    mention: Model,
    entity: Model,
    init: Callable[..., Model],
    tok2vec: Tok2Vec | None = None,
) -> Model:
    """A retriever of two towers, which may be one.

    Args:
        architecture: How it is made and reads.
        mention: Reads what the architecture's reader gives.
        entity: Reads ``TextInputs``.
        init: Gives the towers their weights, as thinc's ``initialize`` asks it to.
        tok2vec: Reads its documents, if the architecture listens.
    """
    return Model(
        architecture.name,
        _refuse_forward,
        init=init,
        layers=[mention] if mention is entity else [mention, entity],
        refs={"mention": mention, "entity": entity, "tok2vec": tok2vec},
        attrs={_ARCHITECTURE: architecture},
    )


def _refuse_forward(model: Model, X, is_train: bool):
    """A retriever has two sides, each with a forward of its own."""
    raise NotImplementedError('use a tower: model.get_ref("mention") or model.get_ref("entity")')


def architecture_of(retriever: Model) -> Architecture:
    return retriever.attrs[_ARCHITECTURE]


def tok2vec_of(retriever: Model) -> Tok2Vec | None:
    """What reads the documents of a retriever that listens; None of others, or where it is missing."""
    return retriever.maybe_get_ref("tok2vec")


def mention_reader(retriever: Model) -> MentionReader:
    """What turns mentions into the inputs of the mention tower."""
    return architecture_of(retriever).make_reader(encoder_of(retriever.get_ref("entity")))


def entity_reader(retriever: Model) -> EntityReader:
    """What turns the texts of entities into the inputs of the entity tower."""
    encoder = encoder_of(retriever.get_ref("entity"))
    settings = architecture_of(retriever).entity_settings
    length, numbers = settings["entity_length"], settings.get("tree_numbers")
    known = numbers if isinstance(numbers, dict) else None
    return EntityReader(encoder.tokenizer, length, encoder.position_limit, known)


# Saved


def pack_retriever(retriever: Model) -> bytes:
    """The architecture, the settings and the weights of a retriever, as bytes."""
    return pack_model(retriever, saved_settings(retriever))


def unpack_retriever(packed: Packed, tok2vec: Tok2Vec | None = None) -> Model:
    """The retriever that ``pack_retriever`` packed, from a file or bytes.

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
    """A retriever without weights, from what ``saved_settings`` gave, and what it listens to.

    Raises:
        PelError: If the architecture is not registered, or refuses its settings.
    """
    settings = dict(saved)
    if _NAME in settings:
        name, given = settings.pop(_NAME), settings.pop(_GIVEN)
    else:  # an older file, which has the settings alone
        name, given = "spacy-pel.SharedEncoder.v1", ["tok2vec", "encoder"]
        for setting, kind in (("window", "DocumentEncoder"), ("mention_length", "BiEncoder")):
            if setting in settings:
                name, given = f"spacy-pel.{kind}.v1", ["encoder"]
    if not registry.has("architectures", name):
        raise PelError(
            f'the saved retriever is of the architecture "{name}", which is not registered',
            "install or import what registers it",
        )
    known = {"encoder": no_source, "tok2vec": tok2vec}
    make = registry.get("architectures", name)
    return make(**{argument: known[argument] for argument in given}, **settings)
