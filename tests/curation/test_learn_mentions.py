from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from spacy_pel.curation.learn_mentions import (
    fitted_weight,
    learn_mentions_of,
    queries_of_learnt,
    queries_of_passages,
    sampled,
)
from spacy_pel.errors import PelError
from spacy_pel.kb import Entity, KnowledgeBase
from spacy_pel.kb.change import learn_mentions
from spacy_pel.kb.knowledge_base import verify
from spacy_pel.kb.mentions import MentionPassage, PassageMention

from ..conftest import write_text
from ..kb.living import MentionRows, living_kb, name_vector

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
    return write_text(tmp_path / "train" / "gold.pubtator", CORPUS)


def texts(folder: Path) -> list[tuple[str, str, str]]:
    """The learnt mentions: document, words and id."""
    with KnowledgeBase.open(folder) as kb:
        return [
            (passage.document, passage.text[m.start : m.stop], m.id)
            for passage, _ in kb.mentions.passages()
            for m in passage.mentions
        ]


def test_mentions_are_learnt_as_the_linker_reads_them(own_kb, corpus, tiny_nlp) -> None:
    learnt = learn_mentions_of(own_kb, [corpus], nlp=tiny_nlp)
    assert (learnt.mentions, learnt.entities, learnt.seen) == (4, 2, 4)
    expected = [("7", "Renal", "C07"), ("7", "Renal failure", "C06"), ("7", "cephalea", "C06")]
    assert sorted(texts(own_kb)) == [*expected, ("8", "head trouble", "C06")]
    assert verify(own_kb) == []
    with KnowledgeBase.open(own_kb) as opened:
        assert opened.mentions.counts() == {"train/gold.pubtator": 4}


def test_a_candidate_says_by_which_mention_it_was_found(own_kb, corpus, tiny_nlp) -> None:
    linker = tiny_nlp.get_pipe("proxy_linker")
    linker.set_kb(own_kb)
    doc = tiny_nlp("A kidney hurts.")
    assert "as_in" not in doc.ents[0]._.kb_candidates[0]
    learn_mentions_of(own_kb, [corpus], nlp=tiny_nlp)
    linker.set_kb(own_kb)
    doc = tiny_nlp("A kidney hurts.")
    said = [candidate["as_in"] for candidate in doc.ents[0]._.kb_candidates]
    quote = next(quote for quote in said if quote and "[Renal]" in quote)
    text = "[Renal] failure (RF) and cephalea. Renal failure was treated."
    assert quote == f"{text} (train/gold.pubtator, 7)"


def test_corpora_of_one_name_are_refused(own_kb: Path, corpus: Path) -> None:
    with pytest.raises(PelError, match="the same name"):
        learn_mentions_of(own_kb, [corpus, corpus])


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
    kept = sampled(passages, 3)
    counts = Counter(m.id for passage in kept for m in passage.mentions)
    assert counts == {"C1": 3, **{f"D{n}": 1 for n in range(20)}}
    assert sampled(passages, 0) == passages and sampled(passages, 3) == kept
    assert [len(p.mentions) for p in kept[:3]] != [2, 2, 2]  # sampled, not the first ones


ENTITIES = [Entity(f"C{n:02}", f"name {n}") for n in range(12)]


class MixedRows(MentionRows):
    """The vector of a mention: its words', and a little of the name that its last word numbers."""

    def mention_vectors(self, passages: Sequence[MentionPassage]) -> np.ndarray:
        words = [p.text[m.start : m.stop] for p in passages for m in p.mentions]
        names = [f"name {word.split()[-1]}" for word in words]
        mixed = [name_vector(a) + 0.4 * name_vector(b) for a, b in zip(words, names)]
        return np.array([each / np.linalg.norm(each) for each in mixed], dtype=np.float32)


def passages_of(documents: int, words_of) -> list[MentionPassage]:
    """Each document mentions each entity once, by the words given."""
    made = []
    for document in range(documents):
        text, mentions = "", []
        for n in range(12):
            words = words_of(document, n)
            mentions.append(PassageMention(len(text), len(text) + len(words), f"C{n:02}"))
            text += f"{words} "
        made.append(MentionPassage(str(document), text, tuple(mentions)))
    return made


def test_mentions_count_where_they_tell(tmp_path: Path) -> None:
    folder = living_kb(tmp_path / "kb", ENTITIES)
    learn_mentions(folder, "a", passages_of(5, lambda document, n: f"word {n}"), MixedRows())
    with KnowledgeBase.open(folder) as kb:
        weight = fitted_weight(kb, queries_of_learnt(kb))
        assert weight.weight > 0.5
        passages = passages_of(2, lambda document, n: f"word {n}")
        again = fitted_weight(kb, queries_of_passages(kb, MixedRows(), passages))
        assert again.weight > 0.5


@pytest.mark.parametrize("sources", [["gold"], ["mined", "gold"]])
def test_mentions_of_its_own_document_do_not_count(tmp_path: Path, sources: list[str]) -> None:
    """Each document has words of its own: they would tell all, and tell nothing elsewhere."""
    folder = living_kb(tmp_path / "kb", ENTITIES)
    for source in sources:
        passages = passages_of(6, lambda document, n: f"{document} {n}")
        learn_mentions(folder, source, passages, MixedRows())
    with KnowledgeBase.open(folder) as kb:
        queries, documents = queries_of_learnt(kb), kb.mentions.rows.documents
        if len(sources) == 1:
            rows = np.random.default_rng(0).permutation(72)
            for row, near, numbers in zip(rows, queries.near.rows, queries.near.numbers):
                assert documents[row] not in documents[near[numbers >= 0]]
                assert (numbers >= 0).sum() == 60
        weight = fitted_weight(kb, queries)
        assert weight is None or weight.weight < 0.5
