from pathlib import Path

import numpy as np
import pytest

from spacy_pel.errors import PelError
from spacy_pel.kb import KnowledgeBase, SearchFilter, build_kb
from spacy_pel.kb.change import forget_mentions, learn_mentions, set_mention_weight
from spacy_pel.kb.knowledge_base import verify
from spacy_pel.kb.store import KB_FILE

from ..conftest import contents
from .living import (
    ENTITIES,
    WEIGHT,
    MentionRows,
    assert_finds,
    embed,
    learn,
    name_vector,
    passages,
    scored,
)

MENTIONS = [("MS", "C3"), ("MS", "C3"), ("spectra", "C2"), ("gout", "C9"), ("MS", "C1")]


def test_forgetting_leaves_no_text(folder: Path) -> None:
    learn(folder, "a", MENTIONS)
    assert forget_mentions(folder, "a") == 5
    assert KnowledgeBase.open(folder).settings["mentions"] is None
    assert b"the MS of" not in (folder / KB_FILE).read_bytes()


def test_a_filter_holds_for_mentions_and_a_query_is_answered_by_itself(folder: Path) -> None:
    learnt = {"a": [("spectra", "C2"), ("spectra", "C3"), ("plaques", "C3")], "b": [("scan", "C1")]}
    for source, mentions in learnt.items():
        learn(folder, source, mentions)
    set_mention_weight(folder, WEIGHT)
    queries = np.array([name_vector(word) for word in ("spectra", "plaques", "scan", "other")])
    allowed = [entity for entity in ENTITIES if "Disease" in entity.types]
    with KnowledgeBase.open(folder) as kb:
        only = SearchFilter(types=["Disease"])
        found = kb.search(queries, 4, only=only)
        for query, numbers, scores in zip(queries, *found):
            wanted = scored(allowed, learnt, query, WEIGHT)
            got = {id: s for (id, _), s in zip(kb.labels(numbers[numbers >= 0]), scores)}
            assert got == pytest.approx(wanted, abs=1e-5)
            np.testing.assert_array_equal(kb.search(query[None], 4, only=only).scores[0], scores)


def test_mentions_of_a_kb_without_vectors_get_them_later(tmp_path: Path) -> None:
    folder = tmp_path / "kb"
    build_kb(ENTITIES, folder).close()
    learn(folder, "a", MENTIONS)
    assert verify(folder) == []
    embed(folder, mentions=MentionRows()).close()
    assert verify(folder) == []
    assert_finds(folder, ENTITIES, {"a": MENTIONS})


def test_what_does_not_fit_is_refused(folder: Path) -> None:
    before = contents(folder)
    with pytest.raises(PelError, match="no mention has an entity"):
        learn(folder, "a", [])
    other = MentionRows()
    other.fingerprint = "other"
    with pytest.raises(PelError, match="another encoder"):
        learn_mentions(folder, "a", passages(MENTIONS), other)
    with pytest.raises(PelError, match="mentions need vectors too"):
        learn_mentions(folder, "a", passages(MENTIONS), None)
    with pytest.raises(PelError, match="learnt no mentions from 'a'"):
        forget_mentions(folder, "a")
    assert contents(folder) == before
    learn(folder, "a", MENTIONS)
    with pytest.raises(PelError, match="need new vectors too"):
        embed(folder)
    other.fingerprint, other.mention_fingerprint = "names", "other"
    with pytest.raises(PelError, match="another encoder read the mentions"):
        learn_mentions(folder, "b", passages(MENTIONS), other)
