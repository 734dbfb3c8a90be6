"""Refuses a source in which two records have the same id."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ...errors import PelError
from ..records.entity import Entity


def distinct(read: Callable[[], Iterator[tuple[str, Entity]]]) -> Iterator[Entity]:
    """The entities of a source, each checked to have an id of its own.

    Args:
        read: Reads the source: pairs of a place, such as "file, line 3", and the entity there. It is
            called again to find the place of an earlier record.

    Raises:
        PelError: A record repeats the id of an earlier one.
    """
    seen: set[int] = set()  # hashes of ids: about 60 bytes an entity
    for place, entity in read():
        if hash(entity.concept_id) in seen:
            _refuse_repeated(read(), place, entity.concept_id)
        seen.add(hash(entity.concept_id))
        yield entity


def _refuse_repeated(entities: Iterator[tuple[str, Entity]], place: str, id: str) -> None:
    """Raises PelError if an earlier record has the same id, and not only the same hash of it."""
    for earlier, entity in entities:
        if earlier == place:
            return
        if entity.concept_id == id:
            raise PelError(
                f"{place}: repeats the concept_id {id!r} of {earlier}",
                "merge the two records into one",
            )
