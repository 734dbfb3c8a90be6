"""Builds a KB folder from entities, in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ...about import __version__
from ...errors import PelError
from ..folder.transaction import folder_transaction
from ..knowledge_base import KnowledgeBase
from ..records.entity import Entity
from ..records.record_writing import write_records
from ..records.semantic_types import SemanticType


def build_kb(
    entities: Iterable[Entity],
    path: str | Path,
    *,
    types: Iterable[SemanticType] = (),
    sources: Sequence[str] = (),
    progress: Callable[[Iterable[Entity]], Iterable[Entity]] | None = None,
) -> KnowledgeBase:
    """Writes entities to a KB folder, and opens the KB.

    A KB that is already in the folder is replaced at the very end, together with its vectors. Until
    then, and after any error or interruption, it stays as it was.

    Args:
        entities: The entities, in any order.
        path: The folder to write to.
        types: The semantic types of the entities and the types above them. They are read after the
            entities.
        sources: What the entities come from, for the manifest.
        progress: Wraps the entities, as tqdm does.

    Raises:
        PelError: The folder holds something other than a KB, an entity is unusable, there are no
            entities, or the disk is full.
    """
    folder = Path(path).absolute()
    with folder_transaction(folder) as transaction:
        records = transaction.temporary(".sqlite")
        scratch = transaction.temporary(".sqlite")
        stream = progress(entities) if progress else entities
        counts = write_records(records, scratch, stream, types)
        if not counts["entities"]:
            source = ", ".join(sources) or folder
            raise PelError(f"{source}: no entities", "check that it is the right source")
        segment = {
            "records": transaction.publish(records, "entities"),
            "count": counts["entities"],
            "removed": None,
            "vectors": None,
        }
        transaction.commit(
            {
                "created_by": f"spacy-pel {__version__}",
                "sources": list(sources),
                "counts": counts,
                "files": transaction.files,
                "segments": [segment],
                "vectors": None,
            }
        )
    return KnowledgeBase.open(folder)
