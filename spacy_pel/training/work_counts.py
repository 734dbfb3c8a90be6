"""How much work a training has done, as the number of inputs that an encoder has read."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class WorkCounts:
    """The work done since the training began. An input that was encoded twice counts twice.

    Attributes:
        mentions: gold mentions with an entity in the KB.
        mention_inputs: mentions that were encoded. They are fewer than ``mentions`` where a
            document repeats a name.
        entity_inputs: proxies that were encoded for the loss, including FGSM's second pass.
        index_inputs: rows that were encoded for an index, to find hard negatives or to evaluate.
        pair_inputs: pairs of a mention and a candidate that a reranker has read, including FGSM's
            second pass.
    """

    mentions: int = 0
    mention_inputs: int = 0
    entity_inputs: int = 0
    index_inputs: int = 0
    pair_inputs: int = 0
