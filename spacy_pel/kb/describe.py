"""What a knowledge base holds, and how two of them differ, such as two releases of a vocabulary."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import PelError
from ..system.whole_files import whole_file
from .knowledge_base import KnowledgeBase
from .records.entity import Entity

_COUNTS = ("entities", "aliases", "definitions", "alt_ids", "retired_ids", "parents", "xrefs")
_FACTS = ("rows", "row_kind", "dim", "stored_dim", "dtype")
_LOOKED_AT = 10_000  # entities, for the names of vocabularies in an error


def kb_info(folder: Path) -> dict[str, Any]:
    """Counts, sources, types, sizes and vectors of a KB, as plain data, by the name of each fact.

    Sizes are in bytes. Facts about vectors are None where the KB has none. "codes" is the number of
    codes of an index of the kind PQ4, "recall" that of the approximate index, at 1 and at 64 candidates;
    None where search is exact. "mentions" are counted by source. PelError if there is no whole KB.
    """
    with KnowledgeBase.open(folder) as opened:
        settings, types, files = opened.settings, opened.semantic_types, opened.file_sizes()
        mentions = opened.mentions.counts()
    vectors = settings["vectors"] or {}
    index = vectors.get("found_by")
    return {
        "path": str(opened.path),
        "created_by": settings["created_by"],
        "sources": settings["sources"],
        **{name: settings["counts"][name] for name in _COUNTS},
        "types": [type.name for type in types],
        "removed": settings["next_number"] - len(opened),
        "bytes": sum(files.values()),
        **{name: vectors.get(name) for name in _FACTS},
        "index": (index["kind"] if index else "exact") if vectors else None,
        "codes": index.get("codes") if index else None,
        "recall": index["recall"] if index else None,
        "fingerprint": vectors.get("fingerprint"),
        "mentions": mentions or None,
    }


def kb_find(folder: Path, text: str, limit: int) -> list[Entity]:
    """The entity with an id, or up to ``limit`` entities whose names hold all words of a text.

    Those whose names are most like the text come first. PelError if there is no whole KB.
    """
    with KnowledgeBase.open(folder) as opened:
        return [opened[text]] if text in opened else opened.found(text, limit)


def check_vocabularies(kb: KnowledgeBase, vocabularies: Iterable[str]) -> None:
    """Raises PelError unless a KB has codes in each vocabulary (``Entity.codes``).

    At worst all records are read, which takes seconds for millions.
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


class EntityDifference(NamedTuple):
    """An entity that is "added", "removed" or "changed", and the fields of its record that changed."""

    id: str
    kind: str
    fields: tuple[str, ...] = ()


def difference(old: KnowledgeBase, new: KnowledgeBase) -> Iterator[EntityDifference]:
    """The differences from the old KB to the new one, sorted by concept id.

    Records are compared as they are, so another order of aliases is a difference. Vectors are not
    compared. Memory does not grow with the size of the KBs.
    """

    def records(kb: KnowledgeBase, age: int) -> Iterator[tuple[str, int, Entity]]:
        return ((entity.concept_id, age, entity) for entity in kb.by_id())

    for id, group in groupby(merge(records(old, 0), records(new, 1)), key=itemgetter(0)):
        (_, age, first), *others = group
        if not others:
            yield EntityDifference(id, ("removed", "added")[age])
        elif first != (second := others[0][2]):
            fields = zip(Entity._fields, first, second)
            differing = tuple(name for name, one, other in fields if one != other)
            yield EntityDifference(id, "changed", differing)


class KBComparison(NamedTuple):
    """The changes from an old KB to a new one, counted."""

    kinds: Counter[str]  # the number of entities that were "added", "removed" or "changed"
    fields: Counter[str]  # of changed entities, by the field of their records that differs
    first_ids: dict[str, list[str]]  # of each kind
    is_not_embedded: bool  # whether the old KB has vectors and the new one has none


def compare_kbs(
    old: Path, new: Path, output: Path | None = None, *, n_ids: int = 5
) -> KBComparison:
    """Compare the entities of two KBs, given by their folders; PelError if one holds no whole KB.

    Each change is written to the output as JSON. ``n_ids`` is the number of ids to give of each kind.
    """
    with KnowledgeBase.open(old) as before, KnowledgeBase.open(new) as after, ExitStack() as stack:
        file = stack.enter_context(whole_file(output)) if output else None
        is_not_embedded = before.has_vectors and not after.has_vectors
        kinds, fields, first_ids = Counter[str](), Counter[str](), dict[str, list[str]]()
        for change in difference(before, after):
            if file:
                file.write(json.dumps(change._asdict(), ensure_ascii=False) + "\n")
            kinds[change.kind] += 1
            fields.update(change.fields)
            if kinds[change.kind] <= n_ids:
                first_ids.setdefault(change.kind, []).append(change.id)
    return KBComparison(kinds, fields, first_ids, is_not_embedded)
