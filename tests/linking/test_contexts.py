import json
from math import log
from pathlib import Path

import numpy as np
import pytest

from spacy_pel.kb import Entity
from spacy_pel.kb.build import build_kb
from spacy_pel.kb.vectors.index import Candidates
from spacy_pel.linking.contexts import Contexts, learnt_contexts
from spacy_pel.linking.ordering import RankingInput
from spacy_pel.linking.ranking import compare
from spacy_pel.text.mention_inputs import MentionInContext

ENTITIES = [
    Entity("D1", "Aortic stenosis", ("AS",)),
    Entity("D2", "Angelman syndrome", ("AS",), definition="Ataxia and absent speech."),
    Entity("D3", "Asthma"),
]
TEXTS = [
    *["The murmur of aortic stenosis was loud."] * 6,
    *["Asthma was treated today."] * 290,
    *["Angelman syndrome with seizures."] * 4,
]


def test_the_words_around_a_mention_tell_its_senses_apart(tmp_path: Path) -> None:
    kb = build_kb(ENTITIES, tmp_path / "kb", sources=["tiny"])
    contexts = learnt_contexts(kb, TEXTS)
    assert contexts.entities.keys() == {"D1", "D2"}  # nothing else shares an abbreviation
    assert {"was", "asthma"} <= contexts.common
    assert contexts.entities["D2"].words["ataxia"] > 1
    assert Contexts.of(json.loads(json.dumps(contexts.as_data()))) == contexts

    def scores(text: str) -> dict[str, float]:
        start = text.index("AS")
        mention = MentionInContext(text, start, start + 2)
        numbers = np.array([[kb.number(id) for id in ("D1", "D2", "D3")]])
        candidates = Candidates(numbers, np.ones((1, 3), np.float32))
        found = compare(kb, RankingInput([mention], candidates), contexts)
        return dict(zip(("D1", "D2", "D3"), found.context_scores[0].tolist()))

    by_words = scores("AS with ataxia")
    assert by_words["D2"] == 0 and by_words["D1"] < -1 and by_words["D3"] == 0
    # The words of the names count as well.
    assert scores("AS, aortic")["D1"] == 0 and scores("AS, aortic")["D2"] < 0


def test_words_are_weighed_as_naive_bayes_weighs_them(tmp_path: Path) -> None:
    kb = build_kb(ENTITIES[:2], tmp_path / "kb", sources=["tiny"])
    texts = ["Aortic stenosis, loud murmur."] * 2 + ["Nothing of note."] * 198
    context = learnt_contexts(kb, texts).entities["D1"]
    share = 2.5 / 201
    assert context.words["murmur"] == pytest.approx(log((2 / share + 10) / (2 + 3 + 10)), abs=0.006)
    assert context.other == pytest.approx(log(10 / (2 + 3 + 10)), abs=0.006)
    assert context.score(["murmur", "x"]) == pytest.approx(context.words["murmur"] + context.other)
