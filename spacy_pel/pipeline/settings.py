"""The settings of ``proxy_linker`` that may be changed between texts.

To add one: a field here, and its default with a comment in ``factory.DEFAULT_CONFIG``.
"""

# No "from __future__ import annotations": spaCy checks a config by the types of the fields.

from dataclasses import dataclass

from ..models.adversarial import FGSM
from ..models.losses import MentionPairLoss, ScoreLoss
from ..training.gold_edges import Arborescence
from ..training.mention_views import MaskAndReplace
from ..training.negatives import Sampler


@dataclass
class Settings:
    """Attributes of the linker. ``factory.DEFAULT_CONFIG`` says what each of them means.

    The training of a reranker uses ``regularizer``, ``views`` and ``gradient_caching`` alone.
    """

    # Where the mentions of a doc are, and how they are read.
    spans_key: str | None
    resolve_abbreviations: bool
    # Which entities are searched for a mention, and how its candidates are ordered.
    types: list[str] | None
    sources: list[str] | None
    label_types: dict[str, list[str]] | None
    sure_probability: float | None
    least_probability: float | None
    sole_owners_first: bool
    agree: bool
    candidates: int
    rerank: int
    # What is written on a mention.
    threshold: float | None
    no_definition_threshold: float
    filter_for_definitions: bool
    max_entities_per_mention: int
    overwrite: bool
    xrefs: list[str] | None
    vectors: bool
    # How the retriever is trained.
    name_dropout: float
    freeze_entities: bool
    gradient_caching: bool
    loss: ScoreLoss | None
    regularizer: FGSM | None
    negatives: Sampler
    coreference: Arborescence | None
    pair_loss: MentionPairLoss | None
    views: MaskAndReplace | None
