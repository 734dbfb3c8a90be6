"""Tables: of entities in CSV, TSV and Parquet, CTD's diseases (MEDIC), and mappings in SSSOM."""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
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
# What people name columns, ignoring case, and the fields that these hold unless other columns do.
_COMMON = {"id": "concept_id", "name": "canonical_name", "synonyms": "aliases"}
_BATCH_BYTES = 2**26  # bytes of rows that are fetched together, though they are packed well
_SIZE = '"bytes of the row"'  # a name that no column has
_MAX_ROW_SIZE = 2**22  # characters; cells may have many lines

Rows = Iterator[tuple[str, Mapping[str, Any]]]  # their places, with the file, and cells by column


def read_table(path: Path, options: ReadOptions) -> Source:
    """The entities of a ``.csv``, ``.tsv`` (plain or ``.gz``) or ``.parquet`` file.

    A column holds the field of ``Entity`` that ``options.columns`` gives for it, or else that of its name. A
    field that is a list may have several columns; cells are lists, or texts with bars between the items.
    The columns "id", "name" and "synonyms" need no choice; in cells of "synonyms" without a bar, semicolons
    separate. An entity may have several rows: the first has its canonical name, and lists are united.
    """
    name = path.name.lower()
    fields_of = partial(_fields, path, options.columns)
    if name.endswith(".parquet"):
        found = parquet_rows(path, fields_of, _MAX_ROW_SIZE, str(path))
        columns = next(found)
        rows = ((f"{path}, row {n}", dict(zip(columns, row))) for n, row in enumerate(found, 1))
    else:
        check_gzip(path)  # or damage might look like other columns
        rows = text_rows(path)
        _, columns = next(rows, ("", {}))
    return Source(_entities(rows, fields_of(columns)))


def text_rows(path: Path, skip: str = r"(?!)", *, quoted: bool = True) -> Rows:
    """The rows of a table in text, from the first on, which names the columns.

    A ``.tsv`` has tabs between the cells; of a ``.csv`` see ``table_rows``. Blank lines go, and so do lines
    that begin with the pattern ``skip``.
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
        where, size = f"{path}, line {number}", 0
        if isinstance(row, csv.Error):
            raise PelError(f"{where}: {row}", "correct the line") from row
        columns = columns or row
        named = list(filter(None, columns)) if columns is row else []
        if len(named) > len(set(named)):
            raise PelError(f"{where}: two columns have the same name", "rename one")
        if len(row) != len(columns):
            problem = f"{where}: {len(row)} cells, where the first row has {len(columns)}"
            raise PelError(problem, "correct the row")
        yield where, dict(zip(columns, row))


def parquet_rows(
    path: Path, chosen: Callable[[Sequence[str]], Iterable[str]], longest: int, name: str = ""
) -> Iterator[tuple[Any, ...]]:
    """The names of the columns of a Parquet file that are chosen of all, and then its rows.

    PelError if it is damaged, or a row has more than ``longest`` bytes.
    """
    import duckdb

    place = f"{name}: " if name else ""
    with duckdb_connection(threads=1, memory_limit="700MB", temp_directory="") as connection:
        table = f"read_parquet({sql_path(path)})"
        try:
            connection.execute(f"DESCRIBE SELECT * FROM {table}")
            columns = tuple(chosen([column for column, *_ in connection.fetchall()]))
            named = list(map(sql_identifier, columns))
            # A list is as long as its text. What is too long does not leave DuckDB.
            size = " + ".join(f"coalesce(strlen({each}::VARCHAR), 0)" for each in named) or "0"
            cells = "".join(f", CASE WHEN {_SIZE} <= {longest} THEN {each} END" for each in named)
            sized = f"SELECT {size} AS {_SIZE}, {', '.join(named) or '0'} FROM {table}"
            connection.execute(f"SELECT {_SIZE}{cells} FROM ({sized})")
            yield columns
            numbers = count(1)
            while rows := connection.fetchmany(max(1, _BATCH_BYTES // longest)):
                for (size, *row), number in zip(rows, numbers):
                    if size > longest:
                        problem = f"{place}row {number} has {size:,} bytes, more than {longest:,}"
                        raise PelError(problem, "split it")
                    yield tuple(row)
        except duckdb.OutOfMemoryException as error:
            problem = f"{place}rows that take more than 700 MB together"
            raise PelError(problem, "split long ones, or write smaller row groups") from error
        except duckdb.Error as error:
            problem = f"{place}not Parquet, or damaged ({str(error).splitlines()[0]})"
            raise PelError(problem, "write it again") from error


def _entities(rows: Rows, fields: Mapping[str, str]) -> Iterator[Entity]:
    for where, row in rows:
        values: dict[str, Any] = {}
        for column, field in fields.items():
            cell = row[column]
            if field in _TEXTS:
                values[field] = "" if cell is None else str(cell).strip()
            else:
                separator = "|"
                if column.casefold() == "synonyms" and "|" not in str(cell):
                    separator = ";"
                values[field] = (*values.get(field, ()), *_items(cell, separator))
        if not values["concept_id"] or not values["canonical_name"]:
            raise PelError(f"{where}: no id or no name in it", "correct the row")
        yield cleaned_at(where, Entity(**values))


def _items(cell: Any, separator: str = "|") -> list[str]:
    items = cell if isinstance(cell, list) else [] if cell is None else str(cell).split(separator)
    return [str(item).strip() for item in items if item is not None and str(item).strip()]


def _fields(path: Path, named: Mapping[str, str], columns: Sequence[str]) -> dict[str, str]:
    """The field of ``Entity`` that each column holds, of those that hold one."""
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
        bearers = [column for column, name in fields.items() if name == field]
        if not bearers and field in _NEEDED:
            some = f"--column {field}=COLUMN (it has {', '.join(columns)})"
            raise PelError(f"{path}: no column {field}", f"name the one that holds it: {some}")
        if len(bearers) > 1:
            raise PelError(f"{path}: several columns for {field}: {', '.join(bearers)}", "name one")
    return fields


# MEDIC

_MEDIC_NEEDED = set("DiseaseName DiseaseID AltDiseaseIDs Definition ParentIDs Synonyms".split())
_ROOT = "MESH:C"  # the branch itself, above all diseases


def read_medic(path: Path, options: ReadOptions) -> Source:
    """The diseases of CTD; ids without a prefix.

    A disease of OMIM with one id of MeSH among its alternatives gets that id, to join MeSH's record.
    """
    skip = r"#(?! *DiseaseName\tDiseaseID\t)"  # all comments but the one that names the columns
    rows = text_rows(path, skip, quoted=False)
    _, columns = next(rows, ("", {}))
    if not {column.lstrip("# ") for column in columns} >= _MEDIC_NEEDED:
        remedy = "fetch CTD_diseases.tsv.gz from ctdbase.org again"
        raise PelError(f"{path}: no comment names its columns", remedy)
    return Source(_disease(place, row) for place, row in rows if row["DiseaseID"] != _ROOT)


def _disease(place: str, cells: Mapping[str, str]) -> Entity:
    row = {column.lstrip("# "): cell.strip() for column, cell in cells.items()}
    given, others = row["DiseaseID"], _items(row["AltDiseaseIDs"])
    of_mesh = [id for id in others if id.startswith("MESH:")]
    id = of_mesh[0] if len(of_mesh) == 1 and not given.startswith("MESH:") else given
    # Corpora use ids of MeSH and OMIM.
    diseases = [id for id in (given, *others) if id.startswith(("MESH:", "OMIM:"))]
    entity = Entity(
        concept_id=_local_id(id),
        canonical_name=row["DiseaseName"],
        aliases=tuple(_items(row["Synonyms"])),
        types=(BRANCHES["C"],),
        definition=row["Definition"] or None,
        alt_ids=tuple(sorted({*map(_local_id, diseases)} - {_local_id(id)})),
        parents=tuple(_local_id(id) for id in _items(row["ParentIDs"]) if id != _ROOT),
        xrefs=tuple(id for id in others if id not in diseases),
        sources=(VOCABULARY if given.startswith("MESH:") else "OMIM",),
    )
    return cleaned_at(place, entity)


def _local_id(id: str) -> str:
    return plain_id(id).removeprefix("OMIM:")


# SSSOM


def read_mapping(paths: Iterable[Path]) -> dict[str, str]:
    """The mapping of ``.sssom.tsv`` files, plain or ``.gz``, from subject to object; for ``renamed``.

    Exact matches are transitive: if a subject has several objects, all that are linked with it lead
    to its first object. Identifiers are CURIEs; those of UMLS and MeSH lose their prefix. Rows of other
    predicates do not count, nor those that their ``predicate_modifier`` negates. PelError, with file and
    line, if a column is missing, a row is not whole, or an identifier has no prefix or is unusable.
    """
    mapping: dict[str, str] = {}

    def end(id: str) -> str:
        while id in mapping:
            following = mapping[id]
            mapping[id] = mapping.get(following, following)  # cuts the way short
            id = following
        return id

    for path in paths:
        for subject, object in _pairs(path):
            first, second = end(subject), end(object)
            if first != second:  # only an id that leads nowhere is mapped: no cycle is made
                start, target = (subject, second) if first == subject else (second, first)
                mapping[start] = target
    return mapping


def _pairs(path: Path) -> Iterator[tuple[str, str]]:
    rows = text_rows(path, "#")
    _, columns = next(rows, ("", {}))
    for name in ("subject_id", "predicate_id", "object_id"):
        if name not in columns:
            raise PelError(f"{path}: no column {name}", "give an SSSOM table (TSV)")
    for where, row in rows:
        if row["predicate_id"] == "skos:exactMatch" and row.get("predicate_modifier") != "Not":
            yield _curie(row["subject_id"], where), _curie(row["object_id"], where)


def _curie(id: str, where: str) -> str:
    prefix, colon, local = id.strip().partition(":")
    if not prefix or not local:
        problem = f"{where}: {id!r} is not a CURIE such as UMLS:C0012634"
        raise PelError(problem, "correct the line")
    id = plain_id(f"{prefix}:{local}")
    return cleaned_at(where, Entity(id, id)).concept_id


TABLE = SourceFormat("table", read_table, ("*.csv", "*.tsv", "*.parquet"))
MEDIC = SourceFormat("medic", read_medic, ("*ctd_diseases.tsv",))
