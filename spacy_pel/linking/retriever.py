"""The retriever as the rest of the package uses it: mentions and entities in, vectors out."""

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..models.architectures import AnyModel, Architecture, Tower, encoder_of
from ..text.entity_texts import EntityReader, EntityText
from ..text.mention_inputs import MentionInContext
from ..text.token_inputs import text_inputs

_MAX_REMEMBERED = 10_000  # vectors of mentions by their words


class Retriever:
    """A bi-encoder with weights, of any architecture.

    Attributes:
        model: The thinc model, from a function of ``models.architectures``.
        mention_inputs: Returns the inputs of the mention tower; the architecture decides their type.
        entity_tokens: Returns the token ids of each entity.
        width: The length of the vectors.
        reads_documents: Whether a document is read once for all its mentions (``MentionReader``).
    """

    def __init__(self, model: AnyModel):
        self.model = model
        self.mention_tower: Tower = model.get_ref("mention")
        self.entity_tower: Tower = model.get_ref("entity")
        self.architecture: Architecture = model.attrs["architecture"]
        encoder = encoder_of(self.entity_tower)
        mention_reader = self.architecture.make_reader(encoder)
        self.mention_inputs: Callable[[Sequence[MentionInContext]], Any] = mention_reader.inputs
        length = self.architecture.entity_settings["entity_length"]
        self.entity_tokens = EntityReader(encoder.tokenizer, length, encoder.position_limit).tokens
        self.width: int = encoder.n_outputs
        self.reads_documents: bool = mention_reader.reads_documents

    def mention_vectors(self, mentions: Sequence[MentionInContext]) -> np.ndarray:
        """Return the vector of each mention, float32 [n, d]."""
        vectors = self.mention_tower.predict(self.mention_inputs(mentions))
        if self.architecture.surface and len(vectors):
            vectors += self._surface_vectors([mention.surface for mention in mentions])
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors

    def entity_vectors(self, entities: Sequence[EntityText]) -> np.ndarray:
        """Return the vector of each entity, float32 [n, d]."""
        return self.entity_tower.predict(text_inputs(self.entity_tokens(entities)))

    def _surface_vectors(self, surfaces: Sequence[str]) -> np.ndarray:
        """Return the vector of each mention by its words alone, float32 [n, d].

        ONNX Runtime computes each text by itself, so its vectors are remembered. Those of torch depend on
        the other texts of a batch to the last bit.
        """
        computed_by = encoder_of(self.entity_tower).computed_by
        known = {} if computed_by is None else computed_by.vectors
        found = {surface: known[surface] for surface in surfaces if surface in known}
        new = [surface for surface in dict.fromkeys(surfaces) if surface not in found]
        found |= zip(new, self.entity_vectors(list(map(EntityText, new))))
        if len(known) + len(new) > _MAX_REMEMBERED:
            known.clear()
        known.update((surface, found[surface]) for surface in new)
        return np.stack([found[surface] for surface in surfaces])

    def fingerprint(self) -> str:
        """Return a digest of all that determines the vectors: weights, settings and tokenizer."""
        return _digest(self.architecture.settings, self.model.layers)

    def entity_fingerprint(self) -> str:
        """Return a digest of all that determines the vectors of entities. A KB that fits has the same."""
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
            digest.update(np.ascontiguousarray(tensor.cpu().numpy()).data)
    return digest.hexdigest()
