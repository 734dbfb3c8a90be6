from pathlib import Path

import check_names
import pytest
from check_names import Name, faults, ordinary_words, read_names

from spacy_pel.kb import Entity

MESH = [
    Entity("D1", "Ketorolac", ("ketorolac",)),
    Entity("D2", "Ketorolac Tromethamine", ("Toradol",)),
    Entity("D3", "Diuretics", ("Diuretic",)),
]


def test_each_fault_of_a_list_is_told() -> None:
    listed = [
        Name("D1", "Ketorolac", "Toradol", "brand"),
        Name("D3", "Diuretics", "diuretic", "class"),
        Name("D3", "Diuretic", "water pill", "patient"),
        Name("D3", "Diuretics", "sprix", "brand"),
        Name("D1", "Ketorolac", "Sprix", "brand"),
        Name("PEL:inclisiran", "inclisiran", "Leqvio", "new"),
    ]
    wrong, other_meanings = faults(listed, MESH)
    assert wrong == [
        "diuretic is already a name of Diuretics",
        "D3 is Diuretics, and not Diuretic",
        "sprix is there twice: Diuretics and Ketorolac",
    ]
    assert other_meanings == ["Toradol (Ketorolac) is also Ketorolac Tromethamine"]


def test_a_brand_that_is_common_in_lower_case_is_a_word() -> None:
    listed = [Name("D1", "Ketorolac", name, "brand") for name in ("Advance", "Sprix")]
    lines = ["We advance slowly with Sprix"] * 5
    assert ordinary_words(listed, lines) == ["advance is an ordinary word (5 uses)"]


def test_the_lists_are_well_formed(tmp_path: Path) -> None:
    assert len({name.kind for name in read_names(check_names.NAMES)}) == len(check_names.KINDS)
    (tmp_path / "names.tsv").write_text("D1\tKetorolac\tToradol\n", "utf8")
    with pytest.raises(SystemExit):
        list(read_names(tmp_path / "names.tsv"))
