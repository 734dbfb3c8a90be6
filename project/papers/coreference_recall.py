"""How many of the mentions that mean the same are near to each other."""

from __future__ import annotations

import numpy as np


def coreference_recall(neighbours: np.ndarray, entities: np.ndarray) -> float | None:
    """The share of coreferent mentions that are among the nearest ones (ArboEL, figure 3).

    For a mention it is the number of its k neighbours that mean the same, divided by k or by the
    number of all other mentions that mean the same, whichever is less. The recall is the mean over
    the mentions that have such others.

    Args:
        neighbours: int64 [n, k], the nearest other mentions of each; -1 where there are fewer.
        entities: int64 [n], what each mention means; -1 for nothing known.

    Returns:
        None if no two mentions mean the same.
    """
    known = entities >= 0
    _, groups = np.unique(entities, return_inverse=True)
    others = np.bincount(groups)[groups] - 1
    counted = known & (others > 0)
    if not counted.any():
        return None
    same = (neighbours >= 0) & (entities[neighbours] == entities[:, None])
    most = np.minimum(others, neighbours.shape[1])
    return float(np.mean(same.sum(axis=1)[counted] / most[counted]))
