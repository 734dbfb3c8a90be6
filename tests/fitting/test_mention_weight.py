"""How much mentions count, fitted to learnt ones."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from spacy_pel.fitting.learn_mentions import (
    fitted_weight,
    queries_of_learnt,
    queries_of_passages,
)
from spacy_pel.kb import Entity, KnowledgeBase
from spacy_pel.kb.change import learn_mentions
from spacy_pel.kb.mentions import MentionPassage, PassageMention

from ..kb.living import MentionRows, living_kb, name_vector

ENTITIES = [Entity(f"C{n:02}", f"name {n}") for n in range(12)]


class MixedRows(MentionRows):
    """The vector of a mention: its words', and a little of the name that its last word numbers."""

    def mention_vectors(self, passages: Sequence[MentionPassage]) -> np.ndarray:
        words = [p.text[m.start : m.stop] for p in passages for m in p.mentions]
        names = [f"name {word.split()[-1]}" for word in words]
        mixed = [name_vector(a) + 0.4 * name_vector(b) for a, b in zip(words, names)]
        return np.array([each / np.linalg.norm(each) for each in mixed], dtype=np.float32)


def corpus(documents: int, words_of) -> list[MentionPassage]:
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
    learn_mentions(folder, "a", corpus(5, lambda document, n: f"word {n}"), MixedRows())
    with KnowledgeBase.open(folder) as kb:
        weight = fitted_weight(kb, queries_of_learnt(kb))
        assert weight.weight > 0.5
        passages = corpus(2, lambda document, n: f"word {n}")
        again = fitted_weight(kb, queries_of_passages(kb, MixedRows(), passages))
        assert again.weight > 0.5


@pytest.mark.parametrize("sources", [["gold"], ["mined", "gold"]])
def test_mentions_of_its_own_document_do_not_count(tmp_path: Path, sources: list[str]) -> None:
    """Each document has words of its own: they would tell all, and tell nothing elsewhere."""
    folder = living_kb(tmp_path / "kb", ENTITIES)
    for source in sources:
        passages = corpus(6, lambda document, n: f"{document} {n}")
        learn_mentions(folder, source, passages, MixedRows())
    with KnowledgeBase.open(folder) as kb:
        queries, documents = queries_of_learnt(kb), kb.mentions.documents
        if len(sources) == 1:
            rows = np.random.default_rng(0).permutation(72)
            for row, near, numbers in zip(rows, queries.near.rows, queries.near.numbers):
                assert documents[row] not in documents[near[numbers >= 0]]
                assert (numbers >= 0).sum() == 60
        weight = fitted_weight(kb, queries)
        assert weight is None or weight.weight < 0.5
