"""Mentions read in pairs by the cross-encoder: how sure it is that two mean the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..kb.vectors.candidate_lists import Candidates
from ..reading.text_inputs import TokenIds
from .reranking import in_order

if TYPE_CHECKING:
    from .reranker import Reranker


class PairedMentions(NamedTuple):
    """The mentions of a corpus as one side of a pair.

    Attributes:
        reranker: The cross-encoder, whose pairs may be two mentions.
        sides: The tokens of each mention.
    """

    reranker: Reranker
    sides: Sequence[TokenIds]

    def of(self, places: np.ndarray) -> PairedMentions:
        """Those of the mentions at some places."""
        return self._replace(sides=[self.sides[place] for place in places])

    def scored(self, neighbours: Candidates) -> Candidates:
        """The neighbours of each mention by the cross-encoder's scores.

        Args:
            neighbours: The nearest mentions of each and their cosines, [n, k].

        Returns:
            The same neighbours and their scores, best first; equal scores by number.
        """
        scores = self.reranker.mention_scores(self.sides, neighbours)
        order = np.lexsort((neighbours.numbers, -scores))
        return Candidates(*in_order(order, neighbours.numbers, scores))
