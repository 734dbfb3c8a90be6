"""Which candidates ``kb_ents`` holds: scispaCy's settings, with its meaning, on our scores."""

from __future__ import annotations

import numpy as np

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..linking.link import Links
from .settings import AnswerSettings

# Settings of scispaCy's linker that mean nothing here, and what does instead.
_REMEDIES = {
    "linker_name": "scispaCy downloads a knowledge base of this name; here one is built once, with "
    '"python -m spacy pel kb build SOURCE KB", and a trained linker names it: '
    'config={"path": PIPELINE}, and "kb": KB if its KB is another one',
    "k": 'scispaCy looks up so many names of a mention; here "candidates" says how many entities '
    "a mention keeps",
}


def refuse_settings_of_scispacy(**settings: object) -> None:
    """Raises PelError, with the remedy, if one that has no meaning here is given."""
    for name, value in settings.items():
        if value is not None:
            raise PelError(f"proxy_linker has no {name}={value!r}", _REMEDIES[name])


def offered(
    links: Links,
    kb: KnowledgeBase,
    settings: AnswerSettings,
) -> np.ndarray:
    """bool [n, k]: which candidates are offered; of a mention that is NIL none.

    They are the first ``max_entities_per_mention`` whose score, the retriever's, is above the
    threshold; an entity without a definition is passed over, if they are filtered, unless its score
    reaches ``no_definition_threshold``.
    """
    scores = links.scores
    chosen = (links.numbers >= 0) & ~links.nil[:, None]
    if settings.threshold is not None:
        chosen &= scores > settings.threshold
    if settings.filter_for_definitions:
        doubtful = chosen & (scores < settings.no_definition_threshold)
        numbers = np.unique(links.numbers[doubtful])
        undefined = [n for n, e in zip(numbers, kb.entities(numbers)) if e.definition is None]
        chosen &= ~(doubtful & np.isin(links.numbers, undefined))
    return chosen & (chosen.cumsum(axis=1) <= settings.max_entities_per_mention)
