"""How much work a training has been, in inputs that went through an encoder."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Counts:
    """What has been done since the training began; an input that was encoded twice counts twice.

    mentions: gold mentions that had an entity in the KB. mention_inputs: those encoded, which are
    fewer where a document repeats a name. entity_inputs: proxies encoded for the loss, FGSM's
    second pass included. index_inputs: rows encoded for an index, of mining and of evaluations.
    pair_inputs: a reranker's mentions with a candidate, FGSM's second pass included.
    """

    mentions: int = 0
    mention_inputs: int = 0
    entity_inputs: int = 0
    index_inputs: int = 0
    pair_inputs: int = 0
