"""Annotated mentions that become rows of a KB."""

import shutil
from collections import Counter
from pathlib import Path

import pytest
from spacy.language import Language

from spacy_pel.errors import PelError
from spacy_pel.fitting.learn_mentions import drawn, learn_mentions_of
from spacy_pel.kb import KnowledgeBase
from spacy_pel.kb.knowledge_base import verify
from spacy_pel.kb.mentions import (
    MentionPassage,
    PassageMention,
)

CORPUS = """\
7|t|Renal failure (RF) and cephalea.
7|a|RF was treated.
7\t0\t5\tRenal\tAnatomy\tC07
7\t23\t31\tcephalea\tDisease\tC06
7\t33\t35\tRF\tDisease\tC06

8|t|Gout or head trouble, by MS.
8|a|
8\t0\t4\tGout\tDisease\tZ9
8\t8\t20\thead trouble\tDisease\tC06
8\t25\t27\tMS\tDisease\tC01|C02

"""


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "train" / "gold.pubtator"
    path.parent.mkdir()
    path.write_text(CORPUS, "utf8")
    return path


@pytest.fixture
def kb(tiny_kb: Path, tiny_folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_kb, tmp_path / "kb"))


def texts(folder: Path) -> list[tuple[str, str, str]]:
    """The learnt mentions: document, words and id."""
    with KnowledgeBase.open(folder) as kb:
        return [
            (passage.document, passage.text[m.start : m.stop], m.id)
            for passage, _ in kb.mentions.passages()
            for m in passage.mentions
        ]


def test_mentions_are_learnt_as_the_linker_reads_them(
    kb: Path, corpus: Path, tiny_nlp: Language
) -> None:
    learnt = learn_mentions_of(kb, [corpus], nlp=tiny_nlp)
    assert (learnt.mentions, learnt.entities, learnt.seen) == (4, 2, 4)
    expected = [("7", "Renal", "C07"), ("7", "cephalea", "C06"), ("7", "Renal failure", "C06"),
                ("8", "head trouble", "C06")]  # fmt: skip
    assert sorted(texts(kb)) == sorted(expected)
    assert verify(kb) == []
    with KnowledgeBase.open(kb) as opened:
        assert opened.mentions.counts() == {"train/gold.pubtator": 4}


def test_a_candidate_says_by_which_mention_it_was_found(
    kb: Path, corpus: Path, tiny_nlp: Language
) -> None:
    linker = tiny_nlp.get_pipe("proxy_linker")
    linker.set_kb(kb)
    doc = tiny_nlp("A kidney hurts.")
    assert "as_in" not in doc.ents[0]._.kb_candidates[0]
    learn_mentions_of(kb, [corpus], nlp=tiny_nlp)
    linker.set_kb(kb)
    doc = tiny_nlp("A kidney hurts.")
    said = [candidate["as_in"] for candidate in doc.ents[0]._.kb_candidates]
    quote = next(quote for quote in said if quote and "[Renal]" in quote)
    assert quote == (
        "[Renal] failure (RF) and cephalea. Renal failure was treated. (train/gold.pubtator, 7)"
    )


def test_what_cannot_be_learnt(kb: Path, corpus: Path, tiny_nlp: Language, tmp_path: Path) -> None:
    with pytest.raises(PelError, match="mentions need vectors too"):
        learn_mentions_of(kb, [corpus])
    with pytest.raises(PelError, match="the same name"):
        learn_mentions_of(kb, [corpus, corpus], nlp=tiny_nlp)
    other = tmp_path / "other.pubtator"
    other.write_text("1|t|Gout\n1\t0\t4\tGout\tT\tZ9\n", "utf8")
    with pytest.raises(PelError, match="no mention has an entity"):
        learn_mentions_of(kb, [other], nlp=tiny_nlp)


def test_without_vectors_no_pipeline_is_needed(bare_kb: KnowledgeBase, corpus: Path) -> None:
    assert learn_mentions_of(bare_kb.path, [corpus]).weight is None
    assert len(texts(bare_kb.path)) == 4
    one = learn_mentions_of(bare_kb.path, [corpus], limit=1)
    assert one.mentions == one.seen == len(texts(bare_kb.path)) == 3


def test_at_most_so_many_of_an_entity() -> None:
    passages = [
        MentionPassage(str(n), "a b", (PassageMention(0, 1, "C1"), PassageMention(2, 3, f"D{n}")))
        for n in range(20)
    ]
    kept = drawn(passages, 3)
    counts = Counter(m.id for passage in kept for m in passage.mentions)
    assert counts == {"C1": 3, **{f"D{n}": 1 for n in range(20)}}
    assert drawn(passages, 0) == passages and drawn(passages, 3) == kept
    assert [len(p.mentions) for p in kept[:3]] != [2, 2, 2]  # drawn, not the first ones
