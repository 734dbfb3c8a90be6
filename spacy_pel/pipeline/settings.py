"""The settings of a linker in groups. ``factory.DEFAULT_CONFIG`` explains each setting."""

from __future__ import annotations

from dataclasses import dataclass

from ..models.adversarial import FGSM
from ..models.losses import MentionPairLoss, ScoreLoss
from ..training.arborescence import Arborescence
from ..training.mention_views import MaskAndReplace
from ..training.negatives import Sampler


@dataclass
class SearchSettings:
    """Settings for reading mentions, searching entities, and ordering candidates."""

    resolve_abbreviations: bool
    types: list[str] | None
    sources: list[str] | None
    label_types: dict[str, list[str]] | None
    unambiguous_names_first: bool
    one_entity_per_name: bool
    candidates: int
    rerank: int


@dataclass
class OutputSettings:
    """Settings for the attributes that are written on a mention."""

    threshold: float | None
    no_definition_threshold: float
    filter_for_definitions: bool
    max_entities_per_mention: int
    overwrite: bool
    xrefs: list[str] | None
    vectors: bool


@dataclass
class TrainingSettings:
    """Settings for training the retriever. A reranker uses only ``regularizer`` and ``views``."""

    name_dropout: float
    freeze_entities: bool
    loss: ScoreLoss | None
    regularizer: FGSM | None
    negatives: Sampler
    coreference: Arborescence | None
    pair_loss: MentionPairLoss | None
    views: MaskAndReplace | None
