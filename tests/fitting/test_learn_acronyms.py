"""Acronyms that plain texts define and the KB lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from spacy_pel.errors import PelError
from spacy_pel.fitting.learn_acronyms import learn_acronyms
from spacy_pel.kb import KnowledgeBase


def learn(kb: KnowledgeBase, folder: Path, *lines: str, **settings: int):
    texts = folder / "texts.txt"
    texts.write_text("\n".join(lines), "utf8")
    return learn_acronyms(kb.path, [str(texts)], **settings)


def test_an_entity_gets_the_acronyms_of_its_names(bare_kb: KnowledgeBase, tmp_path: Path) -> None:
    learnt = learn(
        bare_kb,
        tmp_path,
        "Acetylsalicylic acid (ASA) was given.",
        "Disseminated sclerosis (DS), rheumatoid arthritis (RA) and right atrium (RA).",
    )
    assert learnt[:3] == (2, 0, 2)  # RA is known of both
    with KnowledgeBase.open(bare_kb.path) as kb:
        assert kb["C05"].aliases == ("acetylsalicylic acid", "ASA")
        assert kb["C01"].aliases == ("MS", "disseminated sclerosis", "DS")
        assert kb["C03"] == bare_kb["C03"]


def test_several_entities_may_have_an_acronym(bare_kb: KnowledgeBase, tmp_path: Path) -> None:
    lines = ("rheumatoid arthritis (RAT)", "right atrium (RAT)", "right atrium (RAT) again")
    assert learn(bare_kb, tmp_path, *lines)[:2] == (2, 1)
    with KnowledgeBase.open(bare_kb.path) as kb:
        assert {kb.entities([n])[0].concept_id for n in kb.numbers_named("RAT")} == {"C03", "C04"}


def test_an_acronym_needs_so_many_texts(bare_kb: KnowledgeBase, tmp_path: Path) -> None:
    lines = ("head pain (HP)", "right atrium (RAT)", "right atrium (RAT) again")
    learn(bare_kb, tmp_path, *lines, least=2)
    with KnowledgeBase.open(bare_kb.path) as kb:
        assert kb["C04"].aliases[-1] == "RAT"
        assert kb["C06"] == bare_kb["C06"]


def test_texts_that_teach_nothing_are_an_error(bare_kb: KnowledgeBase, tmp_path: Path) -> None:
    with pytest.raises(PelError, match="no acronym in .* give more text"):
        learn(bare_kb, tmp_path, "Polymerase chain reaction (PCR)")
