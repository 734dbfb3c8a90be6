"""A NIL threshold from the names of a KB alone, for an encoder that was never trained on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..reading.mention import MentionInContext

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker

_NAMES, _FEWEST = 500, 50
# The share of entities missing from the KB whose names are to be NIL. A higher share makes mentions
# NIL whose entity is there: see docs/nil.md.
_MISSING = 0.25
# The share of names in the KB that may be NIL at most.
_PRESENT = 0.01
_CANDIDATES = 64


def nil_threshold_of_names(linker: ProxyLinker) -> float | None:
    """Give a NIL threshold that rejects what resembles no name, and keeps the names of the KB.

    Some names of the KB are searched as mentions without a context. The best score of an entity that
    does not have the name is what a mention gets if the KB lacks its entity. A quarter of these
    scores are below the threshold.

    Args:
        linker: A linker whose KB has its vectors.

    Returns:
        The threshold; None if the KB has too few names to tell.
    """
    kb = linker.index
    rng = np.random.default_rng(0)
    numbers = kb.numbers()
    entities = kb.entities(np.sort(rng.permutation(numbers)[:_NAMES]))
    names = [entity.names[rng.integers(len(entity.names))] for entity in entities]
    if len(names) < _FEWEST:
        return None
    mentions = [MentionInContext(name, 0, len(name)) for name in names]
    found = kb.search(linker.retriever.mention_vectors(mentions), _CANDIDATES)
    owned = np.array([np.isin(row, kb.numbers_named(n)) for row, n in zip(found.numbers, names)])
    own, others = (np.where(which, found.scores, -np.inf).max(axis=1) for which in (owned, ~owned))
    limits = np.quantile(others, _MISSING), np.quantile(own, _PRESENT)
    return float(min(limits)) if np.isfinite(limits).all() else None
