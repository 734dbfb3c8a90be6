"""Gold mentions of examples whose entities are in the knowledge base: what training is about."""

from __future__ import annotations

from typing import Iterable, List, Optional, Sequence, Set, Tuple

from spacy.training import Example

from ..inputs import MentionInContext
from ..kb.knowledge_base import KnowledgeBase
from ..training.corpus import gold_ids, gold_mentions
from ..training.trainer import GoldMention


def trainable_mentions(
    examples: Iterable[Example], kb: KnowledgeBase, spans_key: Optional[str]
) -> List[GoldMention]:
    """The gold mentions that have an entity in the KB."""
    mentions = []
    for example in examples:
        text = example.reference.text
        for span in gold_mentions(example.reference, spans_key):
            golds = _numbers(kb, gold_ids(span))
            if golds:
                context = MentionInContext(text, span.start_char, span.end_char)
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
