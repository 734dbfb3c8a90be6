"""Acronyms and their long forms, against texts replaced by hand."""

from __future__ import annotations

import re
import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_pel.reading.acronyms import _Remembered, at_long_forms, defined_acronyms, expanded
from spacy_pel.reading.mention import DocumentContext, MentionInContext

TEXT = "Multiple sclerosis (MS) is rare. MS lesions and early MS were seen, not MSH."
MS = {"MS": "Multiple sclerosis"}


def places(text: str, surface: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(re.escape(surface), text)]


def read(text: str, mentions: list[tuple[int, int]], long_forms: dict[str, str]) -> list[str]:
    return [mention.surface for mention in expanded(text, mentions, long_forms)]


def test_definitions_are_found() -> None:
    assert defined_acronyms(TEXT) == MS
    text = "Acute renal failure ( ARF ) and end-stage renal disease (ESRD). ARF (acute) was seen."
    assert defined_acronyms(text) == {
        "ARF": "Acute renal failure",
        "ESRD": "end-stage renal disease",
    }


def test_of_two_definitions_the_first_holds() -> None:
    text = "Multiple sclerosis (MS) is one thing. Mass spectrometry (MS) is another."
    assert defined_acronyms(text) == MS


def test_what_two_parentheses_happen_to_enclose_is_no_definition() -> None:
    text = "a mean of 2 ( P< 0.005 ) and a higher frequency range ( P< 0.005 ) ."
    assert defined_acronyms(text) == {}


def test_a_mention_is_read_as_its_long_form_in_its_place() -> None:
    second = places(TEXT, "MS")[1]
    assert expanded(TEXT, [second], MS) == [
        MentionInContext(TEXT[:33] + "Multiple sclerosis" + TEXT[35:], 33, 51)
    ]


def test_mentions_of_a_document_are_in_one_text() -> None:
    spans = [places(TEXT, "MS")[0], *places(TEXT, "MS lesions"), *places(TEXT, "early MS")]
    mentions = expanded(TEXT, spans, MS)
    assert len({mention.text for mention in mentions}) == 1
    assert [mention.surface for mention in mentions] == [
        "Multiple sclerosis", "Multiple sclerosis lesions", "early Multiple sclerosis"
    ]  # fmt: skip
    assert mentions[0].text == (
        "Multiple sclerosis (Multiple sclerosis) is rare. Multiple sclerosis lesions and early "
        "Multiple sclerosis were seen, not MSH."
    )


def test_other_mentions_and_the_rest_of_the_text_stay() -> None:
    lesions = places(TEXT, "lesions")
    assert expanded(TEXT, lesions, MS) == [MentionInContext(TEXT, *lesions[0])]
    assert expanded(TEXT, lesions, {}) == [MentionInContext(TEXT, *lesions[0])]


def test_mentions_keep_their_document() -> None:
    document, (first, *_) = DocumentContext(), places(TEXT, "MS")
    for read_in in (expanded, at_long_forms):
        for long_forms in (MS, {}):
            (mention,) = read_in(TEXT, [first], long_forms, document)
            assert mention.document is document


def test_a_mention_that_is_the_definition_stays_as_it_is() -> None:
    definition = places(TEXT, "Multiple sclerosis (MS)")[0]
    assert expanded(TEXT, [definition], MS) == [MentionInContext(TEXT, *definition)]
    inner = places(TEXT, "MS")[0]
    assert read(TEXT, [definition, inner], MS) == ["Multiple sclerosis (MS)", "Multiple sclerosis"]


def test_an_acronym_is_a_whole_word_of_exact_letters() -> None:
    assert read("MSH ms MS2 xMS", [(0, 14)], MS) == ["MSH ms MS2 xMS"]
    assert read("anti-MS MS/MS", [(0, 7), (8, 13)], MS) == [
        "anti-Multiple sclerosis", "Multiple sclerosis/Multiple sclerosis"
    ]  # fmt: skip


def test_of_acronyms_that_overlap_the_longer_is_read() -> None:
    long_forms = {"MS": "multiple sclerosis", "MS/MS": "tandem mass spectrometry"}
    assert read("by MS/MS", [(3, 8)], long_forms) == ["tandem mass spectrometry"]


def test_a_mention_that_cuts_into_an_acronym_takes_the_whole_of_it() -> None:
    text = "seen MS now"
    assert read(text, [(5, 7), (0, 6), (6, 11)], MS) == [
        "Multiple sclerosis", "seen Multiple sclerosis", "Multiple sclerosis now"
    ]  # fmt: skip


letters = st.text("aAbMS ()-.é1", max_size=12)
acronyms = st.dictionaries(st.text("AbMS", min_size=1, max_size=3), letters, max_size=3)


@st.composite
def texts_with_mentions(draw) -> tuple[str, list[tuple[int, int]]]:
    text = draw(letters)
    offset = st.integers(0, len(text))
    pairs = draw(st.lists(st.tuples(offset, offset), max_size=4))
    return text, [(min(pair), max(pair)) for pair in pairs]


@settings(deadline=None)
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
            and not is_word(text[max(i - 1, 0) : i])
            and not is_word(text[i + len(short) : i + len(short) + 1])
        ]
        end = i + len(here[0]) if here else i + 1
        read_here = here and any(start <= i and end <= last for start, last in mentions)
        yield i, end, long_forms[here[0]] if read_here else text[i:end]
        i = end


def is_word(letter: str) -> bool:
    return letter.isalnum()


def test_a_long_document_with_many_mentions_is_read_in_time() -> None:
    text = "multiple sclerosis (MS). " + "MS and RA. " * 20_000
    mentions = [(i, i + 2) for i in range(25, len(text), 11)]
    read = expanded(text, mentions, {"MS": "multiple sclerosis"})  # minutes, if all met all
    assert len(read) == len(mentions)
    assert read[-1].surface == "multiple sclerosis"


def test_a_lone_surrogate_is_no_obstacle() -> None:
    assert defined_acronyms("\ud800 multiple sclerosis (MS)") == {"MS": "multiple sclerosis"}


@settings(deadline=None)
@given(st.text(max_size=60) | st.text("MS (multiplescro); -", max_size=60))
def test_any_text_has_definitions(text: str) -> None:
    for short, long in defined_acronyms(text).items():
        assert short and short not in long


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
    expected = {
        "ARF": "acute renal failure", "MS": "multiple sclerosis", "ESRD": "end-stage renal disease"
    }  # fmt: skip
    for n in range(10, 30):
        assert defined_acronyms(sentence * n + tail * n) == expected


def test_of_two_acronyms_that_overlap_the_longer_is_read() -> None:
    long_forms = {"MS": "multiple sclerosis", "MS II": "mass spectrometry II", "II": "two"}
    text = "An MS II scan, MS-II, II."
    assert [mention.surface for mention in expanded(text, [(0, len(text))], long_forms)] == [
        "An mass spectrometry II scan, multiple sclerosis-two, two."
    ]


def test_remembered_texts_are_bounded_by_their_characters() -> None:
    remembered = _Remembered(10)
    for text in ("abcd", "efgh"):
        remembered.put(text, {text: text})
    assert remembered.get("abcd") == {"abcd": "abcd"}  # asked for again: the last to be forgotten
    remembered.put("ijkl", {})
    assert [text in remembered for text in ("abcd", "efgh", "ijkl")] == [True, False, True]
    remembered.put("a" * 11, {})
    assert remembered.get("a" * 11) is None and "abcd" not in remembered


def test_memory_does_not_grow_with_the_texts() -> None:
    size = 800_000
    tracemalloc.start()
    for i in range(40):
        assert defined_acronyms(f"{i} multiple sclerosis (MS) " + "x" * size) == {
            "MS": "multiple sclerosis"
        }
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 20 * size
