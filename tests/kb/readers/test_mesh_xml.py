from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity
from spacy_pel.kb.readers import ReadOptions, detected_format, open_source
from spacy_pel.kb.readers.mesh_xml import read_mesh_xml
from spacy_pel.kb.records.semantic_types import SemanticType

HEAD = '<?xml version="1.0"?>\n<!DOCTYPE DescriptorRecordSet SYSTEM "https://nlm.nih.gov/x.dtd">\n'


def concept(names: list[str], note: str = "", preferred: str = "Y") -> str:
    terms = "".join(f"<Term><TermUI>T1</TermUI><String>{name}</String></Term>" for name in names)
    scope = f"<ScopeNote>{note}\n    </ScopeNote>" if note else ""
    return (
        f'<Concept PreferredConceptYN="{preferred}"><ConceptUI>M1</ConceptUI>{scope}'
        f"<TermList>{terms}</TermList></Concept>"
    )


def descriptor(id: str, name: str, numbers: list[str], *concepts: str) -> str:
    places = "".join(f"<TreeNumber>{number}</TreeNumber>" for number in numbers)
    return (
        f'<DescriptorRecord DescriptorClass="1"><DescriptorUI>{id}</DescriptorUI>'
        f"<DescriptorName><String>{name}</String></DescriptorName>"
        f"<SeeRelatedList><DescriptorReferredTo><DescriptorUI>D9</DescriptorUI>"
        f"</DescriptorReferredTo></SeeRelatedList><TreeNumberList>{places}</TreeNumberList>"
        f"<ConceptList>{''.join(concepts)}</ConceptList></DescriptorRecord>"
    )


DESCRIPTORS = (
    descriptor(
        "D2",
        "Flu &amp; cold",
        ["C01.5.2", "F03.1"],
        concept(["Cold"], "Not the note.", "N"),
        concept(["Flu &amp; cold", "Grippe"], "A virus."),
    )
    + descriptor("D1", "Infections", ["C01.5"], concept(["Infections"]))
    + descriptor("D3", "Female", [], concept(["Female"]))
)
SUPPLEMENT = (
    '<SupplementalRecord SCRClass="3"><SupplementalRecordUI>C7</SupplementalRecordUI>'
    "<SupplementalRecordName><String>Rare flu</String></SupplementalRecordName><Note>Rare.</Note>"
    "<HeadingMappedToList><HeadingMappedTo><DescriptorReferredTo><DescriptorUI>*D2</DescriptorUI>"
    "</DescriptorReferredTo></HeadingMappedTo></HeadingMappedToList>"
    f"<ConceptList>{concept(['Rare flu', 'Odd flu'])}</ConceptList></SupplementalRecord>"
)
DISEASES = ("Diseases", "Psychiatry and Psychology")
ENTITIES = [
    Entity(
        "D2", "Flu & cold", ("Cold", "Flu & cold", "Grippe"), DISEASES, "A virus.",
        parents=("D1",), sources=("MSH",),
    ),
    Entity("D1", "Infections", ("Infections",), ("Diseases",), sources=("MSH",)),
    Entity("D3", "Female", ("Female",), sources=("MSH",)),
]  # fmt: skip


def write(path: Path, body: str, root: str = "DescriptorRecordSet", head: str = HEAD) -> Path:
    data = f"{head}<{root}>{body}</{root}>".encode()
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("name", ["desc2024.xml", "desc2024.xml.gz"])
def test_reads_descriptors(tmp_path: Path, name: str) -> None:
    source = open_source(write(tmp_path / name, DESCRIPTORS))
    assert list(source.entities) == ENTITIES
    assert source.version == "2024"
    assert SemanticType("Diseases", "C", "C") in source.types


def test_reads_a_folder_with_supplementary_records(tmp_path: Path) -> None:
    write(tmp_path / "supp2024.xml", SUPPLEMENT, "SupplementalRecordSet")
    write(tmp_path / "desc2024.xml", DESCRIPTORS)
    rare = Entity(
        "C7", "Rare flu", ("Rare flu", "Odd flu"), DISEASES, "Rare.", parents=("D2",),
        sources=("MSH",),
    )  # fmt: skip
    assert list(open_source(tmp_path).entities) == [*ENTITIES, rare]
    [alone] = open_source(tmp_path / "supp2024.xml").entities
    assert alone == rare._replace(types=())


@pytest.mark.parametrize(
    "declared",
    [
        '<!ENTITY lol "lol"> <!ENTITY lol2 "&lol;&lol;">',
        '<!ENTITY secret SYSTEM "file:///etc/passwd">',
        '<!ENTITY % outer SYSTEM "https://example.org/x.dtd"> %outer;',
    ],
)
def test_entities_are_refused(tmp_path: Path, declared: str) -> None:
    head = f'<?xml version="1.0"?>\n<!DOCTYPE DescriptorRecordSet [\n{declared}]>\n'
    path = write(tmp_path / "desc.xml", DESCRIPTORS, head=head)
    with pytest.raises(PelError, match=r"desc\.xml, line 3: declares the entity"):
        list(read_mesh_xml(path, ReadOptions()).entities)


@pytest.mark.parametrize(
    "data, fault",
    [
        (b"", "bad XML"),
        (b"<a><b></a>", "bad XML"),
        (b"<a>" + b"\x00" + b"</a>", "bad XML"),
        (b"<a>\xff</a>", "bad XML"),
        (b'<?xml version="1.0" encoding="nonsense"?><a/>', "nonsense|unknown encoding"),
    ],
)
def test_bad_xml_is_named(tmp_path: Path, data: bytes, fault: str) -> None:
    (tmp_path / "desc.xml").write_bytes(data)
    with pytest.raises(PelError, match=rf"desc\.xml: .*({fault})"):
        list(read_mesh_xml(tmp_path / "desc.xml", ReadOptions()).entities)


def test_files_as_the_nlm_names_them(tmp_path: Path) -> None:
    for name, records in {"desc2026.gz": DESCRIPTORS, "supp2026.gz": SUPPLEMENT}.items():
        write(tmp_path / name, records)
    assert detected_format(tmp_path / "supp2026.gz") == "mesh-xml"
    source = open_source(tmp_path)
    assert (source.version, len(list(source.entities))) == ("2026", 4)
    (tmp_path / "notes2026.gz").write_bytes(gzip.compress(b"x"))
    with pytest.raises(PelError, match="cannot tell the format"):
        detected_format(tmp_path / "notes2026.gz")


@pytest.mark.parametrize("id, name", [("", "A name"), ("D9", "")])
def test_a_record_that_is_not_whole_is_named(tmp_path: Path, id: str, name: str) -> None:
    path = write(tmp_path / "desc.xml", DESCRIPTORS + descriptor(id, name, ["C02"]))
    with pytest.raises(PelError, match=rf"desc\.xml, record 4 .*{id or name}"):
        list(read_mesh_xml(path, ReadOptions()).entities)


def test_a_damaged_gzip_and_an_empty_folder_are_named(tmp_path: Path) -> None:
    (tmp_path / "desc.xml.gz").write_bytes(gzip.compress(DESCRIPTORS.encode())[:-12])
    with pytest.raises(PelError, match="damaged gzip"):
        list(read_mesh_xml(tmp_path / "desc.xml.gz", ReadOptions()).entities)
    (tmp_path / "empty").mkdir()
    with pytest.raises(PelError, match=r"holds no desc\*\.xml"):
        read_mesh_xml(tmp_path / "empty", ReadOptions())
