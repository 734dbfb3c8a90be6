"""The settings of ``proxy_linker``, in records by what they decide.

To add a setting: a field here, its default with a comment in ``factory.DEFAULT_CONFIG``, and an
argument of ``factory.make_proxy_linker``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from ..models.adversarial import FGSM
from ..models.losses import ScoreLoss
from ..models.pair_loss import MentionPairLoss
from ..training.gold_edges import Arborescence
from ..training.mention_views import MaskAndReplace
from ..training.negatives import Sampler


@dataclass
class MentionSettings:
    """Where the mentions of a doc are, and how they are read.

    Attributes:
        spans_key: The mentions are ``doc.spans[spans_key]``; None: ``doc.ents``.
        resolve_abbreviations: Whether an acronym that its document defines is read as its long
            form.
    """

    spans_key: str | None
    resolve_abbreviations: bool


@dataclass
class SearchSettings:
    """Which entities are searched for a mention, and how its candidates are ordered.

    Attributes:
        types: The semantic types, by name or code, of the entities that are searched; None: all.
        sources: The sources of the entities that are searched; None: all.
        label_types: For mentions with a label, the types that replace ``types``.
        sure_probability: A mention is never NIL if its first candidate alone has it as a name or,
            once calibrated, is right with this probability at least; None: its score alone decides.
        sole_owners_first: Whether an entity that alone has the mention as a name comes first, where
            no bonus for exact names was fitted and no reranker orders the candidates.
        agree: Whether mentions of a document that have the same text get the same answer.
        candidates: The number of candidates of a mention.
        rerank: The number of candidates that the reranker, if there is one, orders again.
    """

    types: list[str] | None
    sources: list[str] | None
    label_types: dict[str, list[str]] | None
    sure_probability: float | None
    sole_owners_first: bool
    agree: bool
    candidates: int
    rerank: int


@dataclass
class AnswerSettings:
    """What is written on a mention. The first four decide ``span._.kb_ents``, as in scispaCy.

    Attributes:
        threshold: A candidate needs a score above it; None: any score will do.
        no_definition_threshold: The lowest score of a candidate without a definition, if candidates
            are filtered for definitions.
        filter_for_definitions: Whether candidates are filtered for definitions.
        max_entities_per_mention: The largest number of candidates in ``kb_ents``.
        overwrite: Whether an id that a mention already has is replaced.
        xrefs: The vocabularies whose codes are written as ``span._.kb_xrefs``; None: none.
        vectors: Whether the vector of a mention is written as ``span._.kb_vector``.
    """

    threshold: float | None
    no_definition_threshold: float
    filter_for_definitions: bool
    max_entities_per_mention: int
    overwrite: bool
    xrefs: list[str] | None
    vectors: bool


@dataclass
class TrainingSettings:
    """How the retriever is trained.

    The training of a reranker uses ``regularizer``, ``views`` and ``gradient_caching`` alone.

    Attributes:
        name_dropout: The probability that an alias is hidden in training.
        freeze_entities: Whether the mention encoder alone is trained, against the KB's vectors.
        gradient_caching: Whether the encoders' passes are computed twice to save memory.
        loss: The loss over the scores of mentions and proxies; None: ``pair_loss`` alone.
        regularizer: Adversarial regularisation; None: none.
        negatives: Chooses the negatives of a batch.
        coreference: Chooses mentions as positives and negatives, beside entities; None: entities
            alone.
        pair_loss: The loss over pairs of mentions, beside the other; None: none.
        views: Masks mentions and replaces them by synonyms in training; None: does not.
    """

    name_dropout: float
    freeze_entities: bool
    gradient_caching: bool
    loss: ScoreLoss | None
    regularizer: FGSM | None
    negatives: Sampler
    coreference: Arborescence | None
    pair_loss: MentionPairLoss | None
    views: MaskAndReplace | None


# The attribute of the component that holds each record, which is also the argument that takes it.
RECORDS = {
    "mention_settings": MentionSettings,
    "search_settings": SearchSettings,
    "answer_settings": AnswerSettings,
    "training_settings": TrainingSettings,
}


def attribute_of(part: str, name: str) -> property:
    """A property of a component: an attribute of one of its parts, which is got and set there.

    Args:
        part: The component's attribute that holds the part.
        name: The attribute of the part.
    """

    def get(component: Any) -> Any:
        return getattr(getattr(component, part), name)

    def set_(component: Any, value: Any) -> None:
        setattr(getattr(component, part), name, value)

    return property(get, set_)


def give_settings(component: type) -> None:
    """Make each setting an attribute of a component's class, as users of scispaCy expect.

    They change settings between texts: ``linker.threshold = 0.1``.
    """
    for holder, record in RECORDS.items():
        for field in fields(record):
            setattr(component, field.name, attribute_of(holder, field.name))
