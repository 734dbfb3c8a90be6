"""The retriever as the rest of the package uses it: mentions and entities in, vectors out."""

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from thinc.api import Model

from ..models.architectures import Architecture, Tower, encoder_of
from ..text.entity_texts import EntityReader, EntityText
from ..text.mention_inputs import MentionInContext
from ..text.token_inputs import text_inputs


class Retriever:
    """An initialised bi-encoder, whatever its architecture."""

    def __init__(self, model: Model):
        self.model = model  # what a function of ``architectures`` made, with weights
        self.mention_tower: Tower = model.get_ref("mention")
        self.entity_tower: Tower = model.get_ref("entity")
        self.architecture: Architecture = model.attrs["architecture"]
        encoder = encoder_of(self.entity_tower)
        mention_reader = self.architecture.make_reader(encoder)
        # Gives what the mention tower reads of mentions; the architecture decides its type.
        self.mention_inputs: Callable[[Sequence[MentionInContext]], Any] = mention_reader.inputs
        length = self.architecture.entity_settings["entity_length"]
        # Gives the token ids of each entity.
        self.entity_tokens = EntityReader(encoder.tokenizer, length, encoder.position_limit).tokens
        self.width: int = encoder.n_outputs  # the length of the vectors
        # Whether a document is read once for all its mentions (``MentionReader``).
        self.reads_documents: bool = mention_reader.reads_documents

    def mention_vectors(self, mentions: Sequence[MentionInContext]) -> np.ndarray:
        """The vectors of mentions, float32 [n, d], in the order given."""
        vectors = self.mention_tower.predict(self.mention_inputs(mentions))
        if not self.architecture.surface or not len(vectors):
            return vectors
        surfaces = dict.fromkeys(mention.surface for mention in mentions)
        names = self.entity_vectors([EntityText(surface) for surface in surfaces])
        places = {surface: place for place, surface in enumerate(surfaces)}
        vectors += names[[places[mention.surface] for mention in mentions]]
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def entity_vectors(self, entities: Sequence[EntityText]) -> np.ndarray:
        """The vectors of entities, float32 [n, d], in the order given."""
        return self.entity_tower.predict(text_inputs(self.entity_tokens(entities)))

    def fingerprint(self) -> str:
        """A digest of all that decides the vectors: weights, configuration, tokenizer, settings."""
        return _digest(self.architecture.settings, self.model.layers)

    def entity_fingerprint(self) -> str:
        """A digest of all that decides the vectors of entities. A KB fits if it has the same one."""
        return _digest(self.architecture.entity_settings, [self.entity_tower])


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
