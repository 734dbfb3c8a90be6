from __future__ import annotations

from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity
from spacy_pel.kb.readers import ReadOptions, UmlsRecipe, open_source
from spacy_pel.kb.readers.rrf_files import among, opened_release
from spacy_pel.kb.readers.umls_recipe import ST21PV_TYPES
from spacy_pel.kb.records.semantic_types import SemanticType

from .umls import conso, definition, relation, sty, vocabulary, write

TYPES = (
    SemanticType("Entity", "T071", "A"),
    SemanticType("Physical Object", "T072", "A1"),
    SemanticType("Finding", "T033", "A2.2"),
    SemanticType("Sign or Symptom", "T184", "A2.2.2"),
    SemanticType("Made up", "T998", "A2.20"),
    SemanticType("Event", "T051", "B"),
    SemanticType("Without a place", "T999", None),
)


def read(folder: Path, recipe: UmlsRecipe) -> list[Entity]:
    return list(open_source(folder, options=ReadOptions(umls=recipe)).entities)


@pytest.mark.parametrize(
    "wanted, codes",
    [
        (("T033",), ["T033", "T184"]),  # whole components: not A2.20
        (("Finding", "T184"), ["T033", "T184"]),
        (("A2.2.2",), ["T184"]),
        (("T071",), ["T033", "T071", "T072", "T184", "T998"]),
        (("B",), ["T051"]),
        (("T999",), ["T999"]),
        (("A1.4.3",), []),  # the release has none of these
        ((), []),
    ],
)
def test_types_stand_for_their_descendants(wanted: tuple[str, ...], codes: list[str]) -> None:
    assert UmlsRecipe(types=wanted).type_codes(TYPES) == codes


@pytest.mark.parametrize("wanted", ["T123", "finding", "A1..2", ""])
def test_a_type_that_is_none(wanted: str) -> None:
    with pytest.raises(PelError, match=f"no semantic type '{wanted}' in MRSTY"):
        UmlsRecipe(types=(wanted,)).type_codes(TYPES)


def test_presets() -> None:
    assert UmlsRecipe.preset("full") == UmlsRecipe()
    chosen = UmlsRecipe.preset("st21pv")
    assert len(chosen.types) == len(set(chosen.types)) == len(ST21PV_TYPES) == 21
    assert len(set(chosen.vocabularies)) == 18
    with pytest.raises(PelError, match="unknown preset 'st21'; choose one of full, st21pv"):
        UmlsRecipe.preset("st21")


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
    assert read(tmp_path, UmlsRecipe.preset("st21pv")) == [
        Entity(
            "C1",
            "Influenza",
            ("Flu", "Unranked"),
            ("Disease or Syndrome", "Group"),
            "In.",
            xrefs=("MSH:D7", "NCI:D1"),
            sources=("MSH", "NCI"),
        )
    ]


def test_rows_are_chosen_without_a_join(tmp_path: Path) -> None:
    # Names and definitions are read in the order of the file, which a join of DuckDB's loses.
    vocabularies = UmlsRecipe.preset("st21pv").vocabularies
    write(tmp_path, "MRCONSO.RRF", [conso("C1", "Fever")])
    with opened_release(tmp_path) as release:
        rows = release.rows("MRCONSO", "STR", among("SAB", vocabularies))
        assert list(release.fetched(rows)) == [("Fever",)]
        [(_, plan)] = release.fetched(f"EXPLAIN {rows}")
    assert "READ_CSV" in plan
    assert "JOIN" not in plan.upper()


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

    def names_of(**choices) -> tuple[str, ...]:
        return read(tmp_path, UmlsRecipe(**choices))[0].names

    def definition_of(**choices) -> str | None:
        return read(tmp_path, UmlsRecipe(**choices))[0].definition

    assert names_of() == ("Fever",)
    assert names_of(languages=None) == ("Fiebre", "Fever")
    assert names_of(languages=("SPA",)) == ("Fiebre",)
    assert names_of(suppressed=True) == ("Pyrexia", "Fever")
    assert names_of(vocabularies=("GO",)) == ("Fever",)
    assert names_of(preferred_name="rank") == ("Fever",)  # without an MRRANK: the flags
    assert read(tmp_path, UmlsRecipe(vocabularies=())) == []
    assert definition_of() == "Hot."
    assert definition_of(definition_sources=("GO",)) == "Warm."
    assert definition_of(definition_sources=()) == "Hot."  # its vocabulary is of another language
    assert definition_of(definition_sources=(), languages=None) == "Caliente."


def test_types_need_their_file(tmp_path: Path) -> None:
    write(tmp_path, "MRCONSO.RRF", [conso("C1", "Fever")])
    with pytest.raises(PelError, match=r"holds no MRSTY\.RRF"):
        read(tmp_path, UmlsRecipe(types=("T047",)))
