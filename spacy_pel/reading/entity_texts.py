"""The texts of entities as token ids (PEL, appendix A).

entity:   [CLS] title [SEP] types [SEP] description [SEP]

Each type may stand behind its place in the hierarchy of types, as in KRISSBERT's references (section 3.2):
[CLS] ESR1 gene [SEP] A1.2.3.5 Gene or Genome [SEP] ... [SEP]
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from tokenizers import Tokenizer

from .text_inputs import TokenIds
from .word_pieces import WordPieces


class EntityText(NamedTuple):
    """The text that a proxy is computed from. Empty parts at the end are left out of the input."""

    title: str  # A name of the entity
    types: str = ""  # its semantic types, in words
    # What else the row kind puts in: other names or the canonical name, and the definition (see
    # ``proxies``).
    description: str = ""


class EntityReader:
    """Turns the texts of entities into at most ``length`` token ids, special tokens included.

    ``tree_numbers`` are what is read before the name of a type, by that name.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        length: int,
        position_limit: int,
        tree_numbers: Mapping[str, str] | None = None,
    ):
        self.length = min(length, position_limit)
        self._pieces = WordPieces(tokenizer)
        self._tree_numbers = tree_numbers or {}
        # Names of types may have commas in them, so the longest that fits is meant.
        names = "|".join(map(re.escape, sorted(self._tree_numbers, key=len, reverse=True)))
        self._types = re.compile(rf"(?:^|(?<=, ))(?:{names})(?=, |$)")

    def tokens(self, entities: Sequence[EntityText]) -> list[TokenIds]:
        """The token ids of each entity: ``[CLS] title [SEP] types [SEP] description [SEP]``, cut."""
        if self._tree_numbers:
            entities = [entity._replace(types=self._numbered(entity.types)) for entity in entities]
        tokenized = self._pieces.tokenize(part for entity in entities for part in entity)
        return [self._joined([next(tokenized) for _ in EntityText._fields]) for _ in entities]

    def _numbered(self, types: str) -> str:
        return self._types.sub(lambda name: f"{self._tree_numbers[name[0]]} {name[0]}", types)

    def _joined(self, parts: list[list[int]]) -> TokenIds:
        while len(parts) > 1 and not parts[-1]:
            parts.pop()
        ids = [self._pieces.cls]
        for part in parts:
            ids += [*part, self._pieces.sep]
        if len(ids) > self.length:
            ids[self.length - 1 :] = [self._pieces.sep]
        end = min(1 + len(parts[0]), self.length - 1)
        return TokenIds(np.array(ids, dtype=np.int32), 1, end)
