"""Texts as tokens, in time that grows with the text, whatever is in it.

spaCy's tokenizer takes brackets, quotes and units from the ends of what stands between two blanks,
and reads the rest again each time. 32,000 brackets in a row took 65 seconds.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc

# Characters without a blank that are read at once. Longer runs are links, codes and garbage.
LONGEST_RUN = 500
_LONG_RUN = re.compile(rf"(?<!\S)\S{{{LONGEST_RUN + 1},}}")


def tokens_of(nlp: Language, text: str) -> Doc:
    """The text as tokens: ``nlp.make_doc``, but a token also ends after LONGEST_RUN characters.

    That holds for spaCy's own tokenizer. Others know languages without blanks, and get the whole
    text.
    """
    from spacy.attrs import NORM
    from spacy.tokenizer import Tokenizer
    from spacy.tokens import Doc

    cuts = [
        cut
        for run in _LONG_RUN.finditer(text)
        for cut in range(run.start() + LONGEST_RUN, run.end(), LONGEST_RUN)
    ]
    if not cuts or len(text) > nlp.max_length or not isinstance(nlp.tokenizer, Tokenizer):
        return nlp.make_doc(text)
    pieces = [nlp.make_doc(text[start:end]) for start, end in pairwise((0, *cuts, len(text)))]
    # Of the attributes, a tokenizer sets the norms alone. The others are left to the pipeline.
    return Doc.from_docs(pieces, ensure_whitespace=False, attrs=[NORM], exclude=["tensor"])
