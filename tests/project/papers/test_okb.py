"""The data set of mentions out of the KB, against what one works out by hand."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from papers.okb import build_okb, kept_in_line, nil_of, statistics

from spacy_pel.corpora.document_corpus import open_corpus
from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, SemanticType, build_kb

TYPES = [
    SemanticType("Activity", "T1", "B1"),
    SemanticType("Test", "T2", "B1.1"),
    SemanticType("Animal", "T3", "A1"),
]
ENTITIES = [
    Entity("C1", "blood test", types=("Test",), definition="Of blood.", alt_ids=("X1",)),
    Entity("C2", "nursing", types=("Activity",), definition="Care by nurses."),
    Entity("C3", "cat", types=("Animal",), definition="A small animal."),
    Entity("C4", "dog", types=("Animal",)),
    Entity("C5", "urine test", types=("Test",)),
    Entity("C6", "puppy"),
]
TRAIN = """\
1|t|A blood test of a cat.
1|a|Nursing, fleas.
1\t2\t12\tblood test\tT\tX1
1\t18\t21\tcat\tT\tC3
1\t23\t30\tNursing\tT\tC2
1\t32\t37\tfleas\tT\tC99

"""
DEV = """\
2|t|Blood  test and cat and dog
2|a|
2\t0\t11\tBlood  test\tT\tC1|C77
2\t16\t19\tcat\tT\tC3+C2
2\t16\t27\tcat and dog\tT\tC3|C4
2\t24\t27\tdog\tT\tC4
2\t12\t15\tand\tT\t-1

"""


@pytest.fixture
def kb(tmp_path: Path) -> KnowledgeBase:
    return build_kb(ENTITIES, tmp_path / "kb", types=TYPES)


@pytest.fixture
def splits(tmp_path: Path) -> dict[str, list[Path]]:
    for name, text in (("train", TRAIN), ("dev", DEV)):
        (tmp_path / f"{name}.pubtator").write_text(text, encoding="utf8")
    return {name: [tmp_path / f"{name}.pubtator"] for name in ("train", "dev")}


def ids_written(out: Path, split: str) -> list[tuple[str, ...]]:
    (document,) = open_corpus(out / f"{split}.pubtator").documents()
    return [mention.ids for mention in document.mentions]


def test_mentions_are_nil_and_entities_gone(kb, splits, tmp_path: Path) -> None:
    out = tmp_path / "okb"
    report = build_okb(kb, splits, out, ["T1"], tolerance=1)
    assert [entity.concept_id for entity in KnowledgeBase.open(out / "kb")] == ["C3", "C4", "C6"]
    # The alternative id, and the id that the KB lacks, go with the one that was taken out.
    assert ids_written(out, "train") == [(), ("C3",), (), ("C99",)]
    assert ids_written(out, "dev") == [(), ("C3",), ("C3", "C4"), ("C4",), ()]
    assert json.loads((out / "report.json").read_text("utf8")) == report
    assert report["entities"] == {"of_types": 3, "taken_out": 3}
    dev = report["splits"]["dev"]
    # "cat" in dev means "nursing" as well, which does not make it NIL.
    assert tuple(dev["okb"].values()) == (1, 1, 1, 1, 1)
    assert tuple(dev["whole"].values()) == (4, 4, 3 / 4, 3 / 4, 2 / 4)


def test_a_type_may_have_its_name_and_no_types_below_it(kb, splits, tmp_path: Path) -> None:
    build_okb(kb, splits, tmp_path / "okb", ["Test"], tolerance=1)
    left = {entity.concept_id for entity in KnowledgeBase.open(tmp_path / "okb" / "kb")}
    assert left == {"C2", "C3", "C4", "C6"}


def test_faults_are_named_and_leave_what_was_there(kb, splits, tmp_path: Path) -> None:
    out = tmp_path / "okb"
    build_okb(kb, splits, out, ["T1"])
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    other = build_kb([Entity("D1", "blood test", types=("Test",))], tmp_path / "other", types=TYPES)
    for arguments, problem in (
        ((kb, splits, out, ["Plant"]), "'Plant' is no semantic type in it"),
        ((kb, splits, out, ["paper"]), "no entity is of paper"),
        ((kb, {"train": splits["train"]}, out, ["T1"]), "a train split and another one"),
        ((kb, splits, tmp_path / "kb", ["T1"]), "kb: exists, and is no such data set"),
        ((other, splits, out, ["T1"]), "none of the corpora's ids is in the KB"),
    ):
        with pytest.raises(PelError, match=problem):
            build_okb(*arguments)
    (tmp_path / "dev.pubtator").write_text(DEV + "broken\n", encoding="utf8")
    with pytest.raises(PelError, match="dev.pubtator, line 9"):
        build_okb(kb, splits, out, ["T1"])
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_entities_stay_until_the_shares_are_those_of_the_whole() -> None:
    rng = random.Random(0)
    entities = [f"E{n}" for n in range(200)]

    def mentions(entities: list[str]) -> list[tuple[tuple[str, ...], str]]:
        return [(tuple(rng.sample(entities, rng.choice([1, 1, 2]))), "") for _ in range(400)]

    train, dev = mentions(entities[:100]), mentions(entities[50:])
    of_types = set(entities[80:160])  # most of them unseen

    def shares(mentions: list) -> np.ndarray:
        found = statistics(mentions, train, train)
        return np.array([found["mentions_seen"], found["entities_seen"]])

    assert (shares(dev) - shares(nil_of(dev, of_types)) > 0.05).all()
    kept = kept_in_line(train, [dev], of_types, tolerance=0.02, seed=0)
    after = shares(nil_of(dev, of_types - kept))
    assert kept < of_types and (abs(shares(dev) - after) <= 0.02).all()
    assert not kept_in_line(train, [dev], of_types, tolerance=1, seed=0)
