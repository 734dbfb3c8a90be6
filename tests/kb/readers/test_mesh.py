from collections.abc import Iterable
from pathlib import Path

import pytest

from spacy_pel.kb import Entity
from spacy_pel.kb.readers import detected_format, open_source
from spacy_pel.kb.records.semantic_types import SemanticType

from ...conftest import write_text

HEAD = '<?xml version="1.0"?>\n<!DOCTYPE DescriptorRecordSet SYSTEM "https://nlm.nih.gov/x.dtd">\n'


def elements(tag: str, texts: Iterable[str]) -> str:
    return "".join(f"<{tag}>{text}</{tag}>" for text in texts)


def concept(names: list[str], note: str = "", preferred: str = "Y") -> str:
    terms = elements("Term", (f"<TermUI>T1</TermUI><String>{name}</String>" for name in names))
    scope = f"<ScopeNote>{note}\n    </ScopeNote>" if note else ""
    return (
        f'<Concept PreferredConceptYN="{preferred}"><ConceptUI>M1</ConceptUI>{scope}'
        f"<TermList>{terms}</TermList></Concept>"
    )


def descriptor(id: str, name: str, numbers: list[str], *concepts: str) -> str:
    places = elements("TreeNumber", numbers)
    return (
        f'<DescriptorRecord DescriptorClass="1"><DescriptorUI>{id}</DescriptorUI>'
        f"<DescriptorName><String>{name}</String></DescriptorName>"
        f"<SeeRelatedList><DescriptorReferredTo><DescriptorUI>D9</DescriptorUI>"
        f"</DescriptorReferredTo></SeeRelatedList><TreeNumberList>{places}</TreeNumberList>"
        f"<ConceptList>{''.join(concepts)}</ConceptList></DescriptorRecord>"
    )


DESCRIPTORS = (
    descriptor(
        *("D2", "Flu &amp; cold", ["C01.5.2", "F03.1"], concept(["Cold"], "Not the note.", "N")),
        concept(["Flu &amp; cold", "Grippe"], "A virus."),
    )
    + descriptor("D1", "Infections", ["C01.5"], concept(["Infections"]))
    + descriptor("D3", "Mania", ["F03.2"], concept(["Mania"]))
    + descriptor("D4", "Lipase", ["D08.8"], concept(["Lipase"]))
)
SUPPLEMENT = (
    '<SupplementalRecord SCRClass="3"><SupplementalRecordUI>C7</SupplementalRecordUI>'
    "<SupplementalRecordName><String>Rare flu</String></SupplementalRecordName><Note>Rare.</Note>"
    "<HeadingMappedToList><HeadingMappedTo><DescriptorReferredTo><DescriptorUI>*D2</DescriptorUI>"
    "</DescriptorReferredTo></HeadingMappedTo></HeadingMappedToList>"
    f"<ConceptList>{concept(['Rare flu', 'Odd flu'])}</ConceptList></SupplementalRecord>"
)
TYPES = ("Diseases", "Psychiatry and Psychology")


def of_mesh(id: str, name: str, *aliases: str, **fields: object) -> Entity:
    return Entity(id, name, aliases, sources=("MSH",), **fields)


ENTITIES = [
    of_mesh(
        *("D2", "Flu & cold", "Cold", "Flu & cold", "Grippe"),
        **{"types": TYPES, "definition": "A virus.", "parents": ("D1",)},
    ),
    of_mesh("D1", "Infections", "Infections", types=("Diseases",)),
    of_mesh("D3", "Mania", "Mania", types=TYPES),  # mental disorders are diseases, too
    of_mesh("D4", "Lipase", "Lipase", types=("Chemicals and Drugs", "Enzymes and Coenzymes")),
]
RARE_FIELDS = {"types": TYPES, "definition": "Rare.", "parents": ("D2",)}


def write(path: Path, body: str, root: str = "DescriptorRecordSet", head: str = HEAD) -> Path:
    return write_text(path, f"{head}<{root}>{body}</{root}>")


@pytest.mark.parametrize("end", ["xml", "xml.gz", "gz"])  # the NLM's names end with gz
def test_reads_a_folder_of_xml(tmp_path: Path, end: str) -> None:
    write(tmp_path / f"supp2024.{end}", SUPPLEMENT, "SupplementalRecordSet")
    write(tmp_path / f"desc2024.{end}", DESCRIPTORS)
    source = open_source(tmp_path)
    rare = of_mesh("C7", "Rare flu", "Rare flu", "Odd flu", **RARE_FIELDS)
    assert list(source.entities) == [*ENTITIES, rare]
    assert source.version == "2024"
    assert SemanticType("Diseases", "C", "C") in source.types
    assert detected_format(tmp_path / f"supp2024.{end}") == "mesh-xml"
    [alone] = open_source(tmp_path / f"supp2024.{end}").entities
    assert alone == rare._replace(types=())


@pytest.mark.parametrize("listed", ["{}", "<RegistryNumberList>{}</RegistryNumberList>"])  # by year
def test_registry_numbers_are_cross_references(tmp_path: Path, listed: str) -> None:
    related = ("50-78-2 (Aspirin)", "493-53-8 (Na salt)", "69-72-7")
    own = listed.format(elements("RegistryNumber", ("R16CO5Y76E", "EC 1.1", "0")))
    related_numbers = elements("RelatedRegistryNumber", related)
    own += f"<RelatedRegistryNumberList>{related_numbers}</RelatedRegistryNumberList>"
    kind, other = (concept(["Aspirin"], preferred=preferred) for preferred in "YN")
    kind = kind.replace("<TermList>", f"{own}<TermList>")
    other = other.replace("<TermList>", "<RegistryNumber>1-11-1</RegistryNumber><TermList>")
    path = write(tmp_path / "desc.xml", descriptor("D5", "Aspirin", ["D02"], other, kind))
    [entity] = open_source(path).entities
    assert entity.xrefs == ("UNII:R16CO5Y76E", "CAS:50-78-2")
