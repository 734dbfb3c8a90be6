"""Entities that a knowledge base lacks, proposed from clusters of mentions (ArboEL, 3.5).

They are written as a source of a KB, and as a page to look at.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from spacy.language import Language

from ..documents import open_documents
from ..documents.docs import DEFAULT_LABEL
from ..documents.document_stream import ChainedStream
from ..errors import PelError
from ..pipeline.joint_answers import CorpusMention
from ..spans import mention_spans
from ..system.whole_files import whole_file
from .document_blocks import LinkedCounts, LinkProgress
from .joint_linking import (
    CorpusMentions,
    CorpusPart,
    clusters_of,
    corpus_mentions,
    docs_of,
    joint_settings,
    with_settings,
)
from .link import link_blocks

if TYPE_CHECKING:
    from ..linking.clusters import Clusters
    from ..pipeline.proxy_linker import ProxyLinker
    from .link_docs import Linking

PREFIX = "NEW:"  # begins the ids of proposals
_NEAREST = 5  # entities shown beside a proposal
_SHOWN = 5  # mentions shown as examples
_CONTEXT = 120  # characters shown before a mention, and after it
_PAGE = Path(__file__).parent / "page"
_STYLE = Path(__file__).parents[1] / "serve" / "page" / "page.css"  # the look of ``pel serve``


class DiscoveryReport(NamedTuple):
    """What was read, and found.

    Attributes:
        linked: The documents and mentions that were read.
        proposals: The number of proposals.
        page: The page that shows them.
    """

    linked: LinkedCounts
    proposals: int
    page: Path


def discover(
    linking: Linking,
    inputs: Sequence[str | Path],
    output: str | Path,
    *,
    input_format: str | None = None,
    least_mentions: int = 1,
    progress: LinkProgress = LinkProgress(),
) -> DiscoveryReport:
    """Propose the entities that documents mention and the KB lacks.

    Mentions are linked one by one, or keep the ids and the NIL that they have in the input. Then
    those that probably mean the same are joined. A cluster without an entity is a proposal.
    As for ``link_files``, an interrupted run goes on when it is called again.

    Args:
        linking: The pipeline, on which ``pel calibrate --jointly`` was run.
        inputs: Files, folders of files, or "-" for stdin.
        output: The JSONL file to write. The page is written beside it, with the suffix ".html".
        input_format: See ``link_files``.
        least_mentions: A proposal has at least so many mentions.
        progress: Receives the progress of linking.

    Raises:
        PelError: The linker is not calibrated for it, the output is not named .jsonl, or what
            ``link_files`` raises.
        OSError: A file cannot be read or written.
    """
    target = Path(output).resolve()
    if target.suffix != ".jsonl":
        raise PelError(f"{output}: not the name of a JSONL file", "end it in .jsonl")
    source = ChainedStream([open_documents(str(name), input_format) for name in inputs])
    linker = linking.linker
    joint_settings(linker)  # the error comes before the work
    what = {"way": "discovery", "least number of mentions": least_mentions}
    with with_settings(linker, overwrite=linker.overwrite and not linking.keep_ids):
        linked = link_blocks(
            linking,
            source,
            target,
            CorpusPart(linker.retriever.width),
            partial(_write_proposals, linking, least_mentions, progress.say),
            what,
            progress,
        )
    page = target.with_suffix(".html")
    with open(target, encoding="utf8") as lines, whole_file(page) as file:
        records = [json.loads(line) for line in lines]
        file.write(_page_of(records))
    return DiscoveryReport(linked, len(records), page)


def _write_proposals(
    linking: Linking,
    least_mentions: int,
    say: Callable[[str], object],
    parts: Sequence[Path],
    path: Path,
) -> None:
    """Write the proposals of a corpus, of which all blocks are there."""
    nlp, linker = linking.nlp, linking.linker
    settings = joint_settings(linker)
    corpus = corpus_mentions(nlp, linker, parts, path, say)
    found, _ = clusters_of(
        corpus.mentions, corpus.vectors, settings, settings.discovery, corpus.pairs
    )
    all_found = proposals(corpus.mentions, found)
    kept = [own for own in all_found if len(own.members) >= least_mentions]
    examples = _examples(kept, corpus, parts, nlp, linker.spans_key)
    with open(path, "w", encoding="utf8") as file:
        for own in kept:
            record = _record(own, corpus, examples, linker)
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


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


def _record(
    own: Proposal,
    corpus: CorpusMentions,
    examples: Mapping[int, dict[str, Any]],
    linker: ProxyLinker,
) -> dict[str, Any]:
    """A proposal as plain data, which ``pel kb add`` reads.

    Args:
        own: The proposal.
        corpus: All mentions.
        examples: For each place of a mention that is shown, the mention in its context.
        linker: The linker, whose KB lacks the entity.
    """
    mentions = [corpus.mentions[place] for place in own.members]
    names = Counter(mention.text for mention in mentions)
    sorted_names = sorted(names, key=lambda name: (-names[name], name))
    # Each once, ignoring case.
    name, *aliases = list({n.casefold(): n for n in reversed(sorted_names)}.values())[::-1]
    first = mentions[0]  # which makes the id the same at each run over a corpus
    place = f"{first.document}\n{first.start}\n{first.end}\n{first.text}"
    ((label, _),) = Counter(mention.label for mention in mentions).most_common(1)
    types = [type for type in (linker.label_types or {}).get(label, ()) if type]
    mean = corpus.vectors.take(np.array(own.members)).mean(axis=0, keepdims=True)
    near = linker.index.search(mean, _NEAREST)
    there = near.numbers[0] >= 0
    labels, scores = linker.kb.labels(near.numbers[0][there]), near.scores[0][there].tolist()
    return {
        "concept_id": PREFIX + hashlib.blake2b(place.encode(), digest_size=6).hexdigest(),
        "canonical_name": name,
        "aliases": aliases,
        "types": types or ([label] if label not in ("", DEFAULT_LABEL) else []),
        "definition": None,
        "sure": round(own.sure, 4),
        "mentions": len(mentions),
        "documents": len({mention.document for mention in mentions}),
        "examples": [examples[place] for place in own.shown(corpus.mentions)],
        "nearest": [
            {"id": id, "name": name, "score": round(score, 4)}
            for (id, name), score in zip(labels, scores)
        ],
    }


def _examples(
    found: Sequence[Proposal],
    corpus: CorpusMentions,
    parts: Sequence[Path],
    nlp: Language,
    spans_key: str | None,
) -> dict[int, dict[str, Any]]:
    """The mentions that are shown of proposals, in their contexts, by their places in the corpus."""
    shown = {place for own in found for place in own.shown(corpus.mentions)}
    examples: dict[int, dict[str, Any]] = {}
    first = 0
    for part, count in zip(parts, corpus.counts):
        if not shown.isdisjoint(range(first, first + count)):
            with nlp.memory_zone():
                place = first
                for _, doc in docs_of(part, nlp):
                    text = doc.text
                    for _ in mention_spans(doc, spans_key):
                        if place in shown:
                            examples[place] = _in_context(text, corpus.mentions[place])
                        place += 1
        first += count
    return examples


def _in_context(text: str, mention: CorpusMention) -> dict[str, Any]:
    """A mention with its source and what stands around it."""
    start, end = mention.start, mention.end
    return {
        "document": mention.document,
        "start": start,
        "end": end,
        "text": mention.text,
        "before": text[max(0, start - _CONTEXT) : start],
        "after": text[end : end + _CONTEXT],
    }


def _page_of(records: Sequence[dict[str, Any]]) -> str:
    """A page to look at proposals: one HTML file, which asks nothing of any server."""

    def text(path: Path) -> str:
        return path.read_text(encoding="utf8")

    page = text(_PAGE / "proposals.html")
    page = page.replace("/*STYLE*/", text(_STYLE) + text(_PAGE / "proposals.css"), 1)
    page = page.replace("/*SCRIPT*/", text(_PAGE / "proposals.js"), 1)
    # Nothing in the data may end the script that holds it. It comes last: it may hold any text.
    data = json.dumps(list(records), ensure_ascii=False).replace("<", "\\u003c")
    return page.replace("/*DATA*/", data, 1)
