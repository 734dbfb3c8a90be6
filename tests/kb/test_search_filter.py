import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase, SearchFilter, SemanticType, build_kb, write_vectors
from spacy_pel.kb.records.semantic_types import types_meant

TYPES = [
    SemanticType("Entity", "T071", "A"), SemanticType("Object", "T072", "A1"),
    SemanticType("Organism", "T001", "A1.1"), SemanticType("Two", "T002", "A2.2"),
    SemanticType("Twenty", "T020", "A2.20"), SemanticType("Under two", "T022", "A2.2.1"),
    SemanticType("Event", "T051", "B"), SemanticType("Apple", None, "AB1"),
    SemanticType("Event", "T051", "C7"), SemanticType("Below", None, "C7.1"),  # of two places
    SemanticType("Loose"),
]  # fmt: skip
N = 1000


@pytest.fixture(scope="module")
def kb(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeBase:
    """1,000 entities on a circle; the first is one of its type, each third is of source S3."""
    folder = tmp_path_factory.mktemp("selection") / "kb"
    entities = [
        Entity(
            f"C{i:03d}", f"name {i}", (), ("Under two",) if i == 700 else ("Organism",), None,
            (f"A{i}",), sources=("S3", "S") if i % 3 == 0 else ("S",),
        )
        for i in range(N)
    ]  # fmt: skip
    build_kb(entities, folder, types=TYPES)
    angles = np.linspace(0, np.pi / 2, N)
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    about = {"dim": 2, "fingerprint": "f", "index_unit": "entity"}
    return write_vectors(folder, [(vectors, np.arange(N))], **about)


@pytest.mark.parametrize(
    "wanted, names",
    [
        (["A2.1"], set()),
        (["A2.2"], {"Two", "Under two"}),
        (["Two"], {"Two", "Under two"}),
        (["T020"], {"Twenty"}),
        (["Entity"], {"Entity", "Object", "Organism", "Two", "Twenty", "Under two"}),
        (["Loose", "Event"], {"Loose", "Event", "Below"}),
    ],
)
def test_descendants_by_whole_components(wanted: list[str], names: set[str]) -> None:
    assert {type.name for text in wanted for type in types_meant(text, TYPES)} == names


def test_a_bare_name_goes_where_more_is_known(tmp_path) -> None:
    bare, known, loose = SemanticType("T"), SemanticType("T", "T1"), SemanticType("L")
    entities = [Entity("C1", "a", (), ("T", "L", "Z")), Entity("C2", "b", (), ("A", "T"))]
    entities += [Entity("C3", "c")]
    kb = build_kb(entities, tmp_path / "kb", types=[bare, loose, known, known, loose])
    assert kb.of_types("").tolist() == [2]  # without a type is a type of its own
    assert kb.of_types("A", "").tolist() == [1, 2] and kb.of_types("A").tolist() == [1]
    assert kb.semantic_types == [loose, known, SemanticType("A"), SemanticType("Z")]


def nearest(kb: KnowledgeBase, k: int, only: SearchFilter) -> list[int]:
    return kb.search(np.array([[1.0, 0.0]]), k, only).numbers[0].tolist()


def test_constraints_hold_together(kb: KnowledgeBase) -> None:
    assert kb.of_sources("S3").tolist() == list(range(0, N, 3))
    for _ in range(2):  # of more filters than are kept
        for i in range(20):
            assert nearest(kb, 1, SearchFilter(ids=[f"C{i:03d}"])) == [i]
    assert nearest(kb, 3, SearchFilter(sources=["S3"])) == [0, 3, 6]
    assert nearest(kb, 2, SearchFilter(types=["Two"])) == [700, -1]  # 0.1 % of the KB
    assert nearest(kb, 3, SearchFilter(ids=["A9", "C005", "C006", "C006", "unknown"])) == [5, 6, 9]
    both = SearchFilter(sources=["S3", "S"], types=["T001"], ids=["C700", "C699", "C001"])
    assert nearest(kb, 3, both) == [1, 699, -1]
    assert nearest(kb, 2, SearchFilter(ids=["unknown"])) == [-1, -1]
    assert nearest(kb, 2, SearchFilter()) == [0, 1]


@pytest.mark.parametrize(
    "only, fault",
    [
        (SearchFilter(types=["Organsim"]), "no semantic type 'Organsim'"),
        (SearchFilter(sources=["MSH"]), "no entity comes from 'MSH'.*sources: S, S3"),
        (SearchFilter(types="Organism"), "types is the text 'Organism'; give a list"),
    ],
)
def test_constraints_that_are_not_meant(kb: KnowledgeBase, only: SearchFilter, fault: str) -> None:
    with pytest.raises(PelError, match=fault):
        nearest(kb, 1, only)
