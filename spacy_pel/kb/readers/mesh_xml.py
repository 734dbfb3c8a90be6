"""MeSH XML: descriptors (desc*.xml) and supplementary concepts (supp*.xml), plain or gzipped.

The NLM names its gzipped files desc2026.gz and supp2026.gz.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO
from xml.etree import ElementTree
from xml.parsers import expat

from ...errors import PelError
from ...system.lines import LONGEST_LINE, opened_bytes
from ..records.cleaning import cleaned_at
from ..records.entity import Entity
from .distinct_ids import distinct
from .entity_source import ReadOptions, Source
from .mesh_tree import BRANCH_TYPES, VOCABULARY, MeshTree, mesh_year

_YEAR = "[12][0-9][0-9][0-9]"
_NAMES = tuple(
    f"{kind}{rest}" for kind in ("desc", "supp") for rest in ("*.xml", "*.xml.gz", f"{_YEAR}.gz")
)
_AS_PUBLISHED = re.compile(rf"(?:desc|supp){_YEAR}\.gz")
_RECORDS = {"DescriptorRecord": "Descriptor", "SupplementalRecord": "SupplementalRecord"}


def read_mesh_xml(path: Path, options: ReadOptions) -> Source:
    """The records of a MeSH XML file, or of the desc* and supp* files of a folder.

    All terms of a record's concepts are names. The definition is the scope note of the preferred
    concept; a supplementary record without one has its note. The types are the top branches of the
    tree numbers, and the parents are the descriptors one step above. The parents of a supplementary
    record are the descriptors that it is mapped to; it has their types if their file is read
    together with its own.

    Files are read twice, because descriptors refer to later ones. Only the tree stays in memory.

    Reading the entities raises PelError for XML that is not well-formed or declares entities, with
    file and line. A record without id or name, with the id of an earlier one, or with what
    ``cleaned`` refuses raises it too, with file and number: the parser tells no lines of records.
    """
    files = mesh_xml_files(path) if path.is_dir() else [path]
    if not files:
        raise PelError(
            f"{path}: holds no desc*.xml or supp*.xml", "give a folder with MeSH's XML files"
        )
    return Source(distinct(partial(_entities, files)), BRANCH_TYPES, mesh_year(files[0]))


def mesh_xml_files(folder: Path) -> list[Path]:
    """The descriptor files of a folder, then the supplementary ones."""
    return [path for name in _NAMES for path in sorted(folder.glob(name))]


def is_mesh_xml(path: Path) -> bool:
    """Whether a file has a name that says it is XML or, if it does not, the name of MeSH's files."""
    name = path.name.lower()
    return name.endswith((".xml", ".xml.gz")) or _AS_PUBLISHED.fullmatch(name) is not None


def _entities(files: list[Path]) -> Iterator[tuple[str, Entity]]:
    tree = MeshTree(
        (number, _text(record, "DescriptorUI"))
        for path in files
        for record in _records(path)
        for number in _texts(record, "TreeNumberList/TreeNumber")
    )
    for path in files:
        for position, record in enumerate(_records(path), start=1):
            entity = _entity(record, tree)
            place = f"{path}, record {position}"
            if not entity.concept_id or not entity.canonical_name:
                raise PelError(
                    f"{place} ({entity.concept_id or entity.canonical_name!r}): "
                    "has no id or no name",
                    "fetch the file again",
                )
            yield place, cleaned_at(place, entity)


def _entity(record: ElementTree.Element, tree: MeshTree) -> Entity:
    kind = _RECORDS[record.tag]
    id = _text(record, f"{kind}UI")
    headings = [
        heading.lstrip("*")
        for heading in _texts(
            record, "HeadingMappedToList/HeadingMappedTo/DescriptorReferredTo/DescriptorUI"
        )
    ]
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


def _records(path: Path) -> Iterator[ElementTree.Element]:
    """The records of a file, one in memory at a time."""
    with xml_file(path) as file:
        _refuse_entities(file, path)
    with xml_file(path) as file:
        counted = _Counted(file, path)
        events = ElementTree.iterparse(counted, events=("start", "end"))
        _, root = next(events)
        for event, element in events:
            if event == "end" and element.tag in _RECORDS:
                yield element
                root.clear()
                counted.size = 0


class _Counted:
    """A file that counts what is read, so that no record fills the memory.

    Attributes:
        size: The bytes that were read since the last record.
    """

    def __init__(self, file: IO[bytes], path: Path) -> None:
        self.size = 0
        self._file, self._path = file, path

    def read(self, size: int) -> bytes:
        """The next bytes; PelError if there is no end of a record in too many of them."""
        data = self._file.read(size)
        self.size += len(data)
        if self.size > LONGEST_LINE:
            raise PelError(
                f"{self._path}: no end of a record in {LONGEST_LINE:,} bytes",
                "give a desc*.xml or supp*.xml of MeSH",
            )
        return data


def _refuse_entities(file: IO[bytes], path: Path) -> None:
    """Raises PelError if the file declares XML entities, which can grow or read other files.

    Declarations can only stand before the first element. (defusedxml refuses them too, but its
    parser in Python takes four times as long.)
    """
    parser = expat.ParserCreate()
    started = False

    def refuse(name: str, *_: object) -> None:
        raise PelError(
            f"{path}, line {parser.CurrentLineNumber}: declares the entity {name!r}, which MeSH "
            "does not need",
            "fetch the file from the NLM",
        )

    def start(*_: object) -> None:
        nonlocal started
        started = True

    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = start
    while not started and (block := file.read(1 << 12)):
        parser.Parse(block)


@contextmanager
def xml_file(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of an XML file; PelError if what reads them meets bad XML."""
    try:
        with opened_bytes(path) as file:
            yield file
    except (ElementTree.ParseError, expat.ExpatError) as error:
        raise PelError(f"{path}: bad XML ({error})", "fetch it again") from error
    except (LookupError, ValueError) as error:
        if isinstance(error, PelError):
            raise
        raise PelError(f"{path}: cannot be decoded ({error})", "save it as UTF-8") from error
