from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.text.abbreviations import (
    at_long_forms,
    defined_abbreviations,
    expanded,
    hidden_definitions,
    is_long_form,
    short_forms_first,
)
from spacy_pel.text.mention_inputs import MentionInContext

from ..growth import assert_linear

TEXT = "Multiple sclerosis (MS) is rare. MS lesions and early MS were seen, not MSH."
MS = {"MS": "Multiple sclerosis"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TEXT, MS),
        ("Acute renal failure ( ARF ). ARF (acute) was seen.", {"ARF": "Acute renal failure"}),
        ("Multiple sclerosis (MS) is one. Mass spectrometry (MS) is another.", MS),
        ("\ud800 multiple sclerosis (MS)", {"MS": "multiple sclerosis"}),  # a lone surrogate
        ("MS (multiple sclerosis), by mass spectrometry (MS).", {"MS": "multiple sclerosis"}),
        ("A sick sinus syndrome (SSS).", {"SSS": "sick sinus syndrome"}),
        (
            "TTP, or thrombotic thrombocytopenic purpura (TTP).",
            {"TTP": "thrombotic thrombocytopenic purpura"},
        ),
        ("No sinus rhythm (SR) here.", {"SR": "sinus rhythm"}),
        ("By mass spectrometry (MS), MS (multiple sclerosis).", {"MS": "mass spectrometry"}),
    ],
)
def test_definitions(text: str, expected: dict[str, str]) -> None:
    assert defined_abbreviations(text) == expected


letters = st.text("aAbMS ()-.é1", max_size=12)
acronyms = st.dictionaries(st.text("AbMS", min_size=1, max_size=3), letters, max_size=3)


@st.composite
def texts_with_mentions(draw) -> tuple[str, list[tuple[int, int]]]:
    text = draw(letters)
    offset = st.integers(0, len(text))
    pairs = draw(st.lists(st.tuples(offset, offset), max_size=4))
    return text, [(min(pair), max(pair)) for pair in pairs]


@given(texts_with_mentions(), acronyms)
def test_any_mention_is_where_a_walk_over_the_letters_puts_it(case, long_forms) -> None:
    text, mentions = case
    defines = [any(s in text[a:b] and long_forms[s] in text[a:b] for s in long_forms)
               for a, b in mentions]  # fmt: skip
    read_ones = [mention for mention, d in zip(mentions, defines) if not d]
    units = list(walk(text, long_forms, read_ones))
    new = "".join(unit for _, _, unit in units)
    for (start, end), d, mention in zip(mentions, defines, expanded(text, mentions, long_forms)):
        if d or new == text:
            assert mention == MentionInContext(text, start, end) or (new == text and not d)
        else:
            new_start = sum(len(unit) for _, last, unit in units if last <= start)
            new_end = sum(len(unit) for first, _, unit in units if first < end)
            assert mention == MentionInContext(new, new_start, new_end)


def walk(text: str, long_forms: dict[str, str], mentions: list[tuple[int, int]]):
    """Letters, and acronyms that stand in a mention: (start, end, what stands there then)."""
    i = 0
    while i < len(text):
        here = [
            short
            for short in sorted(long_forms, key=len, reverse=True)
            if text.startswith(short, i)
            and not text[max(i - 1, 0) : i].isalnum()
            and not text[i + len(short) : i + len(short) + 1].isalnum()
        ]
        end = i + len(here[0]) if here else i + 1
        read_here = here and any(start <= i and end <= last for start, last in mentions)
        yield i, end, long_forms[here[0]] if read_here else text[i:end]
        i = end


def test_in_a_text_that_stays_an_acronym_stands_where_its_long_form_does() -> None:
    text = "MS. He has multiple sclerosis (MS), MS-like pain and RA."
    places = [(0, 2), (11, 29), (31, 33), (36, 43), (53, 55)]
    forms = {"MS": "multiple sclerosis", "RA": "right atrium"}
    found = at_long_forms(text, places, forms)
    assert [(mention.start, mention.end) for mention in found] == [(11, 29)] * 3 + places[3:]
    assert all(mention.text is text for mention in found)
    assert at_long_forms(text, places, {}) == [MentionInContext(text, *place) for place in places]


def test_a_long_text_is_parted_where_nothing_is_defined() -> None:
    sentence = "The patients had acute renal failure (ARF) for several days. "
    tail = "They also had multiple sclerosis (MS) and end-stage renal disease ( ESRD ). "
    for n in (10, 17, 29):
        assert list(defined_abbreviations(sentence * n + tail * n)) == ["ARF", "MS", "ESRD"]


# Short forms that stand first, against what a reader says of them

RIGHT = {
    "MS": "multiple sclerosis",
    "COPD": "CHRONIC OBSTRUCTIVE PULMONARY DISEASE",
    "TNF-alpha": "tumor necrosis factor alpha",
    "cAMP": "cyclic adenosine 3',5'-monophosphate",
    "HCTZ": "hydrochlorothiazide",
    "DCC": "deleted in colorectal cancer",
    "LPP": "lipoma preferred partner gene",
}
WRONG = [
    ("CT", "chest"),  # two letters stand for several words
    ("CT", "chest, abdomen, pelvis"),  # most words have no letter
    ("MS", "the multiple sclerosis"),
    ("MS", "mild"),
    ("GABA", "GVG"),
    ("ATP7B", "Atp7b"),
    ("PS", "p < 0.001"),
    ("PO2", "PaO2"),
    ("Patients", "pain and tiredness in the elderly nursing homes studied"),
]


def test_a_long_form_in_parentheses_is_found_and_nothing_else() -> None:
    for short, long in RIGHT.items():
        for text in (f"Her {short} ({long}) relapsed.", f"{short} ( {long} ) ."):
            assert defined_abbreviations(text) == {short: long}
    for short, inside in WRONG:
        assert not is_long_form(short, inside)
        assert not list(short_forms_first(f"The {short} ({inside}) was seen."))
    # A long form ends before a remark, unless its letters go on.
    whole = "Wilms tumor, aniridia, genitourinary abnormalities, and mental retardation"
    found = short_forms_first(f"MS (multiple sclerosis; since 2003) and WAGR ({whole})")
    assert [pair for _, *pair in found] == [["MS", "multiple sclerosis"], ["WAGR", whole]]


@given(st.text("MS multi()-,;.é", max_size=60))
def test_of_any_text_the_letters_stand_in_the_long_form(text: str) -> None:
    for place, short, long in short_forms_first(text):
        assert text.startswith(short, place) and long in text
        rest = iter(long.casefold())
        assert all(letter in rest for letter in short.casefold() if letter.isalnum())


# Texts that somebody made to cost time: reading their acronyms is linear in their length

# From a number of characters to a text of about as many.
SHAPES: dict[str, Callable[[int], str]] = {
    "blanks and a parenthesis": lambda n: "Her MS (relapsed" + " " * n + ")",
    "opened": lambda n: "multiple sclerosis " + "(" * n,
    "letters": lambda n: "a" * n + " (AB) " + "a" * n,
    "definitions": lambda n: "".join(f"m{i} s{i} (MS{i}) " for i in range(n // 20)),
    "a letter far away": lambda n: ("a " + "b " * (n // 4) + " (AB)" * n)[:n],
    "acronyms first": lambda n: "Her MS (" * (n // 8),
    "letters after an acronym": lambda n: "MS (" + "m" * n + "s)",
    "surrogates": lambda n: "(\ud800) " * (n // 4),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_definitions_of_hostile_texts(shape: str) -> None:
    assert_linear(defined_abbreviations, SHAPES[shape], 10_000)


def many(n: int) -> tuple[str, list[tuple[int, int]], dict[str, str]]:
    """A text that defines and mentions many acronyms, its mentions, and the acronyms."""
    words = [f"MS{i}" for i in range(n)]
    text = " ".join(f"m s{i} (MS{i})" for i in range(n)) + " " + " ".join(words)
    starts = [text.rindex(" " + words[0])]
    for word in words:
        starts.append(starts[-1] + 1 + len(word))
    mentions = [(start + 1, start + 1 + len(word)) for start, word in zip(starts, words)]
    return text, mentions, {f"MS{i}": f"m s{i}" for i in range(n)}


@pytest.mark.parametrize("read", [expanded, at_long_forms])
def test_many_acronyms(read: Callable) -> None:
    text, mentions, long_forms = many(3)
    assert [m.surface for m in read(text, mentions, long_forms)] == ["m s0", "m s1", "m s2"]
    assert_linear(lambda input: read(*input), many, 1_000)


@pytest.mark.parametrize(
    "text, hidden, places",
    [
        ("In multiple sclerosis (MS) MS-like", "In MS MS-like", [(3, 5), (6, 8)]),
        ("MS (multiple sclerosis; x), Multiple Sclerosis ( MS )", "MS, MS", [(0, 2), (4, 6)]),
        # It goes on to be defined as something else.
        ("multiple sclerosis (MS) by mass spectrometry (MS)", None, []),
        ("nothing", "nothing", []),
    ],
)
def test_definitions_are_hidden(text: str, hidden: str | None, places: list) -> None:
    new, found = hidden_definitions(text, defined_abbreviations(text))
    assert found == places and hidden in (None, new)
