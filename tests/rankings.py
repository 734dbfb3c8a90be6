"""A ranking whose probabilities are known."""

from collections.abc import Mapping

import torch

from spacy_pel.linking.ranking import LabelPriors, Ranking
from spacy_pel.models.ranker import Ranker

N_CANDIDATE, N_MENTION = 30, 14


def ranking_by_score(
    slope: float = 4.0,
    none: float = 0.0,
    labels: Mapping[str, int] | None = None,
    reranked: int = 0,
) -> Ranking:
    """A softmax of ``slope`` times the retriever's scores, and of ``none`` for "none is right".

    Scores are above -10.
    """
    ranker = Ranker(N_CANDIDATE, N_MENTION)
    with torch.no_grad():
        for parameter in ranker.parameters():
            parameter.zero_()
        ranker.candidate[0].weight[0, 0], ranker.candidate[0].bias[0] = 1.0, 10.0
        ranker.candidate[2].weight[0, 0] = slope
        ranker.none[2].bias[0] = none + 10 * slope
    priors = LabelPriors({}, {}, {"": 0.0})
    return Ranking(ranker.eval(), priors, {"TERM": 1} if labels is None else labels, reranked)
