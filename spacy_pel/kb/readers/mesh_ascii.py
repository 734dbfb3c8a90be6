"""MeSH ASCII: descriptors (d20xx.bin) and supplementary concepts (c20xx.bin), plain or gzipped."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ...errors import PelError
from ...system.lines import LONGEST_LINE, numbered_lines, record_too_long
from ..records.cleaning import cleaned_at
from ..records.entity import Entity
from .entity_source import ReadOptions, Source, SourceFormat, distinct, or_gzipped
from .mesh_tree import BRANCH_TYPES, VOCABULARY, MeshTree, mesh_year

_FILES = re.compile(r"(?:.*_)?[cd]\d{4}\.bin(?:\.gz)?")
# Elements whose values are a name, a bar and facts about the name.
_TERMS = ("ENTRY", "PRINT ENTRY", "SY")

Record = defaultdict[str, list[str]]  # the values of each element


def read_mesh_ascii(path: Path, options: ReadOptions) -> Source:
    """The records of a MeSH ASCII file, or of the d* and c* files of a folder.

    The canonical name is MH or NM; the aliases are ENTRY, PRINT ENTRY and SY. The definition is MS
    or NO. Tree numbers come from MN and from an mtrees file of the same year beside the file. The
    types are the top branches of the tree numbers, and the parents are the descriptors one step
    above. The parents of a supplementary record (NM) are the descriptors that it is mapped to (HM);
    it has their types if their file is read together with its own.

    Files are read twice, because descriptors refer to later ones. Only the tree and the headings
    stay in memory.

    Reading the entities raises PelError, with file and line, for a line that is not an element, a
    record without id or name, an id of an earlier record, and what ``cleaned`` refuses.
    """
    files = mesh_ascii_files(path) if path.is_dir() else [path]
    if not files:
        raise PelError(
            f"{path}: holds no d20xx.bin or c20xx.bin", "give a folder with MeSH's ASCII files"
        )
    return Source(distinct(partial(_entities, files)), BRANCH_TYPES, mesh_year(files[0]))


def mesh_ascii_files(folder: Path) -> list[Path]:
    """The descriptor files of a folder, then the supplementary ones."""
    files = [path for path in folder.iterdir() if _FILES.fullmatch(path.name)]
    return sorted(files, key=lambda path: (path.name.rpartition("_")[2][0] != "d", path.name))


def _entities(files: list[Path]) -> Iterator[tuple[str, Entity]]:
    descriptors: dict[str, str] = {}  # by heading
    numbers: dict[str, list[str]] = {}  # by descriptor
    for path in files:
        for _, record in _records(path):
            if record["MH"]:
                descriptors[record["MH"][0]] = record["UI"][0]
                numbers[record["UI"][0]] = record["MN"]
    for path in files:
        for number, heading in _mtrees(path):
            if heading in descriptors:
                numbers[descriptors[heading]].append(number)
    tree = MeshTree((number, id) for id in numbers for number in numbers[id])
    for path in files:
        for place, record in _records(path):
            yield place, cleaned_at(place, _entity(record, tree, descriptors, numbers))


def _entity(
    record: Record, tree: MeshTree, descriptors: dict[str, str], numbers: dict[str, list[str]]
) -> Entity:
    name, id = (record["MH"] or record["NM"])[0], record["UI"][0]
    headings = (heading.lstrip("*").partition("/")[0] for heading in record["HM"])
    mapped = [descriptors[heading] for heading in headings if heading in descriptors]
    return Entity(
        concept_id=id,
        canonical_name=name,
        aliases=tuple(value.partition("|")[0] for term in _TERMS for value in record[term]),
        types=tree.types([id, *mapped]),
        definition=next(iter(record["MS"] + record["NO"]), None),
        parents=tuple(dict.fromkeys((*tree.parents(numbers.get(id, ())), *mapped))),
        sources=(VOCABULARY,),
    )


def _records(path: Path) -> Iterator[tuple[str, Record]]:
    """The records of a file and their places, each checked to have an id and a name."""
    record: Record | None = None
    place, size = "", 0
    for number, line in numbered_lines(path):
        size += len(line)
        if size > LONGEST_LINE:
            raise record_too_long(path, number)
        if line.strip() == "*NEWRECORD":
            if record is not None:
                yield place, _whole(record, place)
            record, place, size = defaultdict(list), f"{path}, line {number}", 0
        elif line.strip():
            element, equals, value = line.partition(" =")
            if record is None or not equals:
                raise PelError(
                    f"{path}, line {number}: expected *NEWRECORD or ELEMENT = VALUE, found "
                    f"{line[:40]!r}",
                    "give a MeSH ASCII file",
                )
            if value.strip():
                record[element.strip()].append(value.strip())
    if record is not None:
        yield place, _whole(record, place)


def _whole(record: Record, place: str) -> Record:
    if not record["UI"] or not (record["MH"] or record["NM"]):
        raise PelError(
            f"{place}: a record without UI, or without MH or NM",
            "give the descriptors (d20xx.bin) or the supplementary concepts (c20xx.bin)",
        )
    return record


def _mtrees(path: Path) -> Iterator[tuple[str, str]]:
    """Pairs (tree number, heading) of the mtrees files of the same year in the same folder."""
    year = mesh_year(path)
    for file in sorted(path.parent.glob(f"*mtrees{year}.bin*")) if year else ():
        for number, line in numbered_lines(file):
            heading, semicolon, place = line.rpartition(";")
            if not semicolon:
                raise PelError(
                    f"{file}, line {number}: is not of the form HEADING;TREE NUMBER",
                    "fetch the file again",
                )
            yield place.strip(), heading.strip()


FORMAT = SourceFormat(
    "mesh-ascii",
    read_mesh_ascii,
    or_gzipped(".bin"),
    is_folder=mesh_ascii_files,
    folder="d20xx.bin",
)
