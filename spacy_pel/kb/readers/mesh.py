"""MeSH in XML: descriptors (desc*) and supplementary concepts (supp*), plain or gzipped.

The readers read files twice, because descriptors refer to later descriptors.
"""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from xml.etree import ElementTree

from ...errors import PelError
from ...io.xml_elements import file_elements
from ..records.entity import Entity, cleaned_at
from ..records.semantic_types import SemanticType
from .entity_source import ReadOptions, Source, SourceFormat

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
# Parts of branches that are types of their own: corpora of chemicals and diseases leave them out.
PARTS = {
    "C23": "Pathological Conditions, Signs and Symptoms", "D08": "Enzymes and Coenzymes",
    "D12": "Amino Acids, Peptides, and Proteins", "D27": "Chemical Actions and Uses",
}  # fmt: skip
_TYPE_NAMES = BRANCHES | PARTS
_TYPES = tuple(SemanticType(name, code, code) for code, name in _TYPE_NAMES.items())
MENTAL_DISORDERS = "F03"
VOCABULARY = "MSH"  # as UMLS names it


def _read(path: Path, options: ReadOptions) -> Source:
    """Read the records of a file, or of the files of a folder, as entities.

    All terms of a record are names. The types are the top branches of the tree numbers, and the ``PARTS`` of
    branches. Mental disorders are also diseases, as in MEDIC. The parents are the descriptors one step above.
    The parents of a supplementary record are the descriptors that MeSH maps it to. If the same call reads
    their file, the record has their types. CAS and UNII numbers are cross-references.
    """
    files = _xml_files(path) if path.is_dir() else [path]
    if not files:
        problem = f"{path}: holds no desc*.xml or supp*.xml"
        raise PelError(problem, "give a folder with MeSH's files")
    year = re.search(r"(?:19|20)\d\d", files[0].name)
    return Source(_entities(files), _TYPES, year[0] if year else None)


def _entities(files: list[Path]) -> Iterator[Entity]:
    """Yield the entities of files.

    The definition is the scope note of the preferred concept. Without one, it is the note of the record.
    """
    tree_numbers: dict[str, list[str]] = {}  # by descriptor
    for _, record in chain.from_iterable(map(_records, files)):
        for id in _texts(record, "DescriptorUI"):
            tree_numbers[id] = _texts(record, "TreeNumberList/TreeNumber")
    descriptors = {number: id for id, numbers in tree_numbers.items() for number in numbers}
    for place, record in chain.from_iterable(map(_records, files)):
        kind = _KINDS[record.tag]
        id, name = ("".join(_texts(record, f"{kind}{end}")) for end in ("UI", "Name/String"))
        if not id or not name:
            problem = f"{place}: the record {id or name!r} has no id or no name"
            raise PelError(problem, "give whole files of descriptors or supplementary concepts")
        mapped = [descriptor.lstrip("*") for descriptor in _texts(record, _MAPPED)]
        tree = [n for descriptor in (id, *mapped) for n in tree_numbers.get(descriptor, ())]
        if any(number.startswith(MENTAL_DISORDERS) for number in tree):
            tree.append("C")
        above = (descriptors.get(n.rpartition(".")[0]) for n in tree_numbers.get(id, ()))
        entity = Entity(
            concept_id=id,
            canonical_name=name,
            aliases=tuple(_texts(record, "ConceptList/Concept/TermList/Term/String")),
            types=tuple(
                name
                for code, name in _TYPE_NAMES.items()
                if any(number.startswith(code) for number in tree)
            ),
            definition=next(iter(_texts(record, _SCOPE_NOTE) + _texts(record, "Note")), None),
            parents=(*filter(None, above), *mapped),
            xrefs=tuple(_codes(record, name)),
            sources=(VOCABULARY,),
        )
        yield cleaned_at(place, entity)


def _codes(record: ElementTree.Element, name: str) -> Iterator[str]:
    """Yield the CAS and UNII numbers of the preferred concept.

    Related numbers belong to other forms, such as salts, unless the name after them is the record's.
    """
    numbers = _texts(record, f"{_PREFERRED}//RegistryNumber")
    for text in _texts(record, f"{_PREFERRED}//RelatedRegistryNumber"):
        number, _, form = text.partition(" ")
        if form.strip("()").lower() == name.lower():
            numbers.append(number)
    for number in dict.fromkeys(numbers):
        if vocabulary := next((v for v, pattern in _NUMBERS.items() if pattern(number)), None):
            yield f"{vocabulary}:{number}"


_XML_NAMES = [
    f"{kind}{end}" for kind in ("desc", "supp") for end in ("*.xml", "*.xml.gz", "????.gz")
]
_MAPPED = "HeadingMappedToList/HeadingMappedTo/DescriptorReferredTo/DescriptorUI"
_PREFERRED = "ConceptList/Concept[@PreferredConceptYN='Y']"
_SCOPE_NOTE = f"{_PREFERRED}/ScopeNote"
_NUMBERS = {
    "CAS": re.compile(r"\d{2,7}-\d\d-\d").fullmatch,
    "UNII": re.compile(r"[A-Z\d]{10}").fullmatch,
}
_KINDS = {"DescriptorRecord": "Descriptor", "SupplementalRecord": "SupplementalRecord"}


def _xml_files(folder: Path) -> list[Path]:
    return [path for name in _XML_NAMES for path in sorted(folder.glob(name))]


def _records(path: Path) -> Iterator[tuple[str, ElementTree.Element]]:
    elements = (element for element in file_elements(path) if element.tag in _KINDS)
    for position, element in enumerate(elements, start=1):
        yield f"{path}, record {position}", element


def _texts(record: ElementTree.Element, path: str) -> list[str]:
    return [text for element in record.iterfind(path) if (text := (element.text or "").strip())]


MESH_XML = SourceFormat(
    "mesh-xml", _read, ("*.xml", "desc????", "supp????"), is_folder=_xml_files, folder="desc*.xml"
)
