import re

import pytest

from spacy_pel.pipeline.mention_bounds import (
    as_defined,
    with_first_words,
    with_names,
    without_modifiers,
)
from spacy_pel.text.abbreviations import defined_abbreviations


@pytest.mark.parametrize(
    ("words", "names", "expected"),
    [
        ("Small right pleural effusion", ["pleural effusion"], ["pleural effusion"]),
        ("thrombocytopenia 48", ["thrombocytopenia"], ["thrombocytopenia"]),
        ("nausea, vomiting", ["nausea", "vomiting"], ["nausea", "vomiting"]),
        ("acute renal failure", ["acute renal failure", "renal failure"], ["acute renal failure"]),
        ("allergic disease", ["allergic", "disease"], ["allergic disease"]),
        ("miR-501", ["miR"], ["miR-501"]),
        ("vasogenic edema", ["edema"], ["vasogenic edema"]),
        ("tubular adenoma", [], ["tubular adenoma"]),
    ],
)
def test_a_mention_loses_words_that_are_part_of_no_name(words, names, expected) -> None:
    text = f"She had {words}."
    mention = (text.index(words), text.index(words) + len(words), 1)
    of_text = [(text.index(name), text.index(name) + len(name), 1) for name in names]
    found = without_modifiers(text, [mention], of_text)
    assert [text[start:end] for start, end, _ in found] == expected
    assert without_modifiers(text, [mention], [(*name[:2], 0) for name in of_text]) == [mention]


def test_a_mention_neither_begins_nor_ends_with_a_separator() -> None:
    assert without_modifiers(
        "on amlodipine/valsartan", [(3, 14, 0), (13, 23, 0), (13, 14, 0)], []
    ) == [
        (3, 13, 0),
        (14, 23, 0),
    ]
    assert without_modifiers("the eye (OD)", [(4, 9, 0), (11, 12, 0)], []) == [(4, 7, 0)]


@pytest.mark.parametrize(
    ("mentions", "names", "expected"),
    [
        (["dysphoria"], ["gender dysphoria"], ["gender dysphoria"]),
        (["dysphoria"], ["gender dysphoria", "post gender dysphoria"], ["post gender dysphoria"]),
        (["post", "dysphoria"], ["post gender dysphoria"], ["post", "dysphoria"]),
        (["post"], ["post gender"], ["post"]),
        (["post gender dysphoria"], ["dysphoria"], ["post gender dysphoria"]),
    ],
)
def test_a_mention_gets_the_first_words_of_a_longer_name(mentions, names, expected) -> None:
    text = "Her post gender dysphoria."

    def tagged(words: str, label: int) -> tuple[int, int, int]:
        return text.index(words), text.index(words) + len(words), label

    of_text = [tagged(name, 1) for name in names]
    found = with_first_words([tagged(words, 1) for words in mentions], of_text)
    assert [text[start:end] for start, end, _ in found] == expected
    others = [tagged(words, 0) for words in mentions]
    assert with_first_words(others, of_text) == others


def test_a_listed_name_replaces_the_mentions_inside_it() -> None:
    text = "on calcium channel blockers and iron"
    calcium, blockers, iron = (3, 10, 0), (3, 27, 0), (32, 36, 0)
    names = [blockers, iron]
    assert with_names(text, [calcium], names, {"calcium channel blockers"}, False) == [blockers]
    assert with_names(text, [calcium], names, set(), True) == [calcium, iron]


def test_an_acronym_is_a_mention_if_its_long_form_is() -> None:
    text = "von Hippel-Lindau gene (VHL), VHL and head pain (HP): HP, MS"
    ends = {"von Hippel-Lindau", "head pain", "VHL", "HP", "MS"}
    mentions = [(m.start(), m.end(), 0) for end in ends for m in re.finditer(rf"\b{end}\b", text)]
    kept = sorted(
        {
            text[start:end]
            for start, end, _ in as_defined(text, mentions, defined_abbreviations(text))
        }
    )
    assert kept == ["HP", "MS", "head pain", "von Hippel-Lindau"]
