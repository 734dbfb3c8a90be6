"""The bi-encoder as the rest of the package uses it: texts in, vectors out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from thinc.api import Model

from .. import architectures
from ..architectures import Tower, TowerInputs
from ..reading.inputs import EntityText, InputBuilder, MentionInContext, TokenIds


class Retriever:
    """An initialised bi-encoder with its tokenizer, be it one that reads documents in windows."""

    def __init__(self, model: Model):
        self.model = model
        self.builder: InputBuilder = architectures.input_builder(model)

    @property
    def mention_tower(self) -> Tower:
        return self.model.get_ref("mention")

    @property
    def entity_tower(self) -> Tower:
        return self.model.get_ref("entity")

    @property
    def width(self) -> int:
        """Length of the vectors."""
        return architectures.encoder_of(self.entity_tower).width

    @property
    def reads_documents(self) -> bool:
        """Whether a document is read once for all its mentions, which all count in it."""
        return architectures.reads_documents(self.model)

    def mention_tokens(self, mentions: Sequence[MentionInContext]) -> list[TokenIds]:
        """What the mention tower reads: an input a mention, or windows of documents."""
        return self.builder.mentions(mentions)

    def entity_tokens(self, entities: Sequence[EntityText]) -> list[TokenIds]:
        return self.builder.entities(entities)

    def mention_vectors(self, mentions: Sequence[MentionInContext]) -> np.ndarray:
        """float32 [n, d], in the order given."""
        return self.mention_tower.predict(TowerInputs(self.mention_tokens(mentions)))

    def entity_vectors(self, entities: Sequence[EntityText]) -> np.ndarray:
        """float32 [n, d], in the order given."""
        return self.entity_tower.predict(TowerInputs(self.entity_tokens(entities)))

    def fingerprint(self) -> str:
        """A digest of all that decides the vectors: weights, configuration, tokenizer, settings."""
        return _digest(architectures.settings(self.model), self.model.layers)

    def entity_fingerprint(self) -> str:
        """A digest of all that decides the entities' vectors, and with them whose KB fits.

        Retrievers that read mentions in other ways, or with other weights, may have it in common.
        """
        return _digest(architectures.entity_settings(self.model), [self.entity_tower])


def _digest(settings: dict[str, Any], towers: Sequence[Tower]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps(settings, sort_keys=True).encode())
    for tower in towers:
        encoder = architectures.encoder_of(tower)
        for value in encoder.description().values():
            digest.update(str(value).encode())
        for name, tensor in sorted(encoder.weights().items()):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(tensor.cpu().numpy()))
    return digest.hexdigest()
