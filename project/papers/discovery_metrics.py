"""How well the entities are found that a KB lacks (ArboEL, 3.5)."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from sklearn.metrics import adjusted_rand_score

from spacy_pel.fitting.fit_joint import GoldMentions
from spacy_pel.jobs.proposals import Proposal, proposals

if TYPE_CHECKING:
    from spacy_pel.kb.knowledge_base import KnowledgeBase
    from spacy_pel.linking.clusters import Clusters


def write_lacking_kb(
    kb: KnowledgeBase, ids: Iterable[str], share: float, seed: int, folder: Path
) -> None:
    """Write a copy of a KB that lacks some of the given entities.

    Args:
        kb: The KB.
        ids: Ids that a corpus has.
        share: The share of their entities that is left out.
        seed: The seed by which they are drawn.
        folder: The folder to write. What is in it is replaced.
    """
    from spacy_pel.kb.change import remove_entities

    numbers = {kb.number(id) for id in ids} - {None}
    there = sorted(id for id, _ in kb.labels(sorted(numbers)))
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(kb.path, folder)
    drawn = np.random.default_rng(seed).permutation(there)[: round(share * len(there))]
    remove_entities(folder, drawn.tolist())


def discovery_metrics(gold: GoldMentions, found: Clusters) -> dict[str, float]:
    """Score the clusters of gold mentions of a corpus, and the proposals that they make.

    A proposal is right if more than half of its mentions mean one entity that the KB lacks, and no
    proposal before it is that entity.

    Args:
        gold: The gold mentions.
        found: Their clusters. Those of the same entity are one.

    Returns:
        ``ari_all`` and ``ari_lacking``: the adjusted Rand index of the clusters with the gold
        entities, over all mentions and over those whose entity the KB lacks. ``precision``,
        ``precision@50`` and ``precision@200``: of all proposals, and of the first ones.
        ``proposals``: their number. ``found`` and ``lacking``: how many of the lacking entities are
        proposed, and how many there are.
    """
    entities = gold.entities
    known = entities >= 0
    lacking = known & ~gold.in_kb
    numbers = np.where(
        found.entities < 0, found.entities.max(initial=-1) + 1 + found.numbers, found.entities
    )
    made = proposals(gold.mentions, found)
    right = right_proposals(made, gold)
    return {
        "ari_all": adjusted_rand_score(numbers[known], entities[known]),
        "ari_lacking": adjusted_rand_score(numbers[lacking], entities[lacking]),
        "precision": _mean(right),
        **{f"precision@{n}": _mean(right[:n]) for n in (50, 200)},
        "proposals": len(made),
        "found": sum(right),
        "lacking": len(set(entities[lacking].tolist())),
    }


def right_proposals(made: Sequence[Proposal], gold: GoldMentions) -> list[bool]:
    """Whether each proposal is right; see ``discovery_metrics``."""
    seen: set[str] = set()
    right = []
    for own in made:
        golds = Counter(
            min(gold.golds[place])
            for place in own.members
            if gold.golds[place] and not gold.in_kb[place]
        )
        id, count = golds.most_common(1)[0] if golds else ("", 0)
        right.append(2 * count > len(own.members) and id not in seen)
        seen |= {id} if right[-1] else set()
    return right


def _mean(right: Sequence[bool]) -> float:
    return float(np.mean(right)) if right else 0.0
