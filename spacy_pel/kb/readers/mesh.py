"""MeSH: descriptors and supplementary concepts, in XML (desc*, supp*) and in ASCII (d20xx, c20xx).

Files, plain or gzipped, are read twice, because descriptors refer to later ones.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from ...errors import PelError
from ...system.lines import LONGEST_LINE, numbered_lines, record_too_long
from ..records.entity import Entity, cleaned_at
from ..records.semantic_types import SemanticType
from .entity_source import ReadOptions, Source, SourceFormat, file_elements

BRANCHES = {
    "A": "Anatomy", "B": "Organisms", "C": "Diseases", "D": "Chemicals and Drugs",
    "E": "Analytical, Diagnostic and Therapeutic Techniques, and Equipment",
    "F": "Psychiatry and Psychology", "G": "Phenomena and Processes",
    "H": "Disciplines and Occupations",
    "I": "Anthropology, Education, Sociology, and Social Phenomena",
    "J": "Technology, Industry, and Agriculture", "K": "Humanities", "L": "Information Science",
    "M": "Named Groups", "N": "Health Care", "V": "Publication Characteristics",
    "Z": "Geographicals",
}  # fmt: skip
_BRANCH_TYPES = tuple(SemanticType(name, code, code) for code, name in BRANCHES.items())
VOCABULARY = "MSH"  # as UMLS names it
_ID = re.compile(r"[CD]\d+")


class Record(NamedTuple):
    """A record as its file has it."""

    id: str
    name: str
    names: list[str]
    numbers: list[str]  # in the tree
    mapped: list[str]  # ids or headings of the descriptors that a supplementary record is mapped to
    definition: str | None


Records = Callable[[Path], Iterator[tuple[str, Record]]]  # of a file, with their places


def _read(
    path: Path,
    options: ReadOptions,
    records: Records,
    files_in: Callable[[Path], list[Path]],
    lacking: str,
) -> Source:
    """The records of a file, or of the files of a folder, as entities.

    All terms of a record are names. The types are the top branches of the tree numbers, and the
    parents are the descriptors one step above. A supplementary record has the descriptors that it is
    mapped to as parents, and their types if their file is read together with its own.
    """
    files = files_in(path) if path.is_dir() else [path]
    if not files:
        raise PelError(f"{path}: holds no {lacking}", "give a folder with MeSH's files")
    year = re.search(r"(?:19|20)\d\d", files[0].name)
    return Source(_entities(files, records), _BRANCH_TYPES, year[0] if year else None)


def _entities(files: list[Path], records: Records) -> Iterator[Entity]:
    ids: dict[str, str] = {}  # of descriptors, by heading
    numbers: dict[str, list[str]] = {}  # by descriptor
    for place, record in chain.from_iterable(map(records, files)):
        if not record.id or not record.name:
            problem = f"{place}: the record {record.id or record.name!r} has no id or no name"
            raise PelError(problem, "give whole files of descriptors or supplementary concepts")
        if record.id.startswith("D"):
            ids[record.name] = record.id
            numbers[record.id] = record.numbers
    descriptors = {number: id for id, own in numbers.items() for number in own}
    for place, record in chain.from_iterable(map(records, files)):
        headings = (heading.lstrip("*").partition("/")[0] for heading in record.mapped)
        mapped = [ids.get(h, h) for h in headings if h in ids or _ID.fullmatch(h)]
        own = numbers.get(record.id, ())
        letters = {number[0] for id in (record.id, *mapped) for number in numbers.get(id, ())}
        above = (descriptors.get(number.rpartition(".")[0]) for number in own)
        entity = Entity(
            concept_id=record.id,
            canonical_name=record.name,
            aliases=tuple(record.names),
            types=tuple(BRANCHES[letter] for letter in sorted(letters & BRANCHES.keys())),
            definition=record.definition,
            parents=(*filter(None, above), *mapped),
            sources=(VOCABULARY,),
        )
        yield cleaned_at(place, entity)


# XML

_XML_NAMES = [
    f"{kind}{end}" for kind in ("desc", "supp") for end in ("*.xml", "*.xml.gz", "????.gz")
]
_RECORDS = {"DescriptorRecord": "Descriptor", "SupplementalRecord": "SupplementalRecord"}


def _xml_files(folder: Path) -> list[Path]:
    return [path for name in _XML_NAMES for path in sorted(folder.glob(name))]


def _xml_records(path: Path) -> Iterator[tuple[str, Record]]:
    """The definition is the scope note of the preferred concept, or else the note of the record."""
    elements = (element for element in file_elements(path) if element.tag in _RECORDS)
    mapped = "HeadingMappedToList/HeadingMappedTo/DescriptorReferredTo/DescriptorUI"
    scope_note = "ConceptList/Concept[@PreferredConceptYN='Y']/ScopeNote"
    for position, element in enumerate(elements, start=1):
        kind = _RECORDS[element.tag]
        notes = [*_texts(element, scope_note), *_texts(element, "Note"), None]
        yield (
            f"{path}, record {position}",
            Record(
                id="".join(_texts(element, f"{kind}UI")),
                name="".join(_texts(element, f"{kind}Name/String")),
                names=_texts(element, "ConceptList/Concept/TermList/Term/String"),
                numbers=_texts(element, "TreeNumberList/TreeNumber"),
                mapped=_texts(element, mapped),
                definition=notes[0],
            ),
        )


def _texts(record: ElementTree.Element, path: str) -> list[str]:
    return [text for element in record.iterfind(path) if (text := (element.text or "").strip())]


# ASCII

_BEGIN = "*NEWRECORD"
_ASCII_NAMES = re.compile(r"(?:.*_)?[cd]\d{4}\.bin(?:\.gz)?")


def _ascii_files(folder: Path) -> list[Path]:
    files = [path for path in folder.iterdir() if _ASCII_NAMES.fullmatch(path.name)]
    return sorted(files, key=lambda path: (path.name.rpartition("_")[2][0] != "d", path.name))


def _ascii_records(path: Path) -> Iterator[tuple[str, Record]]:
    values: defaultdict[str, list[str]] = defaultdict(list)  # by element
    place, size = "", 0
    for number, line in chain(numbered_lines(path), [(0, _BEGIN)]):
        size += len(line)
        if size > LONGEST_LINE:
            raise record_too_long(path, number)
        if line.strip() == _BEGIN:
            terms = values["ENTRY"] + values["PRINT ENTRY"] + values["SY"]
            record = Record(
                id="".join(values["UI"][:1]),
                name="".join((values["MH"] + values["NM"])[:1]),
                names=[term.partition("|")[0] for term in terms],
                numbers=values["MN"],
                mapped=values["HM"],
                definition=next(iter(values["MS"] + values["NO"]), None),
            )
            if place:
                yield place, record
            values, place, size = defaultdict(list), f"{path}, line {number}", 0
        elif line.strip():
            element, equals, value = line.partition(" =")
            if not place or not equals:
                expected = f"expected {_BEGIN} or ELEMENT = VALUE, found {line[:40]!r}"
                raise PelError(f"{path}, line {number}: {expected}", "give a MeSH ASCII file")
            if value.strip():
                values[element.strip()].append(value.strip())


MESH_XML = SourceFormat(
    "mesh-xml",
    partial(_read, records=_xml_records, files_in=_xml_files, lacking="desc*.xml or supp*.xml"),
    ("*.xml", "desc????", "supp????"),
    is_folder=_xml_files,
    folder="desc*.xml",
)
MESH_ASCII = SourceFormat(
    "mesh-ascii",
    partial(_read, records=_ascii_records, files_in=_ascii_files, lacking="d20xx.bin or c20xx.bin"),
    ("*.bin",),
    is_folder=_ascii_files,
    folder="d20xx.bin",
)
