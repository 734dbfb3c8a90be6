"""Names in text, against a naive search of lists of words."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spacy_pel.jobs.name_table import name_table
from spacy_pel.jobs.pieces import Pieces
from spacy_pel.kb import Entity

WORDS = st.sampled_from(
    ["all", "ALL", "All", "cell", "Cell", "T", "-", "1", "β", "mRNA", "İx", "(", "é"]
)
TEXTS = st.lists(st.tuples(WORDS, st.sampled_from([" ", "", "\n "])), max_size=12).map(
    lambda pairs: "".join(word + blank for word, blank in pairs)
)
PIECE = re.compile(r"\w+|[^\w\s]")


def pieces_of(text: str) -> list[tuple[str, int, int]]:
    """The pieces, in lower case but for words of two capitals, and where they are."""

    def folded(word: str) -> str:
        letters = (c.lower() if len(c.lower()) == 1 else c for c in word)
        return word if sum(map(str.isupper, word)) >= 2 else "".join(letters)

    return [(folded(match[0]), match.start(), match.end()) for match in PIECE.finditer(text)]


def naive(entities: list[Entity], text: str, aliases: bool, stop_words: set[str]) -> list[tuple]:
    """Names in a text as (start, end, entity): from the left, the longest first."""
    owners: dict[tuple[str, ...], set[int]] = {}
    wanted = set()
    for number, entity in enumerate(entities):
        for name in entity.names:
            key = tuple(piece for piece, *_ in pieces_of(name))
            owners.setdefault(key, set()).add(number)
            is_long = len(name) >= 3 and any(map(str.isalpha, name))
            is_acronym = sum(map(str.isupper, name)) >= 2
            if is_long and (is_acronym or name.lower() not in stop_words):
                if aliases or name == entity.canonical_name:
                    wanted.add(key)
    pieces = pieces_of(text)
    found, at = [], 0
    while at < len(pieces):
        for end in range(len(pieces), at, -1):
            key = tuple(piece for piece, *_ in pieces[at:end])
            if key in owners:
                if key in wanted and len(owners[key]) == 1:
                    found.append((pieces[at][1], pieces[end - 1][2], *owners[key]))
                at = end
                break
        else:
            at += 1
    return found


@settings(max_examples=50, deadline=None)
@given(
    names=st.lists(st.lists(TEXTS.filter(str.strip), min_size=1, max_size=3), max_size=6),
    texts=st.lists(TEXTS, min_size=1, max_size=4),
    aliases=st.booleans(),
)
@example(names=[["cell"]], texts=["", "Cell"], aliases=False)
@example(names=[], texts=["cell"], aliases=False)
def test_as_a_naive_search_finds_them(
    names: list[list[str]], texts: list[str], aliases: bool
) -> None:
    entities = [Entity(str(n), first, tuple(rest)) for n, (first, *rest) in enumerate(names)]
    table = name_table(entities, range(len(entities)), aliases=aliases, stop_words={"all"})
    pieces = Pieces(texts)
    found = table.found(pieces)
    begins = np.cumsum([0, *(len(text) + 1 for text in texts)])
    expected = [
        (start + begin, end + begin, owner)
        for text, begin in zip(texts, begins.tolist())
        for start, end, owner in naive(entities, text, aliases, {"all"})
    ]
    starts, ends = pieces.starts[found.first], pieces.ends[found.last]
    assert list(zip(starts.tolist(), ends.tolist(), found.owners.tolist())) == expected


def test_a_name_of_two_entities_hides_the_name_inside_it() -> None:
    entities = [
        Entity("0", "cold", ("common cold",)),
        Entity("1", "Common Cold"),
        Entity("2", "common"),
    ]
    table = name_table(entities, range(3))
    pieces = Pieces(["a common cold, a cold"])
    found = table.found(pieces)
    assert found.owners.tolist() == [0] and pieces.starts[found.first].tolist() == [17]


def test_an_acronym_is_no_stop_word() -> None:
    table = name_table(
        [Entity("0", "ALL"), Entity("1", "Cell")], range(2), stop_words={"all", "cell"}
    )
    pieces = Pieces(["All cells of all with ALL. Cell"])
    found = table.found(pieces)
    assert found.owners.tolist() == [0] and pieces.starts[found.first].tolist() == [22]


def test_no_name_crosses_from_text_to_text() -> None:
    table = name_table([Entity("0", "head pain")], [0])
    assert len(table.found(Pieces(["a head", "pain", "head\npain"])).first) == 1


def test_a_table_is_small() -> None:
    """Memory is of the number of names alone, not of their length."""
    names = [f"{'a long name of something ' * 4}{n}" for n in range(10_000)]
    table = name_table([Entity(name, name) for name in names], range(len(names)))
    size = table.hashes.nbytes + table.owners.nbytes + table.beginnings.nbytes
    assert size / len(names) < 20
