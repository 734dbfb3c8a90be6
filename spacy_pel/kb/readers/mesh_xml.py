"""MeSH XML: descriptors (desc*.xml) and supplementary concepts (supp*.xml), plain or gzipped.

The NLM names its gzipped files desc2026.gz and supp2026.gz.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

from ...errors import PelError
from ..records.cleaning import cleaned_at
from ..records.entity import Entity
from .entity_source import (
    ReadOptions,
    Source,
    SourceFormat,
    distinct,
    file_elements,
    or_gzipped,
)
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
    return (element for element in file_elements(path) if element.tag in _RECORDS)


FORMAT = SourceFormat(
    "mesh-xml",
    read_mesh_xml,
    (*or_gzipped(".xml"), ".gz"),
    is_mesh_xml,
    is_folder=mesh_xml_files,
    folder="desc*.xml",
)
