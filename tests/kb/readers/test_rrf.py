import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_pel.errors import PelError
from spacy_pel.io import duckdb_session
from spacy_pel.kb import Entity
from spacy_pel.kb.readers import ReadOptions, UmlsRecipe, detected_format, open_source
from spacy_pel.kb.readers.release_files import MAX_ROW_BYTES, among, opened_release
from spacy_pel.kb.readers.rrf import COLUMNS
from spacy_pel.kb.records.semantic_types import SemanticType

from ...conftest import write_text


def conso(
    cui: str, name: str, *, lat="ENG", suppress="N", preferred=False, sab="MSH", tty="MH", code="D1"
) -> str:
    flags = "P|L1|PF|S1|Y" if preferred else "S|L1|VO|S1|N"
    return f"{cui}|{lat}|{flags}|A1||S9||{sab}|{tty}|{code}|{name}|0|{suppress}|256|"


def sty(cui: str, name: str, tui: str = "T047", number: str = "B2.2.1.2.1") -> str:
    return f"{cui}|{tui}|{number}|{name}|AT1|256|"


def definition(cui: str, source: str, text: str, suppress: str = "N") -> str:
    return f"{cui}|A1|AT1||{source}|{text}|{suppress}|256|"


def relation(cui: str, rel: str, other: str, *, sab: str = "MSH", suppress: str = "N") -> str:
    return f"{cui}|A1|AUI|{rel}|{other}|A2|AUI||R1||{sab}|{sab}|||{suppress}||"


def vocabulary(sab: str, lat: str) -> str:
    return f"C1|C2|{sab}1|{sab}|Name|{sab}|1|||||||0|1|1||||{lat}|UTF-8|Y|Y|||"


def write(folder: Path, name: str, lines: list[str]) -> None:
    """A file of a release, packed if its name says so."""
    write_text(folder / name, "".join(f"{line}\n" for line in lines))


def read(folder: Path, recipe: UmlsRecipe = UmlsRecipe(), **choices) -> list[Entity]:
    options = ReadOptions(umls=recipe._replace(**choices))
    return list(open_source(folder, options=options).entities)


@pytest.mark.parametrize("end", ["", ".gz"])
def test_names_types_and_definitions(tmp_path: Path, end: str) -> None:
    names = [conso("C2", "Rash"), conso("C1", "MS"), conso("C3", "Sclérose", lat="FRE")]
    names += [conso("C1", "Sclerosis, multiple", preferred=True, sab="MTH", code="NOCODE")]
    definitions = [
        definition("C1", "CSP", "From another source."),
        definition("C1", "NCI", "Suppressed.", suppress="O"),
        definition("C1", "MSH", "From a preferred source."),
        definition("C1", "NCI", "From a later preferred source."),
        definition("C2", "CSP", "First."),
        definition("C2", "CSP", "Second."),
    ]
    write(tmp_path, f"MRCONSO.RRF{end}", names)
    write(tmp_path, f"MRSTY.RRF{end}", [sty("C1", "Finding"), sty("C1", "Disease or Syndrome")])
    write(tmp_path, f"MRDEF.RRF{end}", definitions)
    ms, rash = read(tmp_path)
    assert ms.names == ("Sclerosis, multiple", "MS")
    assert ms.types == ("Disease or Syndrome", "Finding")
    assert ms.definition == "From a preferred source."
    assert (ms.xrefs, ms.sources) == (("MTH:S9", "MSH:D1"), ("MSH", "MTH"))
    assert rash == Entity("C2", "Rash", definition="First.", xrefs=("MSH:D1",), sources=("MSH",))


def test_windows_ends_of_line_and_a_byte_order_mark(tmp_path: Path) -> None:
    text = f"\ufeff{conso('C1', 'Fever')}\r\n{conso('C2', 'Rash')}"
    (tmp_path / "MRCONSO.RRF").write_bytes(text.encode())
    write(tmp_path, "MRCONSO.RRF.gz", [conso("C3", "Gout")])  # the unpacked file counts alone
    assert [entity[:2] for entity in read(tmp_path)] == [("C1", "Fever"), ("C2", "Rash")]


def test_parents_and_retired_ids(tmp_path: Path) -> None:
    write(tmp_path, "MRCONSO.RRF", [conso("C1", "Fever"), conso("C2", "Heat")])
    relations = [("PAR", "C9"), ("PAR", "C2"), ("PAR", "C9"), ("PAR", "C1"), ("RB", "C6")]
    rows = [relation("C1", *pair) for pair in (*relations, ("CHD", "C5"))]
    write(tmp_path, "MRREL.RRF", [*rows, relation("C1", "PAR", "C7", suppress="O")])
    changes = [("C8", "SY", "C2"), ("C0", "SY", "C2"), ("C3", "RB", "C2"), ("C4", "DEL", "")]
    rows = [f"{old}|2016AA|{rel}|||{new}|Y|" for old, rel, new in changes]
    write(tmp_path, "MRCUI.RRF", rows)
    fever, heat = read(tmp_path)
    assert (fever.parents, fever.retired_ids) == (("C2", "C9"), ())
    assert (heat.parents, heat.retired_ids) == ((), ("C0", "C8"))


def test_types_of_the_release_and_its_version(tmp_path: Path) -> None:
    write(tmp_path, "MRCONSO.RRF", [conso("C1", "Flu")])
    rows = [sty("C2", "Virus", "T005", "A1.1.4"), sty("C1", "Disease"), sty("C2", "Disease")]
    write(tmp_path, "MRSTY.RRF", [*rows, sty("C2", "Odd", "T999", "")])
    with (tmp_path / "release.dat").open("wb") as file:
        file.write(b"umls.release.name=2017AB\numls.release.date=20171106\n")
        file.truncate(2**40)  # only its start is read
    source = open_source(tmp_path)
    assert source.version == "2017AB"
    virus, odd = SemanticType("Virus", "T005", "A1.1.4"), SemanticType("Odd", "T999", None)
    assert source.types == (virus, SemanticType("Disease", "T047", "B2.2.1.2.1"), odd)


@pytest.mark.parametrize(
    "name, row, fault",
    [
        ("MRCONSO.RRF", conso("C1", "Fever")[3:], "Line: 2 .* Columns: 19 Found: 18"),
        ("MRREL.RRF", relation("C1", "PAR", "C2")[:-1], "Line: 2 .* Columns: 17 Found: 16"),
        ("MRCONSO.RRF", conso("C1", "Fe\rver"), "cannot be|not possible to parse"),
        ("MRDEF.RRF", definition("C1", "MSH", "x" * MAX_ROW_BYTES), "Line: 2 .*Maximum line size"),
        ("MRDEF.RRF", definition("C1", "MSH", "é").encode("latin-1"), "Line: 2 .*not utf-8"),
    ],
)
def test_a_row_that_is_not_whole_is_named(tmp_path: Path, name: str, row, fault: str) -> None:
    write(tmp_path, "MRCONSO.RRF", [conso("C1", "Fever")])
    good = {"MRCONSO.RRF": conso("C1", "Fever"), "MRREL.RRF": relation("C1", "PAR", "C2")}
    first = good.get(name, definition("C1", "MSH", "Hot.")).encode()
    row = row if isinstance(row, bytes) else row.encode()
    (tmp_path / name).write_bytes(b"\n".join((first, row, first)))
    with pytest.raises(PelError, match=rf"{name}: .*{fault}.*; fetch or unpack") as caught:
        read(tmp_path)
    assert "\n" not in str(caught.value)


def test_no_room_to_sort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "MRCONSO.RRF", [conso("C1", "x" * 900_000) for _ in range(25)])
    opened = duckdb_session.duckdb_connection
    small = {"max_temp_directory_size": "0KB", "memory_limit": "10MB"}
    monkeypatch.setattr(duckdb_session, "duckdb_connection", lambda **g: opened(**{**g, **small}))
    with pytest.raises(PelError, match="cannot be sorted in .*TMPDIR"):
        read(tmp_path)


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meta, temporary = tmp_path / "META", tmp_path / "tmp"
    meta.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    write(meta, "MRCONSO.RRF", [conso("C1", "Fever"), conso("C2", "Rash")])
    entities = open_source(meta).entities
    assert next(entities).concept_id == "C1"
    assert any(temporary.iterdir())
    entities.close()
    assert not any(temporary.iterdir())


ATOM = st.tuples(
    st.sampled_from(["C1", "C10", "C2", "C3"]),
    st.text(st.characters(exclude_characters="|\n\r\0", exclude_categories=["Cs"]), max_size=5),
    *map(st.sampled_from, (["ENG", "SPA"], ["N", "O", "E"], [True, False])),
    *map(st.sampled_from, (["MSH", "GO"], ["D1", "D2", "GO:3"])),
)


@settings(max_examples=8, deadline=None)
@given(st.lists(ATOM, min_size=1, max_size=30))
def test_names_as_a_plain_loop_gives_them(atoms) -> None:
    atoms = [(cui, f"n{name}", *rest) for cui, name, *rest in atoms]
    expected: dict[str, tuple[list, list, list, set]] = {}
    for cui, name, lat, suppress, preferred, sab, code in atoms:
        if lat == "ENG" and suppress == "N":
            flagged, others, xrefs, sources = expected.setdefault(cui, ([], [], [], set()))
            (flagged if preferred else others).append(name)
            xrefs.append((not preferred, code if ":" in code else f"{sab}:{code}"))
            sources.add(sab)
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            conso(cui, name, lat=lat, suppress=suppress, preferred=preferred, sab=sab, code=code)
            for cui, name, lat, suppress, preferred, sab, code in atoms
        ]
        write(Path(folder), "MRCONSO.RRF", rows)
        found = {entity.concept_id: entity for entity in read(Path(folder))}
    assert list(found) == sorted(expected)
    for cui, (flagged, others, xrefs, sources) in expected.items():
        assert found[cui].names == tuple(dict.fromkeys(flagged + others))
        in_order = [xref for _, xref in sorted(xrefs, key=lambda pair: pair[0])]
        assert found[cui].xrefs == tuple(dict.fromkeys(in_order))
        assert found[cui].sources == tuple(sorted(sources))


@pytest.mark.parametrize("name", ["MRSTY.RRF.gz", "MRCONSO.RRF"])
def test_a_link_to_nothing_is_no_missing_file(tmp_path: Path, name: str) -> None:
    """It counted as absent: a KB without types, and no warning."""
    if not name.startswith("MRCONSO"):
        write(tmp_path, "MRCONSO.RRF", [conso("C1", "MS")])
    (tmp_path / name).symlink_to(tmp_path / "moved" / name)
    with pytest.raises(PelError, match=f"{name}: cannot be read .No such file"):
        read(tmp_path)


def test_a_choice_among_many_makes_no_join_which_would_reorder_the_rows(tmp_path: Path) -> None:
    write(tmp_path, "MRCONSO.RRF", [conso("C1", "Fever")])
    files = {"MRCONSO": [tmp_path / "MRCONSO.RRF"]}
    chosen = among("SAB", UmlsRecipe.preset("st21pv").vocabularies)
    with opened_release(tmp_path, COLUMNS, files, "|") as release:
        ((_, plan),) = release.fetched(f"EXPLAIN SELECT STR FROM MRCONSO WHERE {chosen}")
    assert "csv" in plan.lower() and "join" not in plan.lower()


def rxnorm(rxcui: str, name: str, tty: str, sab: str = "RXNORM", code: str = "", suppress="N"):
    """A row of RXNCONSO, in which the flags of MRCONSO are empty."""
    return f"{rxcui}|ENG||||||A1||||{sab}|{tty}|{code or rxcui}|{name}||{suppress}|4096|"


def test_rxnorm(tmp_path: Path) -> None:
    folder = tmp_path / "RxNorm_full_01052026" / "rrf"
    folder.mkdir(parents=True)
    names = [
        rxnorm("1191", "ASPIRIN 1 MG/MG", "FN", "SNOMEDCT_US", "387458008"),
        rxnorm("1191", "ASA", "SY"),
        rxnorm("1191", "Acetylsalicylic acid", "IN", "MTHSPL", "R16CO5Y76E"),
        rxnorm("1191", "aspirin", "IN"),
        rxnorm("1191", "Aspirin old", "IN", suppress="O"),
        rxnorm("215256", "Anacin", "BN"),
        rxnorm("99", "Withdrawn", "IN", suppress="E"),
    ]
    write(folder, "RXNCONSO.RRF", names)
    write(folder, "RXNSTY.RRF", [sty("1191", "Pharmacologic Substance", "T121", "A1.4.1.1.1")])
    write(folder, "RXNREL.RRF", ["|A1|AUI|RO||A2|AUI||R1||RXNORM|RXNORM|||||"])  # is not read
    aspirin = Entity(
        *("1191", "aspirin", ("ASPIRIN 1 MG/MG", "ASA", "Acetylsalicylic acid")),
        ("Pharmacologic Substance",),
        xrefs=("RXNORM:1191", "SNOMEDCT_US:387458008", "MTHSPL:R16CO5Y76E"),
        sources=("MTHSPL", "RXNORM", "SNOMEDCT_US"),
    )
    anacin = Entity("215256", "Anacin", xrefs=("RXNORM:215256",), sources=("RXNORM",))
    for path in (folder, folder.parent, tmp_path):
        assert detected_format(path) == "rxnorm"
        source = open_source(path)
        assert list(source.entities) == [aspirin, anacin]
        assert source.types == (SemanticType("Pharmacologic Substance", "T121", "A1.4.1.1.1"),)
    only = ReadOptions(umls=UmlsRecipe(types=("T121",), vocabularies=("RXNORM",)))
    assert [e.names for e in open_source(folder, options=only).entities] == [("aspirin", "ASA")]
    with pytest.raises(PelError, match="holds no RXNCONSO.RRF .or .gz.; give one folder rrf"):
        open_source(tmp_path.parent, format="rxnorm")


def test_st21pv(tmp_path: Path) -> None:
    names = [
        conso("C1", "Named by a vocabulary that is not kept", preferred=True, sab="LNC"),
        conso("C1", "Flu", sab="MSH", tty="ET", code="D7"),
        conso("C1", "Influenza", sab="MSH", tty="MH", code="D7"),
        conso("C1", "Unranked", sab="NCI", tty="XX", preferred=True),
        conso("C1", "Gone", sab="MSH", tty="MH", suppress="O"),
        conso("C2", "Of another type"),
        conso("C3", "Only in other vocabularies", sab="LNC"),
        conso("C4", "Without a type"),
    ]
    write(tmp_path, "MRCONSO.RRF", names)
    types = [sty("C1", "Disease or Syndrome"), sty("C1", "Group", "T096", "A2.9")]
    types += [sty("C2", "Group", "T096", "A2.9"), sty("C3", "Disease or Syndrome")]
    write(tmp_path, "MRSTY.RRF", types)
    write(tmp_path, "MRRANK.RRF", ["0400|MSH|MH|N|", "0300|MSH|ET|N|", "0500|LNC|LN|N|"])
    write(tmp_path, "MRDEF.RRF", [definition("C1", "CSP", "Left."), definition("C1", "NCI", "In.")])
    write(tmp_path, "MRREL.RRF", [relation("C1", "PAR", "C8", sab="LNC")])
    recipe = UmlsRecipe.preset("st21pv")
    assert (len(set(recipe.types)), len(set(recipe.vocabularies))) == (21, 18)
    [flu] = read(tmp_path, recipe)
    assert flu.names == ("Influenza", "Flu", "Unranked")
    assert (flu.types, flu.definition) == (("Disease or Syndrome", "Group"), "In.")
    assert (flu.xrefs, flu.sources, flu.parents) == (("MSH:D7", "NCI:D1"), ("MSH", "NCI"), ())


def test_each_choice_by_itself(tmp_path: Path) -> None:
    names = [
        conso("C1", "Fiebre", lat="SPA", preferred=True),
        conso("C1", "Fever", sab="GO"),
        conso("C1", "Pyrexia", suppress="O", preferred=True),
    ]
    write(tmp_path, "MRCONSO.RRF", names)
    definitions = [definition("C1", "SCTSPA", "Caliente."), definition("C1", "NCI", "Hot.")]
    write(tmp_path, "MRDEF.RRF", [*definitions, definition("C1", "GO", "Warm.")])
    write(tmp_path, "MRSAB.RRF", [vocabulary("SCTSPA", "SPA"), vocabulary("NCI", "ENG")])
    for choices, names, text in [
        ({}, ("Fever",), "Hot."),
        ({"languages": None}, ("Fiebre", "Fever"), "Hot."),
        ({"languages": ("SPA",)}, ("Fiebre",), "Warm."),
        ({"vocabularies": ("GO",), "preferred_name": "rank"}, ("Fever",), "Warm."),  # no MRRANK
        ({"definition_sources": ("GO",)}, ("Fever",), "Warm."),
        ({"definition_sources": ()}, ("Fever",), "Hot."),  # the first is of another language
        ({"definition_sources": (), "languages": None}, ("Fiebre", "Fever"), "Caliente."),
    ]:
        [entity] = read(tmp_path, **choices)
        assert (entity.names, entity.definition) == (names, text)
    assert read(tmp_path, vocabularies=()) == []
    with pytest.raises(PelError, match="no semantic type 'T123' in MRSTY"):
        UmlsRecipe(types=("T123",)).type_codes([])
    with pytest.raises(PelError, match=r"holds no MRSTY\.RRF"):
        read(tmp_path, types=("T047",))
