"""Gold mentions of examples whose entities are in the knowledge base: what training is about."""

from __future__ import annotations

from itertools import repeat
from typing import Iterable, List, Optional, Sequence, Set, Tuple

from spacy.training import Example

from ..kb.knowledge_base import KnowledgeBase
from ..training.corpus import gold_ids, mention_spans
from ..training.trainer import GoldMention
from .mentions import mentions_in_context


def trainable_mentions(
    examples: Iterable[Example],
    kb: KnowledgeBase,
    spans_key: Optional[str],
    resolve_abbreviations: bool = False,
    texts: Optional[Sequence[str]] = None,
) -> List[GoldMention]:
    """The gold mentions that have an entity in the KB.

    resolve_abbreviations, texts: as for linking; see ``mentions``.
    """
    mentions = []
    for example, text in zip(examples, texts or repeat(None)):
        spans = mention_spans(example.reference, spans_key)
        contexts = mentions_in_context(example.reference, spans, resolve_abbreviations, text)
        for span, context in zip(spans, contexts):
            golds = _numbers(kb, gold_ids(span))
            if golds:
                mentions.append(GoldMention(context, golds))
    return mentions


def gold_numbers(
    examples: Iterable[Example], kb: KnowledgeBase, spans_key: Optional[str]
) -> Set[int]:
    """The numbers of the entities of these mentions."""
    return {n for m in trainable_mentions(examples, kb, spans_key) for n in m.golds}


def _numbers(kb: KnowledgeBase, ids: Sequence[str]) -> Tuple[int, ...]:
    """Numbers of those of the ids that the KB has."""
    numbers = (kb.number(id) for id in ids)
    return tuple(dict.fromkeys(n for n in numbers if n is not None))
