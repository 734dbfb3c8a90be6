"""Entities that a knowledge base lacks, proposed from clusters of mentions (ArboEL, 3.5)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..documents.docs import DEFAULT_LABEL
from ..pipeline.joint_answers import CorpusMention

if TYPE_CHECKING:
    from ..linking.clusters import Clusters
    from ..pipeline.proxy_linker import ProxyLinker

PREFIX = "NEW:"  # begins the ids of proposals
_NEAREST = 5  # entities shown beside a proposal
_SHOWN = 5  # mentions shown as examples


class Proposal(NamedTuple):
    """A cluster of mentions without an entity.

    Attributes:
        members: The places of its mentions in the corpus.
        sure: How sure it is that the KB lacks what they mean: 1 less the mean probability that their
            best candidates are right.
    """

    members: list[int]
    sure: float

    def shown(self, mentions: Sequence[CorpusMention]) -> list[int]:
        """The places of its mentions that are shown: of other documents and other words first."""
        places = sorted(self.members, key=lambda place: (mentions[place].document, place))
        seen: set[str] = set()
        ranks = []
        for place in places:
            mention = mentions[place]
            facts = {mention.document, mention.text.casefold()}
            ranks.append((-len(facts - seen), place))
            seen |= facts
        return sorted(place for _, place in sorted(ranks)[:_SHOWN])


def proposals(mentions: Sequence[CorpusMention], clusters: Clusters) -> list[Proposal]:
    """The clusters that have no entity, as proposals.

    Args:
        mentions: The mentions of a corpus.
        clusters: Their clusters.

    Returns:
        The best first: by how sure they are, times the root of the number of their mentions.
    """
    without = np.flatnonzero(clusters.entities < 0)
    order = without[np.argsort(clusters.numbers[without], kind="stable")]
    starts = np.flatnonzero(np.diff(clusters.numbers[order], prepend=-1))
    groups = np.split(order, starts[1:]) if len(order) else []
    found = []
    for group in groups:
        members = group.tolist()
        probability = np.mean([mentions[member].probability for member in members])
        found.append(Proposal(members, float(1 - probability)))
    return sorted(found, key=lambda own: (-own.sure * len(own.members) ** 0.5, own.members))


def proposal_records(
    found: Sequence[Proposal],
    mentions: Sequence[CorpusMention],
    vectors: Callable[[np.ndarray], np.ndarray],
    examples: Mapping[int, dict[str, Any]],
    linker: ProxyLinker,
) -> Iterator[dict[str, Any]]:
    """Proposals as plain data, which ``pel kb add`` reads.

    Args:
        found: The proposals.
        mentions: The mentions of the corpus.
        vectors: Gives the vectors of mentions at some places.
        examples: For each place of a mention that is shown, the mention in its context.
        linker: The linker, whose KB lacks the entities.
    """
    for own in found:
        names = Counter(mentions[place].text for place in own.members)
        name, *aliases = _distinct(sorted(names, key=lambda name: (-names[name], name)))
        labels = Counter(mentions[place].label for place in own.members)
        documents = {mentions[place].document for place in own.members}
        mean = vectors(np.array(own.members)).mean(axis=0, keepdims=True)
        yield {
            "concept_id": _id(mentions[own.members[0]]),
            "canonical_name": name,
            "aliases": aliases,
            "types": _types(labels, linker),
            "definition": None,
            "sure": round(own.sure, 4),
            "mentions": len(own.members),
            "documents": len(documents),
            "examples": [examples[place] for place in own.shown(mentions)],
            "nearest": _nearest(mean, linker),
        }


def _distinct(names: Sequence[str]) -> list[str]:
    """The names, each once, ignoring case."""
    return list({name.casefold(): name for name in reversed(names)}.values())[::-1]


def _id(first: CorpusMention) -> str:
    """An id that is the same at each run over a corpus."""
    place = f"{first.document}\n{first.start}\n{first.end}\n{first.text}"
    return PREFIX + hashlib.blake2b(place.encode(), digest_size=6).hexdigest()


def _types(labels: Counter[str], linker: ProxyLinker) -> list[str]:
    """The types of the entities that mentions of this label are linked to, or the label."""
    ((label, _),) = labels.most_common(1)
    types = [type for type in (linker.label_types or {}).get(label, ()) if type]
    return types or ([label] if label not in ("", DEFAULT_LABEL) else [])


def _nearest(vector: np.ndarray, linker: ProxyLinker) -> list[dict[str, Any]]:
    """The nearest entities of the KB, with their scores."""
    found = linker.index.search(vector, _NEAREST)
    there = found.numbers[0] >= 0
    labels = linker.kb.labels(found.numbers[0][there])
    scores = found.scores[0][there].tolist()
    return [
        {"id": id, "name": name, "score": round(score, 4)}
        for (id, name), score in zip(labels, scores)
    ]
