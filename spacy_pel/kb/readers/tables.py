"""Tables of entities in CSV, TSV and Parquet, CTD's diseases (MEDIC), and SSSOM mappings."""

import csv
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ...errors import PelError
from ...io.duckdb_session import duckdb_connection, sql_identifier, sql_path
from ...io.lines import check_gzip, numbered_lines
from ...io.table_rows import table_rows
from ..records.entity import Entity, cleaned_at, plain_id
from .entity_source import ReadOptions, Source, SourceFormat
from .mesh import BRANCHES, VOCABULARY

_NEEDED = ("concept_id", "canonical_name")
_TEXTS = (*_NEEDED, "definition")
# Common names of columns, ignoring case, and their fields unless other columns have them.
_COMMON = {"id": "concept_id", "name": "canonical_name", "synonyms": "aliases"}
_BATCH_SIZE = 1000  # rows that are fetched together
_MAX_ROW_SIZE = 2**22  # characters of a row, which may have many lines

Rows = Iterator[tuple[str, Mapping[str, Any]]]  # the place of each row, for messages, and its cells


def read_table(path: Path, options: ReadOptions) -> Source:
    """Read the entities of a ``.csv``, ``.tsv`` (plain or ``.gz``) or ``.parquet`` file.

    ``options.columns`` maps columns to fields of ``Entity``. "id", "name" and "synonyms" map to "concept_id",
    "canonical_name" and "aliases". Other columns map to the field of the same name. A field that is a list
    may have several columns. Its cells are lists, or texts with bars between the items. In cells of
    "synonyms" without a bar, semicolons separate the items. An entity may have several rows. Its first row
    has the canonical name, and its lists are united.
    """
    fields_of = partial(_fields, path, options.columns)
    rows: Rows
    columns: Collection[str]
    if path.name.lower().endswith(".parquet"):
        values = parquet_rows(path, fields_of, str(path))
        columns = next(values)
        rows = ((f"{path}, row {n}", dict(zip(columns, row))) for n, row in enumerate(values, 1))
    else:
        check_gzip(path)  # damage might look like other columns
        rows = text_rows(path)
        _, columns = next(rows, ("", {}))
    return Source(_entities(rows, fields_of(list(columns))))


def text_rows(path: Path, skip: str = r"(?!)", *, quoted: bool = True) -> Rows:
    """Yield the rows of a delimited text, starting with the header.

    Tabs separate the cells of a ``.tsv`` file; for a ``.csv`` file, see ``table_rows``. Skip blank lines, and
    lines that begin with the pattern ``skip``.
    """
    size = 0

    def lines() -> Iterator[tuple[int, str]]:
        nonlocal size
        for number, line in numbered_lines(path):
            size += len(line)
            if size > _MAX_ROW_SIZE:
                problem = f"{path}, line {number}: a row of more than {_MAX_ROW_SIZE:,} characters"
                raise PelError(problem, "correct its quotes, or split it")
            if not re.match(skip, line):
                yield number, f"{line}\n"

    columns: list[str] = []
    delimiter = None if ".csv" in path.name.lower() else "\t"
    for number, row in table_rows(lines(), delimiter, _MAX_ROW_SIZE, quoted=quoted):
        place, size = f"{path}, line {number}", 0
        if isinstance(row, csv.Error):
            raise PelError(f"{place}: {row}", "correct the line") from row
        if not columns:
            columns = row
            names = list(filter(None, columns))
            if len(names) > len(set(names)):
                raise PelError(f"{place}: two columns have the same name", "rename one")
        if len(row) != len(columns):
            problem = f"{place}: {len(row)} cells, but the first row has {len(columns)}"
            raise PelError(problem, "correct the row")
        yield place, dict(zip(columns, row))


def parquet_rows(
    path: Path, choose: Callable[[Sequence[str]], Iterable[str]], name: str = ""
) -> Iterator[tuple[Any, ...]]:
    """Yield the names of the columns to read of a Parquet file, and then its rows.

    Args:
        path: The file.
        choose: Returns the columns to read from the names of all columns.
        name: The name of the file in messages; "" if the caller adds it.

    Raises:
        PelError: The file is damaged.
    """
    import duckdb

    with duckdb_connection(threads=1) as connection:
        table = f"read_parquet({sql_path(path)})"
        try:
            connection.execute(f"DESCRIBE SELECT * FROM {table}")
            columns = tuple(choose([column for column, *_ in connection.fetchall()]))
            connection.execute(f"SELECT {', '.join(map(sql_identifier, columns))} FROM {table}")
            yield columns
            while rows := connection.fetchmany(_BATCH_SIZE):
                yield from rows
        except duckdb.Error as error:
            place = f"{name}: " if name else ""
            problem = f"{place}not Parquet, or damaged ({str(error).splitlines()[0]})"
            raise PelError(problem, "write it again") from error


def _entities(rows: Rows, fields: Mapping[str, str]) -> Iterator[Entity]:
    for place, row in rows:
        values: dict[str, Any] = {}
        for column, field in fields.items():
            cell = row[column]
            if field in _TEXTS:
                values[field] = "" if cell is None else str(cell).strip()
            else:
                is_synonyms = column.casefold() == "synonyms" and "|" not in str(cell)
                items = _items(cell, ";" if is_synonyms else "|")
                values[field] = (*values.get(field, ()), *items)
        if not values["concept_id"] or not values["canonical_name"]:
            raise PelError(f"{place}: no id or no name in it", "correct the row")
        yield cleaned_at(place, Entity(**values))


def _items(cell: Any, separator: str = "|") -> list[str]:
    if cell is None:
        return []
    items = cell if isinstance(cell, list) else str(cell).split(separator)
    return [str(item).strip() for item in items if item is not None and str(item).strip()]


def _fields(path: Path, named: Mapping[str, str], columns: Sequence[str]) -> dict[str, str]:
    """Return the field of ``Entity`` of each column that has one."""
    for column, field in named.items():
        if column not in columns:
            raise PelError(f"{path}: no column {column!r}", f"choose from {', '.join(columns)}")
        if field not in Entity._fields:
            raise PelError(f"no field {field!r}", f"choose one of {', '.join(Entity._fields)}")
    others = set(Entity._fields) - set(named.values())
    fields = {c: named.get(c, c) for c in columns if c in named or c in others}
    common = {c: _COMMON.get(c.casefold(), "") for c in columns if c not in fields}
    free = others - set(fields.values())
    fields |= {column: field for column, field in common.items() if field in free}
    for field in _TEXTS:
        sources = [column for column, name in fields.items() if name == field]
        if not sources and field in _NEEDED:
            option = f"--column {field}=COLUMN (it has {', '.join(columns)})"
            raise PelError(
                f"{path}: no column {field}", f"name the column with this field: {option}"
            )
        if len(sources) > 1:
            raise PelError(f"{path}: several columns for {field}: {', '.join(sources)}", "name one")
    return fields


# MEDIC

_MEDIC_NEEDED = set("DiseaseName DiseaseID AltDiseaseIDs Definition ParentIDs Synonyms".split())
_ROOT = "MESH:C"  # the branch itself, above all diseases


def read_medic(path: Path, options: ReadOptions) -> Source:
    """Read the diseases of CTD. Their ids have no prefix.

    A disease of OMIM with exactly one alternative id of MeSH gets this id, to join MeSH's record.
    """
    skip = r"#(?! *DiseaseName\tDiseaseID\t)"  # all comments except the header
    rows = text_rows(path, skip, quoted=False)
    _, columns = next(rows, ("", {}))
    if not {column.lstrip("# ") for column in columns} >= _MEDIC_NEEDED:
        remedy = "fetch CTD_diseases.tsv.gz from ctdbase.org again"
        raise PelError(f"{path}: no comment names its columns", remedy)
    return Source(_disease(place, row) for place, row in rows if row["DiseaseID"] != _ROOT)


def _disease(place: str, cells: Mapping[str, str]) -> Entity:
    row = {column.lstrip("# "): cell.strip() for column, cell in cells.items()}
    disease_id, others = row["DiseaseID"], _items(row["AltDiseaseIDs"])
    of_mesh = [id for id in others if id.startswith("MESH:")]
    id = of_mesh[0] if len(of_mesh) == 1 and not disease_id.startswith("MESH:") else disease_id
    # Corpora annotate ids of MeSH and OMIM.
    diseases = [id for id in (disease_id, *others) if id.startswith(("MESH:", "OMIM:"))]
    entity = Entity(
        concept_id=_local_id(id),
        canonical_name=row["DiseaseName"],
        aliases=tuple(_items(row["Synonyms"])),
        types=(BRANCHES["C"],),
        definition=row["Definition"] or None,
        alt_ids=tuple(sorted({*map(_local_id, diseases)} - {_local_id(id)})),
        parents=tuple(_local_id(id) for id in _items(row["ParentIDs"]) if id != _ROOT),
        xrefs=tuple(id for id in others if id not in diseases),
        sources=(VOCABULARY if disease_id.startswith("MESH:") else "OMIM",),
    )
    return cleaned_at(place, entity)


def _local_id(id: str) -> str:
    return plain_id(id).removeprefix("OMIM:")


# SSSOM


def read_mapping(paths: Iterable[Path]) -> dict[str, str]:
    """Return the mapping of ``.sssom.tsv`` files, plain or ``.gz``, from subject to object.

    Exact matches are transitive. If a subject has several objects, all connected ids map to its first object.
    Identifiers are CURIEs; those of UMLS and MeSH lose their prefix. Rows with other predicates, and rows
    that a ``predicate_modifier`` negates, are ignored.

    Raises:
        PelError: A column is missing, a row is malformed, or an identifier has no prefix or is unusable.
    """
    mapping: dict[str, str] = {}

    def end(id: str) -> str:
        while id in mapping:
            following = mapping[id]
            mapping[id] = mapping.get(following, following)  # shortens the path
            id = following
        return id

    for path in paths:
        for subject, object in _pairs(path):
            first, second = end(subject), end(object)
            if first != second:  # only an unmapped id is mapped, so that there is no cycle
                start, target = (subject, second) if first == subject else (second, first)
                mapping[start] = target
    return mapping


def _pairs(path: Path) -> Iterator[tuple[str, str]]:
    rows = text_rows(path, "#")
    _, columns = next(rows, ("", {}))
    for name in ("subject_id", "predicate_id", "object_id"):
        if name not in columns:
            raise PelError(f"{path}: no column {name}", "give an SSSOM table (TSV)")
    for place, row in rows:
        if row["predicate_id"] == "skos:exactMatch" and row.get("predicate_modifier") != "Not":
            yield _curie(row["subject_id"], place), _curie(row["object_id"], place)


def _curie(id: str, place: str) -> str:
    prefix, _, local = id.strip().partition(":")
    if not prefix or not local:
        problem = f"{place}: {id!r} is not a CURIE such as UMLS:C0012634"
        raise PelError(problem, "correct the line")
    id = plain_id(f"{prefix}:{local}")
    return cleaned_at(place, Entity(id, id)).concept_id


TABLE = SourceFormat("table", read_table, ("*.csv", "*.tsv", "*.parquet"))
MEDIC = SourceFormat("medic", read_medic, ("*ctd_diseases.tsv",))
