"""Documents of any length in bounded memory: those read together are few, and a long one is parted.

What spaCy's models compute for a document is in memory for all of its tokens at once, and for all
documents of a batch: 2.6 GB for a million characters.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from spacy.tokens import Doc

# Characters of the documents that are read together, or of one that alone has more.
TOGETHER = 256_000
# A longer document is read in parts of at most so many characters.
LONGEST = 100_000
# Where a document is parted, in order of choice: behind a line, behind a sentence, behind a blank.
_ENDS = (re.compile(r"\n(?=\S)"), re.compile(r"[.!?]\s(?=\S)"), re.compile(r"\s(?=\S)"))
_LOOKED_BACK = 5_000  # characters in which such a place is looked for


def batches(docs: Iterable[Doc], most: int) -> Iterator[list[Doc]]:
    """Consecutive docs: at most so many, and of at most TOGETHER characters unless it is one."""
    batch: list[Doc] = []
    characters = 0
    for doc in docs:
        length = _end(doc)
        if batch and (len(batch) == most or characters + length > TOGETHER):
            yield batch
            batch, characters = [], 0
        batch.append(doc)
        characters += length
    if batch:
        yield batch


def is_long(doc: Doc) -> bool:
    """Whether a doc is read in parts."""
    return _end(doc) > LONGEST


def read_in_parts(doc: Doc, read: Callable[[Iterable[Doc]], Iterable[Doc]]) -> Doc:
    """A doc with what a pipeline writes on its parts.

    Args:
        doc: A doc as the tokenizer makes it.
        read: Runs docs through the pipeline.

    Returns:
        A new doc with the same tokens. What a component writes on a doc as a whole is left out.
    """
    parts = list(read(_parts(doc)))
    whole = Doc.from_docs(parts, ensure_whitespace=False, exclude=["tensor", "user_data"])
    whole.user_data = doc.user_data
    return whole


def _parts(doc: Doc) -> Iterator[Doc]:
    """The doc in parts of at most LONGEST characters, where no token is longer."""
    text, starts = doc.text, [token.idx for token in doc]
    bounds = [0]
    while len(text) - starts[bounds[-1]] > LONGEST and bounds[-1] < len(doc) - 1:
        first = starts[bounds[-1]]
        cut = bisect_right(starts, _cut(text, first, first + LONGEST)) - 1
        bounds.append(min(max(cut, bounds[-1] + 1), len(doc) - 1))
    for start, end in pairwise([*bounds, len(doc)]):
        yield doc[start:end].as_doc()


def _cut(text: str, first: int, end: int) -> int:
    """The last place up to ``end`` where a text may be parted."""
    begin = max(first + 1, end - _LOOKED_BACK)
    for pattern in _ENDS:
        if places := [match.end() for match in pattern.finditer(text, begin, end)]:
            return places[-1]
    return end


def _end(doc: Doc) -> int:
    """The number of characters of a doc, up to the end of its last token."""
    return doc[-1].idx + len(doc[-1]) if len(doc) else 0
