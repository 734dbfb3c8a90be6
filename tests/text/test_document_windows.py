import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_pel.text.mention_inputs import (
    DocumentContext,
    MentionInContext,
    WindowReader,
    window_bounds,
)

from .pieces import TEXTS, TOKENIZER, as_pieces, pieces


def reader(length: int = 64, limit: int = 64) -> WindowReader:
    return WindowReader(TOKENIZER, length, limit)


def mentions_of(
    text: str, *surfaces: str, document: DocumentContext | None = None
) -> list[MentionInContext]:
    """The first place of each surface in a text."""
    starts = [text.index(surface) for surface in surfaces]
    return [MentionInContext(text, a, a + len(s), document) for a, s in zip(starts, surfaces)]


def test_documents_and_texts_are_apart() -> None:
    text, document = TEXTS[0], DocumentContext()
    first, second = mentions_of(text, "pain", "aspirin", document=document)
    (equal,) = mentions_of(text, "severe", document=DocumentContext())
    (replaced,) = mentions_of("severe pain after", "severe pain", document=document)
    windows = reader().inputs([first, equal, second, replaced]).windows
    assert [w.outputs.tolist() for w in windows] == [[0, 2], [1], [3]]
    read = [pieces("pain", "aspirin"), pieces("severe"), pieces("severe", "pain")]
    marked = [[as_pieces(w)[i] for i in np.flatnonzero(w.known["focus"])] for w in windows]
    assert marked == read
    assert not reader().inputs([]).windows


@st.composite
def document(draw: st.DrawFn) -> list[MentionInContext]:
    letters = st.one_of(st.sampled_from("ab hepatoxic,   "), st.characters(codec="utf-8"))
    text = draw(st.text(letters, max_size=120))
    offsets = st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))
    places = draw(st.lists(offsets, min_size=1, max_size=6))
    return [MentionInContext(text, *sorted(place)) for place in places]


def _parts(text: str, *offsets: int) -> list[str]:
    """The text cut at the offsets."""
    edges = sorted({0, len(text), *offsets})
    return [text[a:b] for a, b in zip(edges, edges[1:])]


@given(document(), st.integers(4, 40), st.integers(4, 40))
def test_any_mention_is_read_once_and_whole(mentions, length, limit) -> None:
    text = mentions[0].text
    cuts = [offset for m in mentions for offset in (m.start, m.end)]
    whole = pieces(*_parts(text, *cuts))
    at = {o: len(pieces(*_parts(text[:o], *(c for c in cuts if c < o)))) for o in {0, *cuts}}
    in_mentions = {i for m in mentions for i in range(at[m.start], at[m.end])}
    windows = reader(length, limit).inputs(mentions).windows
    assert sorted(i for w in windows for i in w.outputs.tolist()) == list(range(len(mentions)))
    longest = min(length, limit)
    for window in windows:
        assert len(window.ids) == len(window.known["focus"]) <= longest and len(window.outputs)
    owned = [(i, w, place) for w in windows for place, i in enumerate(w.outputs.tolist())]
    for i, window, place in owned:
        first = at[mentions[i].start]
        last = min(at[mentions[i].end], first + longest - 2)
        inner = as_pieces(window)[1:-1]
        if first == last:
            assert window.spans[place].tolist() == [0, len(window.ids)]
            continue
        assert as_pieces(window)[slice(*window.spans[place])] == whole[first:last]
        begin = first - int(window.spans[place, 0]) + 1  # of the window in the document
        assert inner == whole[begin : begin + len(inner)]
        expected = [begin + n in in_mentions for n in range(len(inner))]
        assert window.known["focus"].tolist() == [False, *expected, False]


@given(st.integers(0, 300), st.integers(1, 40), st.data())
def test_windows_cover_the_text_and_each_mention_has_the_best(
    n_tokens: int, room: int, data: st.DataObject
) -> None:
    # A mention of no token at every place brings all windows to light.
    points = np.arange(n_tokens + 1).repeat(2).reshape(-1, 2)
    laid = np.unique(window_bounds(n_tokens, points, room), axis=0).tolist()
    assert (laid[0][0], laid[-1][1]) == (0, n_tokens)
    assert len({last - first for first, last in laid}) == 1  # all of one length
    for (_, end), (start, _) in zip(laid, laid[1:]):
        assert end - start >= room // 4 - 1
    if len(laid) > 1:  # with one window fewer they would not reach
        assert (len(laid) - 1) * (room - room // 4) + room // 4 < n_tokens
    for _ in range(5):
        start = data.draw(st.integers(0, n_tokens))
        end = data.draw(st.integers(start, min(n_tokens, start + room)))
        (bounds,) = window_bounds(n_tokens, np.array([[start, end]]), room).tolist()
        distance = min(start - bounds[0], bounds[1] - end)
        assert distance >= 0 and bounds[1] - bounds[0] <= room
        best = max(min(start - first, last - end) for first, last in laid)
        assert distance == best if best >= 0 else bounds not in laid
