from __future__ import annotations

import numpy as np
import pytest

from spacy_pel.architectures import encoder_of
from spacy_pel.errors import PelError
from spacy_pel.reading.gold_mention import GoldMention
from spacy_pel.reading.mention import MentionInContext
from spacy_pel.training.mention_index import MentionIndex

from ..towers import TEXTS, mention, retriever, spread_weights


def gold(document: int, surface: str, *golds: int) -> GoldMention:
    return GoldMention(mention(TEXTS[document], surface), golds, TEXTS[document])


# Entity 0 has three mentions, of which one may mean 1 as well.
MENTIONS = [
    gold(0, "MS", 0),
    gold(0, "Multiple sclerosis", 0),
    gold(1, "MS", 1),
    gold(1, "spectrum", 1, 0),
    gold(2, "Mitral stenosis", 2),
    gold(3, "Aspirin", 3),
]


def test_repeats_in_a_document_are_one_mention() -> None:
    again = GoldMention(MentionInContext(TEXTS[0].lower(), 20, 22), (0,), TEXTS[0])
    index = MentionIndex([*MENTIONS, again, MENTIONS[4]], retriever())
    assert index.mentions == MENTIONS
    assert index.numbers_of([again, MENTIONS[4], MENTIONS[2]]) == [0, 4, 2]
    assert [index.cluster(entity).tolist() for entity in range(4)] == [[0, 1, 3], [2, 3], [4], [5]]


def test_a_mention_that_training_did_not_begin_with_is_an_error() -> None:
    index = MentionIndex(MENTIONS, retriever())
    other = MENTIONS[5]._replace(golds=(2,))
    with pytest.raises(PelError, match='"Aspirin" is none of the 6 mentions that training began'):
        index.numbers_of([MENTIONS[0], other])


@pytest.mark.parametrize("n", [0, 1, 2, 9])
def test_the_nearest_mentions_of_other_entities_are_those_of_brute_force(n: int) -> None:
    index = MentionIndex(MENTIONS, retriever())
    vectors = index.retriever.mention_vectors([m.context for m in MENTIONS])
    for number, found in enumerate(index.nearest_others(range(6), n)):
        others = [k for k in range(6) if not set(MENTIONS[k].golds) & set(MENTIONS[number].golds)]
        others.sort(key=lambda k: -float(vectors[number] @ vectors[k]))
        assert found == others[:n]


def test_equal_scores_go_by_number() -> None:
    copies = [gold(0, "MS", entity) for entity in range(5)]
    assert MentionIndex(copies, retriever()).nearest_others([2], 3) == [[0, 1, 3]]


def test_it_is_encoded_when_it_is_old_enough() -> None:
    index = MentionIndex(MENTIONS, retriever())
    assert not index.is_encoded
    first = index.as_it_is()
    assert index.is_encoded and index.encoded_rows == 6
    spread_weights(encoder_of(index.retriever.mention_tower))
    index.note_update()
    assert index.as_it_is() is first and index.younger_than(2) is first
    second = index.younger_than(1)
    assert index.encoded_rows == 12 and not np.allclose(first, second)
    present = index.retriever.mention_vectors([m.context for m in MENTIONS])
    np.testing.assert_array_equal(second, present)
