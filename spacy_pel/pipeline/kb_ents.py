"""Which candidates ``kb_ents`` holds. The settings are scispaCy's; the scores are ours."""

from __future__ import annotations

import warnings

import numpy as np

from ..errors import PelError
from ..kb.knowledge_base import KnowledgeBase
from ..linking.link import Links
from .settings import AnswerSettings

# Settings of scispaCy's linker that mean nothing here, and what to set instead.
_REMEDIES = {
    "linker_name": "scispaCy downloads a knowledge base of this name; here one is built once, with "
    '"python -m spacy pel kb build SOURCE KB", and a trained linker names it: '
    'config={"path": PIPELINE}, and "kb": KB if its KB is another one',
    "k": 'scispaCy looks up this number of names for a mention; here "candidates" is the number of '
    "entities that a mention keeps",
}


def refuse_settings_of_scispacy(**settings: object) -> None:
    """Check that no setting is given that means something in scispaCy alone.

    Args:
        **settings: The settings by their names; None: not given.

    Raises:
        PelError: One is given. The remedy says what to set instead.
    """
    for name, value in settings.items():
        if value is not None:
            raise PelError(f"proxy_linker has no {name}={value!r}", _REMEDIES[name])


def warn_of_threshold(links: Links, settings: AnswerSettings) -> None:
    """Warn, once, if the threshold empties ``kb_ents`` of most mentions that are not NIL.

    scispaCy's scores are close to 1 where a name fits. Those of an encoder are lower.
    """
    best = links.scores.max(axis=1, initial=-np.inf)[(links.numbers >= 0).any(axis=1) & ~links.nil]
    if settings.threshold is not None and 2 * (best <= settings.threshold).sum() > len(best):
        warnings.warn(
            f"threshold = {settings.threshold} is above the scores of most mentions: their kb_ents "
            "are empty. These scores are not scispaCy's. Set threshold = None, and let "
            '"python -m spacy pel calibrate" find when a mention is NIL (docs/nil.md)',
            stacklevel=2,
        )


def offered(
    links: Links,
    kb: KnowledgeBase,
    settings: AnswerSettings,
) -> np.ndarray:
    """Choose the candidates in ``kb_ents``. A mention that is NIL has none.

    They are the first ``max_entities_per_mention`` whose score, the retriever's, is above the
    threshold. If candidates are filtered for definitions, an entity without one is left out unless
    its score reaches ``no_definition_threshold``.

    Args:
        links: What linking says of n mentions.
        kb: Has the definitions.
        settings: The thresholds.

    Returns:
        Bool [n, k]: whether each candidate is offered.
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
