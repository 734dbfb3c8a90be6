from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, build_kb
from spacy_pel.kb.upgrade import Upgrade, compare_release

OLD = [
    # "Lou Gehrig" and "MND" are learnt names. The release has given "MND" to D2.
    Entity(
        "D1", "ALS", ("Lou Gehrig", "MND"), ("Disease",), "Old.", ("7",), xrefs=("O:1", "CAS:1")
    ),
    Entity("D3", "Gout", ("Podagra", "Toe pain"), ("Disease",)),
    Entity("D4", "Plague", retired_ids=("D40",)),
    Entity("D5", "Scurvy"),
    Entity("C1", "Rare pain", ("Odd pain", "gone"), ("Disease",), retired_ids=("C10",)),
    Entity("X9", "Our own"),
    *(Entity(f"D{n}", f"Other {n}") for n in range(100, 120)),
]
SAME = OLD[6:]
NEW = [
    Entity("D1", "Sclerosis, ALS", ("ALS",), ("Illness",), "New.", xrefs=("CAS:2",)),
    Entity("D2", "MND"),
    Entity("D3", "Gout", ("Toe pain", "Podagra")),  # in another order
    Entity("D4", "Plague"),
    Entity("D6", "Rare pain", ("Odd pain",)),  # was C1
    Entity("C2", "Ague"),
    *SAME,
]


def compared(folder: Path, new: list[Entity]) -> Upgrade:
    return compare_release(build_kb(OLD, folder / "old"), build_kb(new, folder / "new"))


def test_the_changes_to_a_new_release(tmp_path: Path) -> None:
    upgrade = compared(tmp_path, NEW)
    assert [entity.concept_id for entity in upgrade.added] == ["C2", "D2", "D6"]
    assert upgrade.renamed == [("D1", "ALS", "Sclerosis, ALS")]
    assert upgrade.retired == [("C1", "Rare pain", "D6"), ("D5", "Scurvy", None)]
    names = ("Sclerosis, ALS", ("ALS", "Lou Gehrig"))
    rare = Entity("D6", "Rare pain", ("Odd pain", "gone"), ("Disease",), retired_ids=("C10", "C1"))
    assert sorted(upgrade.records) == [
        Entity("C2", "Ague"),
        Entity("D1", *names, ("Disease",), "New.", ("7",), xrefs=("CAS:2", "O:1")),
        Entity("D2", "MND"),
        rare,
    ]


def test_part_of_a_release_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PelError, match="23 of 24 entities are not in the new release"):
        compared(tmp_path, [Entity("D1", "ALS"), Entity("D2", "MND")])
    assert not compared(tmp_path, [Entity("Y1", "Else")]).retired  # ids of another kind
