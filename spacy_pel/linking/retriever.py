"""The retriever as the rest of the package uses it: mentions and entities in, vectors out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from thinc.api import Model

from ..architectures import Tower, architecture_of, encoder_of
from ..reading.entity_texts import EntityReader, EntityText
from ..reading.mention import MentionInContext
from ..reading.text_inputs import TextInputs, TokenIds


class Retriever:
    """An initialised bi-encoder, whatever its architecture."""

    def __init__(self, model: Model):
        self.model = model  # what a function of ``architectures`` made, with weights
        self.mention_tower: Tower = model.get_ref("mention")
        self.entity_tower: Tower = model.get_ref("entity")
        architecture, encoder = architecture_of(model), encoder_of(self.entity_tower)
        self._mention_reader = architecture.make_reader(encoder)
        length = architecture.entity_settings["entity_length"]
        self._entity_reader = EntityReader(encoder.tokenizer, length, encoder.position_limit)
        self.width: int = encoder.n_outputs  # the length of the vectors
        # Whether a document is read once for all its mentions (``MentionReader``).
        self.reads_documents: bool = self._mention_reader.reads_documents
        # Whether the words of a mention are also read as a name (``Architecture.surface``).
        self.reads_names: bool = architecture.surface

    def mention_inputs(self, mentions: Sequence[MentionInContext]) -> Any:
        """What the mention tower reads; the architecture decides its type."""
        return self._mention_reader.inputs(mentions)

    def entity_tokens(self, entities: Sequence[EntityText]) -> list[TokenIds]:
        """The token ids of each entity."""
        return self._entity_reader.tokens(entities)

    def mention_vectors(self, mentions: Sequence[MentionInContext]) -> np.ndarray:
        """The vectors of mentions, float32 [n, d], in the order given."""
        vectors = self.mention_tower.predict(self._mention_reader.inputs(mentions))
        if not self.reads_names or not len(vectors):
            return vectors
        places = {mention.surface: None for mention in mentions}
        names = self.entity_vectors([EntityText(surface) for surface in places])
        places = {surface: place for place, surface in enumerate(places)}
        vectors += names[[places[mention.surface] for mention in mentions]]
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def entity_vectors(self, entities: Sequence[EntityText]) -> np.ndarray:
        """The vectors of entities, float32 [n, d], in the order given."""
        return self.entity_tower.predict(TextInputs(self.entity_tokens(entities)))

    def fingerprint(self) -> str:
        """A digest of all that decides the vectors: weights, configuration, tokenizer, settings."""
        return _digest(architecture_of(self.model).settings, self.model.layers)

    def entity_fingerprint(self) -> str:
        """A digest of all that decides the vectors of entities. A KB fits if it has the same one."""
        return _digest(architecture_of(self.model).entity_settings, [self.entity_tower])


def _digest(settings: dict[str, Any], towers: Sequence[Tower]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    digest.update(json.dumps(settings, sort_keys=True).encode())
    for tower in towers:
        encoder = encoder_of(tower)
        for value in encoder.description().values():
            digest.update(str(value).encode())
        for name, tensor in sorted(encoder.weights().items()):
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(tensor.cpu().numpy()))
    return digest.hexdigest()
