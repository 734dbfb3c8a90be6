"""SSSOM mapping tables, which say which identifiers of two vocabularies mean the same."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ...errors import PelError
from ...system.lines import numbered_lines
from ..records.cleaning import cleaned_at
from ..records.entity import Entity
from ..records.merging import plain_id

EXACT = ("skos:exactMatch",)
_COLUMNS = ("subject_id", "predicate_id", "object_id")
# The default limit of csv. It holds for the whole process, and other code may have changed it.
_LONGEST_FIELD = 131_072


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
    columns: list[str] = []
    for number, values in _rows(path):
        if not columns:
            columns = values
            missing = [name for name in _COLUMNS if name not in columns]
            if missing:
                raise PelError(
                    f"{path}, line {number}: no column {missing[0]}", "give an SSSOM table (TSV)"
                )
            continue
        if len(values) != len(columns):
            raise PelError(
                f"{path}, line {number}: {len(values)} columns, where the header has "
                f"{len(columns)}",
                "fetch the file again",
            )
        row = dict(zip(columns, values))
        if row["predicate_id"] in predicates and row.get("predicate_modifier") != "Not":
            yield _curie(row["subject_id"], path, number), _curie(row["object_id"], path, number)


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(_LONGEST_FIELD)
    for number, line in numbered_lines(path):
        if line.startswith("#") or not line:
            continue
        try:
            yield number, next(csv.reader([line], delimiter="\t"))
        except csv.Error as error:
            raise PelError(f"{path}, line {number}: {error}", "correct the line") from error


def _curie(id: str, path: Path, number: int) -> str:
    prefix, colon, local = id.strip().partition(":")
    if not prefix or not local:
        raise PelError(
            f"{path}, line {number}: {id!r} is not a CURIE such as UMLS:C0012634",
            "correct the line",
        )
    id = plain_id(f"{prefix}:{local}")
    return cleaned_at(f"{path}, line {number}", Entity(id, id)).concept_id
