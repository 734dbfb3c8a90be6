"""Texts as tokens, in time that grows with the text, whatever is in it.

spaCy's tokenizer takes brackets, quotes and units from the ends of what stands between two blanks,
and reads the rest again each time. 32,000 brackets in a row took 65 seconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

# Characters without a blank that are read at once. Longer runs are links, codes and garbage.
LONGEST_RUN = 500
# Between two tokens: behind a single blank, or before another white space.
_BETWEEN_TOKENS = re.compile(r"(?<=\S )(?=\S)|(?<=\S)(?=[^\S ])")
_LONG_RUN = re.compile(rf"(?<!\S)\S{{{LONGEST_RUN + 1},}}")


def tokens_of(nlp: Language, text: str) -> Doc:
    """The text as tokens: ``nlp.make_doc``, but a token also ends after LONGEST_RUN characters.

    A text may be longer than ``nlp.max_length``, which limits what spaCy's models read at once.

    Both hold for spaCy's own tokenizer. Others know languages without blanks, and get the whole
    text.

    Raises:
        ValueError: The text is longer than ``nlp.max_length``, and the tokenizer is another one.
    """
    from spacy.attrs import NORM
    from spacy.tokenizer import Tokenizer
    from spacy.tokens import Doc

    cuts = [
        cut
        for run in _LONG_RUN.finditer(text)
        for cut in range(run.start() + LONGEST_RUN, run.end(), LONGEST_RUN)
    ]
    if len(text) > nlp.max_length:
        cuts = sorted({*cuts, *_between_tokens(text, nlp.max_length // 2)})
    if not cuts or not isinstance(nlp.tokenizer, Tokenizer):
        return nlp.make_doc(text)
    pieces = [nlp.make_doc(text[start:end]) for start, end in pairwise((0, *cuts, len(text)))]
    # Of the attributes, a tokenizer sets the norms alone. The others are left to the pipeline.
    return Doc.from_docs(pieces, ensure_whitespace=False, attrs=[NORM], exclude=["tensor"])


def _between_tokens(text: str, length: int) -> Iterator[int]:
    """Where to cut a text into pieces of about so many characters: where no token stands."""
    cut = _BETWEEN_TOKENS.search(text, length)
    while cut:
        yield cut.start()
        cut = _BETWEEN_TOKENS.search(text, cut.start() + length)
