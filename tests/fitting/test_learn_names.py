"""Names that mentions have and the KB lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.fitting.learn_names import learn_names, renamed_entities
from spacy_pel.kb import KnowledgeBase
from spacy_pel.reading.mention import GoldMention, MentionInContext

ARTHRITIS, ATRIUM, KIDNEY = 2, 3, 6


def mentions(*pairs: tuple[str, tuple[int, ...]]) -> list[GoldMention]:
    """Each with words around it."""
    contexts = [MentionInContext(f"the {name}.", 4, 4 + len(name)) for name, _ in pairs]
    return [GoldMention(context, golds) for context, (_, golds) in zip(contexts, pairs)]


def test_a_name_goes_to_the_entity_that_most_mean(bare_kb: KnowledgeBase) -> None:
    kidney, arthritis = (KIDNEY,), (ARTHRITIS,)
    said = [("Renal", kidney), ("joints", arthritis), ("joints", kidney), ("joints", arthritis)]
    found = {e.concept_id: e for e in renamed_entities(mentions(*said), bare_kb)}
    assert found.keys() == {"C03", "C07"}
    assert found["C07"] == bare_kb["C07"]._replace(aliases=("Renal",))
    assert found["C03"].aliases == ("RA", "joints")


def test_of_several_the_first(bare_kb: KnowledgeBase) -> None:
    said = mentions(("x", (KIDNEY,)), ("x", (ATRIUM,)))
    assert [e.concept_id for e in renamed_entities(said, bare_kb)] == ["C04"]


def test_names_are_the_same_but_for_case_blanks_and_punctuation(bare_kb: KnowledgeBase) -> None:
    said = [
        ("Kidney", (KIDNEY,)),
        ("rheumatoid-ARTHRITIS", (ARTHRITIS,)),
        ("Ren-al", (KIDNEY,)),
        ("ren al", (KIDNEY,)),
    ]
    (found,) = renamed_entities(mentions(*said), bare_kb)
    assert (found.concept_id, found.aliases) == ("C07", ("Ren-al",))


def test_what_says_nothing(bare_kb: KnowledgeBase) -> None:
    said = mentions(("either", (ARTHRITIS, ATRIUM)), (" ", (KIDNEY,)))
    assert renamed_entities(said, bare_kb) == [] == renamed_entities([], bare_kb)


def test_a_kb_learns_the_names_of_a_corpus(bare_kb: KnowledgeBase, tmp_path: Path) -> None:
    path = tmp_path / "train.pubtator"
    path.write_text(
        "1|t|Renal cephalea.\n1\t0\t5\tRenal\tT\tC07\n1\t6\t14\tcephalea\tT\tC06\n", "utf8"
    )
    read: list[None] = []
    learnt = learn_names(bare_kb.path, [path], progress=lambda: read.append(None))
    assert (learnt.names, learnt.mentions, learnt.changes.updated, len(read)) == (2, 2, 2, 1)
    kb = KnowledgeBase.open(bare_kb.path)
    assert kb["C07"].aliases == ("Renal",) and kb["C06"].aliases[-1] == "cephalea"
    assert learn_names(bare_kb.path, [path]).names == 0


def test_a_corpus_of_other_ids_is_refused(bare_kb: KnowledgeBase, tmp_path: Path) -> None:
    path = tmp_path / "train.pubtator"
    path.write_text("1|t|Gout\n1\t0\t4\tGout\tT\tZ9\n", "utf8")
    with pytest.raises(PelError, match="no mention of .*train.pubtator has an entity in"):
        learn_names(bare_kb.path, [path])
