"""The texts of an entity in the index, as token ids, and their vectors: its proxies.

entity:   [CLS] title [SEP] types [SEP] description [SEP]      (PEL, appendix A)

Several rows of the index may belong to one entity. Search keeps the best of them. The index unit
determines the rows of an entity:

- "title": one row, ``[CLS] canonical name [SEP] types [SEP] definition [SEP]`` (PEL, appendix A).
- "entity": one row, with the aliases before the definition:
  ``[CLS] canonical name [SEP] types [SEP] aliases; definition [SEP]``.
- "name": one row per name, ``[CLS] name [SEP] types [SEP] canonical name [SEP]``. The last name of a
  long list is as easy to find as the first, and two entities that share an acronym have different rows.
- "described-name": the same, with the definition after the canonical name. Encoding takes two or three
  times as long. It suits an encoder from scratch, because the definition has words that also occur in
  the context of mentions.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

from ..kb.knowledge_base import KnowledgeBase
from ..kb.records.entity import Entity
from ..kb.records.plain_text import plain
from .token_inputs import TokenIds, WordPieces

INDEX_UNITS = ("entity", "title", "name", "described-name")
# The index units with one row per entity. With the others, an entity has one row per name.
SINGLE_ROWS = ("entity", "title")

# Entities to read and encode at a time: enough to sort texts by length, few enough for the memory.
CHUNK = 2048


class EntityText(NamedTuple):
    """The text of a proxy. Empty parts at the end are left out of the input."""

    title: str  # a name of the entity
    types: str = ""  # its semantic types, in words
    # The rest of the index unit: other names or the canonical name, and the definition.
    description: str = ""


# From texts to their vectors, float32 [n, d].
EncodeEntities = Callable[[Sequence[EntityText]], np.ndarray]


class EntityReader:
    """Converts the texts of entities to at most ``length`` token ids, including special tokens."""

    def __init__(self, tokenizer: Tokenizer, length: int, position_limit: int):
        self.length = min(length, position_limit)
        self._pieces = WordPieces(tokenizer)

    def tokens(self, entities: Sequence[EntityText]) -> list[TokenIds]:
        """Return the truncated token ids of entities: ``[CLS] title [SEP] types [SEP] description [SEP]``."""
        tokenized = self._pieces.tokenize(plain(part) for entity in entities for part in entity)
        inputs = []
        for _ in entities:
            parts = [next(tokenized) for _ in EntityText._fields]
            while len(parts) > 1 and not parts[-1]:
                parts.pop()
            ids = [self._pieces.cls]
            for part in parts:
                ids += [*part, self._pieces.sep]
            if len(ids) > self.length:
                ids[self.length - 1 :] = [self._pieces.sep]
            end = min(1 + len(parts[0]), self.length - 1)
            inputs.append(TokenIds(np.array(ids, dtype=np.int32), 1, end))
        return inputs


def proxy_texts(entity: Entity, index_unit: str) -> list[EntityText]:
    """Return the texts of the rows of an entity, one or more."""
    types, canonical = ", ".join(entity.types), entity.canonical_name
    if index_unit in SINGLE_ROWS:
        aliases = "; ".join(entity.names[1:]) if index_unit == "entity" else None
        return [EntityText(canonical, types, ". ".join(filter(None, (aliases, entity.definition))))]
    definition = entity.definition if index_unit == "described-name" else None
    texts = []
    for name in entity.names:
        parts = canonical if name != canonical else None, definition
        texts.append(EntityText(name, types, ". ".join(filter(None, parts))))
    return texts


def entity_rows(
    entities: Sequence[Entity], index_unit: str, encode: EncodeEntities
) -> tuple[np.ndarray, np.ndarray]:
    """Return the vectors of entities' rows, float32 [b, d], and the place of each row's entity, int64 [b]."""
    texts = [proxy_texts(entity, index_unit) for entity in entities]
    owners = np.repeat(np.arange(len(texts)), [len(rows) for rows in texts])
    return encode([text for rows in texts for text in rows]), owners


def encode_rows(
    kb: KnowledgeBase,
    numbers: Sequence[int] | np.ndarray,
    index_unit: str,
    encode: EncodeEntities,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the vectors of entities' rows, float32 [b, d], and the number of each row's entity, int64 [b].

    ``numbers`` are those of the entities in the KB. A chunk has the rows of CHUNK entities.
    """
    for first in range(0, len(numbers), CHUNK):
        chunk = np.asarray(numbers[first : first + CHUNK], dtype=np.int64)
        vectors, owners = entity_rows(kb.entities(chunk), index_unit, encode)
        yield vectors, chunk[owners]
