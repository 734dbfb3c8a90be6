"""MeSH: descriptors and supplementary concepts, in XML (desc*, supp*) and in ASCII (d20xx, c20xx).

Files are plain or gzipped; the NLM names its gzipped XML desc2026.gz and supp2026.gz. They are read
twice, because descriptors refer to later ones. Only the tree, and the headings of ASCII, stay in
memory.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from xml.etree import ElementTree

from ...errors import PelError
from ...system.lines import LONGEST_LINE, numbered_lines, record_too_long
from ..records.cleaning import cleaned_at
from ..records.entity import Entity
from ..records.semantic_types import SemanticType
from .entity_source import (
    ReadOptions,
    Source,
    SourceFormat,
    distinct,
    file_elements,
    or_gzipped,
)

BRANCHES = {
    "A": "Anatomy",
    "B": "Organisms",
    "C": "Diseases",
    "D": "Chemicals and Drugs",
    "E": "Analytical, Diagnostic and Therapeutic Techniques, and Equipment",
    "F": "Psychiatry and Psychology",
    "G": "Phenomena and Processes",
    "H": "Disciplines and Occupations",
    "I": "Anthropology, Education, Sociology, and Social Phenomena",
    "J": "Technology, Industry, and Agriculture",
    "K": "Humanities",
    "L": "Information Science",
    "M": "Named Groups",
    "N": "Health Care",
    "V": "Publication Characteristics",
    "Z": "Geographicals",
}
_BRANCH_TYPES = tuple(SemanticType(name, code, code) for code, name in BRANCHES.items())
VOCABULARY = "MSH"  # as UMLS names it


class _Tree:
    """Gives the types and parents of descriptors by pairs of a tree number and the id there."""

    def __init__(self, places: Iterable[tuple[str, str]]) -> None:
        self._descriptors = dict(places)
        self._branches: dict[str, set[str]] = {}
        for number, descriptor in self._descriptors.items():
            self._branches.setdefault(descriptor, set()).add(number[:1])

    def types(self, descriptors: Iterable[str]) -> tuple[str, ...]:
        """The names of the branches that hold the descriptors, sorted by the branches' letters."""
        letters = {branch for id in descriptors for branch in self._branches.get(id, ())}
        return tuple(BRANCHES[letter] for letter in sorted(letters & BRANCHES.keys()))

    def parents(self, numbers: Iterable[str]) -> tuple[str, ...]:
        """The descriptors one step above the tree numbers, for example "C01" above "C01.2"."""
        above = (self._descriptors.get(number.rpartition(".")[0]) for number in numbers)
        return tuple(dict.fromkeys(filter(None, above)))


def _year(path: Path) -> str | None:
    """The year in the name of a file ("desc2024.xml")."""
    year = re.search(r"(?:19|20)\d\d", path.name)
    return year[0] if year else None


# XML

_YEAR = "[12][0-9][0-9][0-9]"
_XML_NAMES = [
    f"{kind}{end}" for kind in ("desc", "supp") for end in ("*.xml", "*.xml.gz", f"{_YEAR}.gz")
]
_AS_PUBLISHED = re.compile(rf"(?:desc|supp){_YEAR}\.gz")
_RECORDS = {"DescriptorRecord": "Descriptor", "SupplementalRecord": "SupplementalRecord"}


def read_mesh_xml(path: Path, options: ReadOptions) -> Source:
    """The records of a MeSH XML file, or of the desc* and supp* files of a folder.

    All terms of a record's concepts are names. The definition is the scope note of the preferred
    concept; a supplementary record without one has its note. The types are the top branches of the
    tree numbers, and the parents are the descriptors one step above. The parents of a supplementary
    record are the descriptors that it is mapped to; it has their types if their file is read
    together with its own. Errors give the number of a record: the parser tells no lines of records.
    """
    files = _xml_files(path) if path.is_dir() else [path]
    if not files:
        raise PelError(
            f"{path}: holds no desc*.xml or supp*.xml", "give a folder with MeSH's XML files"
        )
    return Source(distinct(_xml_entities(files)), _BRANCH_TYPES, _year(files[0]))


def _xml_files(folder: Path) -> list[Path]:
    """The descriptor files of a folder, then the supplementary ones."""
    return [path for name in _XML_NAMES for path in sorted(folder.glob(name))]


def _is_mesh_xml(path: Path) -> bool:
    name = path.name.lower()
    return name.endswith((".xml", ".xml.gz")) or _AS_PUBLISHED.fullmatch(name) is not None


def _xml_entities(files: list[Path]) -> Iterator[tuple[str, Entity]]:
    tree = _Tree(
        (number, _text(record, "DescriptorUI"))
        for path in files
        for record in _xml_records(path)
        for number in _texts(record, "TreeNumberList/TreeNumber")
    )
    for path in files:
        for position, record in enumerate(_xml_records(path), start=1):
            entity = _xml_entity(record, tree)
            place = f"{path}, record {position}"
            if not entity.concept_id or not entity.canonical_name:
                raise PelError(
                    f"{place} ({entity.concept_id or entity.canonical_name!r}): "
                    "has no id or no name",
                    "fetch the file again",
                )
            yield place, cleaned_at(place, entity)


def _xml_records(path: Path) -> Iterator[ElementTree.Element]:
    return (element for element in file_elements(path) if element.tag in _RECORDS)


def _xml_entity(record: ElementTree.Element, tree: _Tree) -> Entity:
    kind = _RECORDS[record.tag]
    id = _text(record, f"{kind}UI")
    mapped = "HeadingMappedToList/HeadingMappedTo/DescriptorReferredTo/DescriptorUI"
    headings = [heading.lstrip("*") for heading in _texts(record, mapped)]
    preferred = "ConceptList/Concept[@PreferredConceptYN='Y']/ScopeNote"
    return Entity(
        concept_id=id,
        canonical_name=_text(record, f"{kind}Name/String"),
        aliases=tuple(_texts(record, "ConceptList/Concept/TermList/Term/String")),
        types=tree.types([id, *headings]),
        definition=_text(record, preferred) or _text(record, "Note") or None,
        parents=(*tree.parents(_texts(record, "TreeNumberList/TreeNumber")), *headings),
        sources=(VOCABULARY,),
    )


def _text(record: ElementTree.Element, path: str) -> str:
    return next(iter(_texts(record, path)), "")


def _texts(record: ElementTree.Element, path: str) -> list[str]:
    return [text for element in record.iterfind(path) if (text := (element.text or "").strip())]


# ASCII

_ASCII_NAMES = re.compile(r"(?:.*_)?[cd]\d{4}\.bin(?:\.gz)?")
# Elements whose values are a name, a bar and facts about the name.
_TERMS = ("ENTRY", "PRINT ENTRY", "SY")

Record = defaultdict[str, list[str]]  # the values of each element


def read_mesh_ascii(path: Path, options: ReadOptions) -> Source:
    """The records of a MeSH ASCII file, or of the d* and c* files of a folder.

    The canonical name is MH or NM; the aliases are ENTRY, PRINT ENTRY and SY. The definition is MS
    or NO. Tree numbers come from MN and from an mtrees file of the same year beside the file; types
    and parents follow from them as in XML. The parents of a supplementary record (NM) are the
    descriptors that it is mapped to (HM).
    """
    files = _ascii_files(path) if path.is_dir() else [path]
    if not files:
        raise PelError(
            f"{path}: holds no d20xx.bin or c20xx.bin", "give a folder with MeSH's ASCII files"
        )
    return Source(distinct(_ascii_entities(files)), _BRANCH_TYPES, _year(files[0]))


def _ascii_files(folder: Path) -> list[Path]:
    """The descriptor files of a folder, then the supplementary ones."""
    files = [path for path in folder.iterdir() if _ASCII_NAMES.fullmatch(path.name)]
    return sorted(files, key=lambda path: (path.name.rpartition("_")[2][0] != "d", path.name))


def _ascii_entities(files: list[Path]) -> Iterator[tuple[str, Entity]]:
    descriptors: dict[str, str] = {}  # by heading
    numbers: dict[str, list[str]] = {}  # by descriptor
    for path in files:
        for _, record in _ascii_records(path):
            if record["MH"]:
                descriptors[record["MH"][0]] = record["UI"][0]
                numbers[record["UI"][0]] = record["MN"]
    for path in files:
        for number, heading in _mtrees(path):
            if heading in descriptors:
                numbers[descriptors[heading]].append(number)
    tree = _Tree((number, id) for id in numbers for number in numbers[id])
    for path in files:
        for place, record in _ascii_records(path):
            id = record["UI"][0]
            headings = (heading.lstrip("*").partition("/")[0] for heading in record["HM"])
            mapped = [descriptors[heading] for heading in headings if heading in descriptors]
            terms = (value for element in _TERMS for value in record[element])
            entity = Entity(
                concept_id=id,
                canonical_name=(record["MH"] or record["NM"])[0],
                aliases=tuple(term.partition("|")[0] for term in terms),
                types=tree.types([id, *mapped]),
                definition=next(iter(record["MS"] + record["NO"]), None),
                parents=tuple(dict.fromkeys((*tree.parents(numbers.get(id, ())), *mapped))),
                sources=(VOCABULARY,),
            )
            yield place, cleaned_at(place, entity)


def _ascii_records(path: Path) -> Iterator[tuple[str, Record]]:
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
    year = _year(path)
    for file in sorted(path.parent.glob(f"*mtrees{year}.bin*")) if year else ():
        for number, line in numbered_lines(file):
            heading, semicolon, place = line.rpartition(";")
            if not semicolon:
                raise PelError(
                    f"{file}, line {number}: is not of the form HEADING;TREE NUMBER",
                    "fetch the file again",
                )
            yield place.strip(), heading.strip()


MESH_XML = SourceFormat(
    "mesh-xml",
    read_mesh_xml,
    (*or_gzipped(".xml"), ".gz"),
    _is_mesh_xml,
    is_folder=_xml_files,
    folder="desc*.xml",
)
MESH_ASCII = SourceFormat(
    "mesh-ascii",
    read_mesh_ascii,
    or_gzipped(".bin"),
    is_folder=_ascii_files,
    folder="d20xx.bin",
)
