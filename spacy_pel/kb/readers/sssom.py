"""SSSOM mapping tables, which say which identifiers of two vocabularies mean the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ...errors import PelError
from ...system.lines import numbered_lines
from ..records.cleaning import cleaned_at
from ..records.entity import Entity
from ..records.merging import plain_id
from .table import text_rows

EXACT = ("skos:exactMatch",)


def read_mapping(paths: Iterable[Path], predicates: Sequence[str] = EXACT) -> dict[str, str]:
    """The mapping of ``.sssom.tsv`` files, plain or ``.gz``, from subject to object; for ``merged``.

    Exact matches are transitive: if a subject has several objects, all that are linked with it lead
    to its first object. Identifiers are CURIEs, as in OBO files. Those of UMLS and MeSH lose their
    prefix ("UMLS:C0012634" becomes "C0012634"), because the files of UMLS and MeSH have none. The
    comment lines (the metadata with its curie_map) are not used.

    Args:
        paths: The tables.
        predicates: The predicates of the rows that count. A row whose ``predicate_modifier``
            negates it does not count.

    Raises:
        PelError: A column is missing, a row is not whole, or an identifier has no prefix or is
            none that an entity may have (see ``cleaned``). The error names file and line.
    """
    mapping: dict[str, str] = {}
    shortcuts: dict[str, str] = {}
    for path in paths:
        for subject, object in _pairs(path, predicates):
            _link(mapping, shortcuts, subject, object)
    return mapping


def mapping_version(path: Path) -> str | None:
    """The ``mapping_set_version`` that the comment lines of a table give, or None."""
    for _, line in numbered_lines(path):
        if not line.startswith("#"):
            break
        key, _, value = line.lstrip("# ").partition(":")
        if key == "mapping_set_version":
            return value.strip().strip("\"'")
    return None


def _link(mapping: dict[str, str], shortcuts: dict[str, str], subject: str, object: str) -> None:
    """Adds a pair to a mapping without making a cycle: only an id that leads nowhere is mapped.

    Args:
        mapping: Is changed.
        shortcuts: The same mapping with shorter ways; is changed.
        subject: An id.
        object: An id that means the same.
    """
    first, second = _end(shortcuts, subject), _end(shortcuts, object)
    if first == second:
        return
    start, end = (subject, second) if first == subject else (second, first)
    mapping[start] = shortcuts[start] = end


def _end(shortcuts: dict[str, str], id: str) -> str:
    """Where an id leads in the end. Every second step of the way is cut short."""
    while id in shortcuts:
        following = shortcuts[id]
        shortcuts[id] = shortcuts.get(following, following)
        id = following
    return id


def _pairs(path: Path, predicates: Sequence[str]) -> Iterator[tuple[str, str]]:
    rows = text_rows(path, "\t", comment="#")
    where, columns = next(rows, (str(path), []))
    for name in ("subject_id", "predicate_id", "object_id"):
        if name not in columns:
            raise PelError(f"{where}: no column {name}", "give an SSSOM table (TSV)")
    for where, cells in rows:
        row = dict(zip(columns, cells))
        if row["predicate_id"] in predicates and row.get("predicate_modifier") != "Not":
            yield _curie(row["subject_id"], where), _curie(row["object_id"], where)


def _curie(id: str, where: str) -> str:
    prefix, colon, local = id.strip().partition(":")
    if not prefix or not local:
        problem = f"{where}: {id!r} is not a CURIE such as UMLS:C0012634"
        raise PelError(problem, "correct the line")
    id = plain_id(f"{prefix}:{local}")
    return cleaned_at(where, Entity(id, id)).concept_id
