"""The retriever as a thinc model: two towers, one set of weights or two (PEL, section 5.2)."""

# No "from __future__ import annotations": the registry reads the types of the arguments.

from collections.abc import Callable
from typing import Any

from thinc.api import Model

from ..errors import PelError
from ..models.text_encoder import TextEncoder
from .sources import EncoderSource
from .towers import load_encoder, make_tower


def BiEncoder(
    encoder: EncoderSource,
    shared: bool,
    pooling: str,
    similarity: str,
    mention_length: int,
    entity_length: int,
    mixed_precision: bool,
    mention_layers: int | None = None,
) -> Model:
    """Retriever: a mention tower and an entity tower (PEL, section 5.2).

    encoder: where the weights come from at initialisation.
    shared: one tower for both sides, or two that start from the same weights.
    pooling: "mean" over all tokens, "focus" over those of the mention or title, or "both".
    similarity: "cosine" (vectors of length 1) or "dot".
    mention_length, entity_length: the most tokens of an input.
    mixed_precision: bfloat16 where it is safe, on processors that have it: a large gain there.
    mention_layers: of the source's layers, how many the mention tower has, where it has weights of
        its own; null for all. A small one that learns against a KB that a large one has embedded
        (``freeze_entities``) is the large one's student.
    Raises PelError on an unknown pooling or similarity, lengths that are too short, or layers of
    a shared tower.

    ``initialize(X=texts)`` fetches the weights. Input and output are the towers' (``towers``).
    """
    check_choice("pooling", pooling, "mean", "focus", "both")
    check_choice("similarity", similarity, "cosine", "dot")
    check_length("mention_length", mention_length, 8)
    check_length("entity_length", entity_length, 4)

    def make_encoder() -> TextEncoder:
        return TextEncoder(
            pooling=pooling, normalize=similarity == "cosine", mixed_precision=mixed_precision
        )

    attrs = {
        "shared": shared,
        "pooling": pooling,
        "similarity": similarity,
        "mention_length": mention_length,
        "entity_length": entity_length,
        "mixed_precision": mixed_precision,
        "mention_layers": mention_layers,
    }
    return make_retriever("biencoder", encoder, make_encoder, attrs)


def make_retriever(
    name: str,
    source: EncoderSource,
    make_encoder: Callable[[], TextEncoder],
    attrs: dict[str, Any],
) -> Model:
    """A model of a mention tower and an entity tower, one and the same where they are shared.

    source: of the weights. attrs: the arguments of the architecture, but for the source.
    Raises PelError if shared towers are to differ.
    """
    if attrs["shared"] and attrs["mention_layers"] is not None:
        raise PelError("mention_layers are of a tower for mentions alone", 'set "shared" to false')
    towers = [make_tower(make_encoder()) for _ in range(1 if attrs["shared"] else 2)]
    return Model(
        name,
        refuse_forward,
        init=load_encoder(source),
        layers=towers,
        refs={"mention": towers[0], "entity": towers[-1]},
        attrs=attrs,
    )


def check_choice(setting: str, value: str, *choices: str) -> None:
    """Raises PelError unless the value of the setting is one of the choices."""
    if value not in choices:
        *quoted, last = (f'"{choice}"' for choice in choices)
        raise PelError(f'unknown {setting} "{value}"', f"choose {', '.join(quoted)} or {last}")


def check_length(setting: str, tokens: int, least: int) -> None:
    """Raises PelError if an input of so many tokens has no room for what is to be read."""
    if tokens < least:
        raise PelError(f"{setting} is {tokens} tokens", f"set it to {least} or more")


def refuse_forward(model: Model, X, is_train: bool):
    """A retriever has two sides, each with a forward of its own."""
    raise NotImplementedError('use a tower: model.get_ref("mention") or model.get_ref("entity")')
