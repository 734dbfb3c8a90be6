"""What a knowledge base holds."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

from ..errors import PelError
from .knowledge_base import KnowledgeBase
from .records.entity import Entity

_COUNTS = ("entities", "aliases", "definitions", "alt_ids", "retired_ids", "parents", "xrefs")
_LOOKED_AT = 10_000  # entities, for the names of vocabularies in an error


def kb_info(folder: Path) -> dict[str, Any]:
    """Counts, sources, types, sizes and vectors of a KB, as plain data.

    Returns:
        A value for each fact. Sizes are in bytes. Facts about vectors are None where the KB has
        none. "codes" is the number of codes of an index of the kind PQ4, which is smaller than
        "rows" where similar names share codes. "recall" is that of the approximate index, at 1 and
        at 64 candidates; None where search is exact. "mentions" is the number of learnt mentions of
        each source, without those whose entity is gone; None if there are none.

    Raises:
        PelError: There is no KB, or it is not whole.
    """
    with KnowledgeBase.open(folder) as opened:
        settings, types, files = opened.settings, opened.semantic_types, opened.file_sizes()
        records = opened.n_records()
        stored_dim = opened.stored_dim if opened.has_vectors else None
        mentions = opened.mentions.counts()
    vectors = settings["vectors"] or {}
    index = vectors.get("found_by")
    return {
        "path": str(opened.path),
        "created_by": settings["created_by"],
        "sources": settings["sources"],
        **{name: settings["counts"][name] for name in _COUNTS},
        "types": [type.name for type in types],
        "removed": records - len(opened),
        "bytes": sum(files.values()),
        **{name: vectors.get(name) for name in ("rows", "row_kind", "dim")},
        "stored_dim": stored_dim,
        "dtype": vectors.get("dtype"),
        "index": (index["kind"] if index else "exact") if vectors else None,
        "codes": index.get("codes") if index else None,
        "recall": index["recall"] if index else None,
        "fingerprint": vectors.get("fingerprint"),
        "mentions": mentions or None,
    }


def kb_find(folder: Path, text: str, limit: int) -> list[Entity]:
    """The entity with an id, or up to ``limit`` entities whose names hold all words of a text.

    Those whose names are most like the text come first. PelError if there is no KB, or it is not whole.
    """
    with KnowledgeBase.open(folder) as opened:
        return [opened[text]] if text in opened else opened.found(text, limit)


def check_vocabularies(kb: KnowledgeBase, vocabularies: Iterable[str]) -> None:
    """Raises PelError unless a KB has codes in each vocabulary (``Entity.codes``).

    A misspelt name would give none in silence. At worst all records are read, which takes seconds for
    millions.
    """
    for name in vocabularies:
        if not kb.has_codes(name):
            some = (
                id.partition(":")[0]
                for entity in islice(kb, _LOOKED_AT)
                for id in (entity.concept_id, *entity.alt_ids, *entity.xrefs)
                if ":" in id
            )
            raise PelError(
                f"{kb.path}: no entity has a code of {name!r}",
                f"choose of its vocabularies: {', '.join(sorted(set(some))) or 'none'}",
            )
