"""What changed from one knowledge base to a later one, counted and written down."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, TextIO

from ..kb import KnowledgeBase
from ..kb.difference import EntityDifference, difference
from ..system.whole_files import whole_file


class KBComparison(NamedTuple):
    """The changes from an old KB to a new one, counted.

    Attributes:
        kinds: The number of entities by what happened to them: "added", "removed", "changed".
        fields: The number of changed entities by the field of their records that differs.
        first_ids: The first ids of each kind.
        is_not_embedded: Whether the old KB has vectors and the new one has none.
    """

    kinds: Counter[str]
    fields: Counter[str]
    first_ids: dict[str, list[str]]
    is_not_embedded: bool


def compare_kbs(
    old: Path, new: Path, output: Path | None = None, *, n_ids: int = 5
) -> KBComparison:
    """Compare the entities of two KBs.

    Args:
        old: The folder of a KB.
        new: The folder of a later KB.
        output: A file to which each change is written as a line of JSON.
        n_ids: The number of ids to give of each kind.

    Raises:
        PelError: A folder holds no KB, or one that is not whole.
        OSError: The output cannot be written.
    """
    with KnowledgeBase.open(old) as before, KnowledgeBase.open(new) as after, ExitStack() as stack:
        changes = difference(before, after)
        if output:
            changes = _written(changes, stack.enter_context(whole_file(output)))
        is_not_embedded = before.has_vectors and not after.has_vectors
        kinds, fields, first_ids = Counter[str](), Counter[str](), dict[str, list[str]]()
        for change in changes:
            kinds[change.kind] += 1
            fields.update(change.fields)
            if kinds[change.kind] <= n_ids:
                first_ids.setdefault(change.kind, []).append(change.id)
    return KBComparison(kinds, fields, first_ids, is_not_embedded)


def _written(changes: Iterable[EntityDifference], file: TextIO) -> Iterator[EntityDifference]:
    for change in changes:
        file.write(json.dumps(change._asdict(), ensure_ascii=False) + "\n")
        yield change
