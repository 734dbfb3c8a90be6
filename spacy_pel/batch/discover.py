"""Discover entities that a KB lacks, from clusters of mentions (ArboEL, section 3.5).

The proposals are written as a source for a KB, and as a page for review.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..corpora.doc_conversion import DEFAULT_LABEL
from ..corpora.open_documents import open_documents
from ..errors import PelError
from ..io.whole_files import whole_file
from ..pipeline.joint_annotations import VIA, CorpusMention
from ..spans import mention_spans
from .document_blocks import LinkedCounts, NoBar
from .joint_linking import (
    CorpusMentions,
    clusters_of,
    corpus_mentions,
    docs_of,
    joint_settings,
    with_settings,
    write_corpus_part,
)
from .link_files import block_size, link_job, linking_settings

if TYPE_CHECKING:
    from ..coreference.clusters import Clusters
    from ..pipeline.proxy_linker import ProxyLinker
    from .link_docs import Linking

PREFIX = "NEW:"  # of the ids of proposals
_N_NEAREST = 5  # entities to show with a proposal
_N_EXAMPLES = 5  # mentions to show of a proposal
_CONTEXT = 120  # characters to show on each side of a mention
_PAGE = Path(__file__).parent / "page"
_STYLE = Path(__file__).parents[1] / "serve" / "page" / "page.css"  # shared with ``pel serve``


class DiscoveryReport(NamedTuple):
    """The numbers of linked mentions and of proposals, and the page that shows the proposals."""

    linked: LinkedCounts
    proposals: int
    page: Path


def discover(
    linking: Linking,
    inputs: Sequence[str | Path],
    output: str | Path,
    *,
    input_format: str | None = None,
    progress: Callable[..., Any] = NoBar,
) -> DiscoveryReport:
    """Propose the entities that documents mention and the KB lacks.

    Mentions are linked one by one, or keep the ids and NILs of the input. Then, mentions that probably mean
    the same are joined into clusters. A cluster without an entity is a proposal. The same call resumes an
    interrupted run.

    Args:
        linking: The pipeline, which was calibrated with ``pel calibrate --jointly``.
        inputs: Names of documents, as for ``open_documents``.
        output: The JSONL file. A page with the suffix ".html" is written next to it.
        input_format: The name of a format. None infers it from the file.
        progress: Makes a progress bar like ``tqdm`` from ``total``, the bytes of the input.

    Raises:
        PelError: The pipeline was not calibrated for joint linking, the output is not named .jsonl, or
            ``link_files`` would raise an error.
    """
    target = Path(output).resolve()
    if target.suffix != ".jsonl":
        raise PelError(f"{output}: not the name of a JSONL file", "end it in .jsonl")
    source = open_documents(inputs, input_format)
    linker = linking.linker
    joint_settings(linker)  # raises its error before the work
    write_part = partial(write_corpus_part, linker)
    write = partial(_write_proposals, linking)
    with with_settings(linker.output, overwrite=linker.output.overwrite and not linking.keep_ids):
        job = link_job(linking, write_part, progress)
        settings = {**linking_settings(linking), "way": "discovery"}
        linked = job.to_file(source, target, settings, block_size(), write)
    page = target.with_suffix(".html")
    with target.open(encoding="utf8") as lines:
        records = [json.loads(line) for line in lines]
    with whole_file(page) as file:
        file.write(_page(records))
    return DiscoveryReport(linked, len(records), page)


def _page(records: list[dict[str, Any]]) -> str:
    """Return the HTML page of proposals."""
    text = (_PAGE / "proposals.html").read_text("utf8")
    style = _STYLE.read_text("utf8") + (_PAGE / "proposals.css").read_text("utf8")
    script = (_PAGE / "proposals.js").read_text("utf8")
    # Escaped, so that the data cannot end its script element.
    data = json.dumps(records, ensure_ascii=False).replace("<", "\\u003c")
    # The data comes last, because it may contain any text.
    for placeholder, content in (("STYLE", style), ("SCRIPT", script), ("DATA", data)):
        text = text.replace(f"/*{placeholder}*/", content, 1)
    return text


def _write_proposals(linking: Linking, parts: Sequence[Path], path: Path) -> None:
    """Write the proposals of a corpus, whose blocks are all linked."""
    linker = linking.linker
    settings = joint_settings(linker)
    corpus = corpus_mentions(linker, parts, path)
    clusters, _ = clusters_of(corpus.mentions, corpus.vectors, settings, settings.discovery)
    best_first = proposals(corpus.mentions, clusters)
    shown = {m for proposal in best_first for m in proposal.members[:_N_EXAMPLES]}
    examples = _examples(shown, corpus, parts, linking)
    with path.open("w", encoding="utf8") as file:
        for proposal in best_first:
            proposal_examples = [examples[m] for m in proposal.members[:_N_EXAMPLES]]
            record = _record(proposal, corpus, proposal_examples, linker)
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


class Proposal(NamedTuple):
    """A cluster of mentions without an entity."""

    members: list[int]  # positions in the corpus
    # The probability that the KB lacks the entity: 1 minus the mean probability of the best candidates.
    probability: float


def proposals(mentions: Sequence[CorpusMention], clusters: Clusters) -> list[Proposal]:
    """Return the clusters without an entity.

    They are sorted by their probability times the square root of their number of mentions.
    """
    members: dict[int, list[int]] = {}
    for position in np.flatnonzero(clusters.entities < 0).tolist():
        members.setdefault(int(clusters.numbers[position]), []).append(position)
    unsorted = [
        Proposal(cluster, float(1 - np.mean([mentions[m].probability for m in cluster])))
        for cluster in members.values()
    ]
    return sorted(unsorted, key=lambda p: (-p.probability * len(p.members) ** 0.5, p.members))


def _record(
    proposal: Proposal, corpus: CorpusMentions, examples: list[dict[str, Any]], linker: ProxyLinker
) -> dict[str, Any]:
    """Return a proposal as plain data that ``pel kb add`` can read."""
    mentions = [corpus.mentions[member] for member in proposal.members]
    counts = Counter(mention.text for mention in mentions)
    names: dict[str, str] = {}  # the most frequent spelling of each name, ignoring case
    for spelling in sorted(counts, key=lambda text: (-counts[text], text)):
        names.setdefault(spelling.casefold(), spelling)
    name, *aliases = names.values()
    first = mentions[0]  # the id is the same in each run over a corpus
    place = f"{first.document}\n{first.start}\n{first.end}\n{first.text}"
    ((label, _),) = Counter(mention.label for mention in mentions).most_common(1)
    types = [type for type in (linker.search.label_types or {}).get(label, ()) if type]
    mean = corpus.vectors.take(np.array(proposal.members)).mean(axis=0, keepdims=True)
    near = linker.kb.search(mean, _N_NEAREST)
    is_entity = near.numbers[0] >= 0
    labels = linker.kb.labels(near.numbers[0][is_entity])
    scores = near.scores[0][is_entity].tolist()
    return {
        "concept_id": PREFIX + hashlib.blake2b(place.encode(), digest_size=6).hexdigest(),
        "canonical_name": name,
        "aliases": aliases,
        "types": types or ([label] if label not in ("", DEFAULT_LABEL) else []),
        "definition": None,
        "probability": round(proposal.probability, 4),
        "mentions": len(mentions),
        "documents": len({mention.document for mention in mentions}),
        "examples": examples,
        "nearest": [
            {"id": id, "name": name, "score": round(score, 4)}
            for (id, name), score in zip(labels, scores)
        ],
    }


def _examples(
    positions: set[int], corpus: CorpusMentions, parts: Sequence[Path], linking: Linking
) -> dict[int, dict[str, Any]]:
    """Return the mentions at positions of the corpus, with their contexts."""
    examples: dict[int, dict[str, Any]] = {}
    position = 0
    for part, count in zip(parts, corpus.counts):
        if positions.isdisjoint(range(position, position + count)):
            position += count
            continue
        with linking.nlp.memory_zone():
            for _, doc in docs_of(part, linking.nlp):
                text = doc.text
                for _ in mention_spans(doc, linking.linker.spans_key):
                    if position in positions:
                        mention = corpus.mentions[position]
                        examples[position] = {
                            **{name: getattr(mention, name) for name in VIA},
                            "before": text[max(0, mention.start - _CONTEXT) : mention.start],
                            "after": text[mention.end : mention.end + _CONTEXT],
                        }
                    position += 1
    return examples
