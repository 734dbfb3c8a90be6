from __future__ import annotations

from spacy_pel.reading.gold_mention import GoldMention

from ..towers import MENTIONS


def test_the_surface_of_a_mention() -> None:
    golds = [GoldMention(context, (number,)) for number, context in enumerate(MENTIONS)]
    assert [gold.surface for gold in golds] == ["MS", "MS", "Mitral stenosis", "Aspirin"]
