"""Texts that somebody made to cost time: reading their acronyms is linear in their length."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from spacy_pel.reading.acronyms import _definitions, at_long_forms, defined_acronyms, expanded

from ..growth import assert_linear

# From a number of characters to a text of about as many.
SHAPES: dict[str, Callable[[int], str]] = {
    "blanks": lambda n: "Her MS (relapsed)" + " " * n + "today.",
    "blanks and a parenthesis": lambda n: "Her MS (relapsed" + " " * n + ")",
    "opened": lambda n: "multiple sclerosis " + "(" * n,
    "closed": lambda n: "multiple sclerosis (MS" + ")" * n,
    "letters": lambda n: "a" * n + " (AB) " + "a" * n,
    "one definition": lambda n: "multiple sclerosis (MS) " * (n // 24),
    "definitions": lambda n: "".join(f"m{i} s{i} (MS{i}) " for i in range(n // 20)),
    "a letter far away": lambda n: ("a " + "b " * (n // 4) + " (AB)" * n)[:n],
    "acronyms first": lambda n: "Her MS (" * (n // 8),
    "letters after an acronym": lambda n: "MS (" + "m" * n + "s)",
    "surrogates": lambda n: "(\ud800) " * (n // 4),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_definitions(shape: str) -> None:
    def find(text: str) -> None:
        _definitions.cache_clear()
        defined_acronyms(text)

    assert_linear(find, SHAPES[shape], 10_000)


def given(n: int) -> tuple[str, list[tuple[int, int]], dict[str, str]]:
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
    text, mentions, long_forms = given(3)
    assert [mention.surface for mention in read(text, mentions, long_forms)] == [
        *("m s0", "m s1", "m s2")
    ]
    assert_linear(lambda input: read(*input), given, 1_000)
