"""Entities that a knowledge base lacks, proposed from clusters of mentions (ArboEL, 3.5).

They are written as a source of a KB, and as a page to look at.
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

from ..corpora import open_documents
from ..corpora.doc_conversion import DEFAULT_LABEL
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
from .link import block_size, link_job, linking_settings

if TYPE_CHECKING:
    from ..coreference.clusters import Clusters
    from ..pipeline.proxy_linker import ProxyLinker
    from .link_docs import Linking

PREFIX = "NEW:"  # begins the ids of proposals
_NEAREST = 5  # entities shown beside a proposal
_EXAMPLES = 5  # mentions shown of a proposal
_CONTEXT = 120  # characters shown before a mention, and after it
_PAGE = Path(__file__).parent / "page"
_STYLE = Path(__file__).parents[1] / "serve" / "page" / "page.css"  # the look of ``pel serve``


class DiscoveryReport(NamedTuple):
    """What was read and found, and the page that shows the proposals."""

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

    Mentions are linked one by one, or keep the ids and the NIL that they have in the input. Then
    those that probably mean the same are joined. A cluster without an entity is a proposal.
    As for ``link_files``, an interrupted run goes on when it is called again, and ``progress`` shows
    how far it is.

    The output is a JSONL file, and a page beside it with the suffix ".html". PelError if ``pel
    calibrate --jointly`` was not run on the pipeline, the output is not named .jsonl, and for what
    ``link_files`` refuses.
    """
    target = Path(output).resolve()
    if target.suffix != ".jsonl":
        raise PelError(f"{output}: not the name of a JSONL file", "end it in .jsonl")
    source = open_documents(inputs, input_format)
    linker = linking.linker
    joint_settings(linker)  # the error comes before the work
    keep = partial(write_corpus_part, linker)
    write = partial(_write_proposals, linking)
    with with_settings(linker.output, overwrite=linker.output.overwrite and not linking.keep_ids):
        job = link_job(linking, keep, progress)
        settings = {**linking_settings(linking), "way": "discovery"}
        linked = job.to_file(source, target, settings, block_size(), write)
    page = target.with_suffix(".html")
    with open(target, encoding="utf8") as lines, whole_file(page) as file:
        records = [json.loads(line) for line in lines]
        css, script = ((_PAGE / f"proposals.{kind}").read_text("utf8") for kind in ("css", "js"))
        # Nothing in the data may end the script that holds it. It comes last: it may hold any text.
        data = json.dumps(records, ensure_ascii=False).replace("<", "\\u003c")
        text = (_PAGE / "proposals.html").read_text("utf8")
        for place, part in (
            ("STYLE", _STYLE.read_text("utf8") + css),
            ("SCRIPT", script),
            ("DATA", data),
        ):
            text = text.replace(f"/*{place}*/", part, 1)
        file.write(text)
    return DiscoveryReport(linked, len(records), page)


def _write_proposals(linking: Linking, parts: Sequence[Path], path: Path) -> None:
    """Write the proposals of a corpus, of which all blocks are there."""
    linker = linking.linker
    settings = joint_settings(linker)
    corpus = corpus_mentions(linker, parts, path)
    found, _ = clusters_of(corpus.mentions, corpus.vectors, settings, settings.discovery)
    kept = proposals(corpus.mentions, found)
    shown = [own.members[:_EXAMPLES] for own in kept]
    examples = _examples({place for own in shown for place in own}, corpus, parts, linking)
    with open(path, "w", encoding="utf8") as file:
        for own, places in zip(kept, shown):
            record = _record(own, corpus, [examples[place] for place in places], linker)
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


class Proposal(NamedTuple):
    """A cluster of mentions without an entity."""

    members: list[int]  # the places of its mentions in the corpus
    # How sure it is that the KB lacks what they mean: 1 less the mean probability that their best
    # candidates are right.
    sure: float


def proposals(mentions: Sequence[CorpusMention], clusters: Clusters) -> list[Proposal]:
    """The clusters of the mentions of a corpus that have no entity.

    The best come first: by how sure they are, times the root of the number of their mentions.
    """
    members: dict[int, list[int]] = {}
    for place in np.flatnonzero(clusters.entities < 0).tolist():
        members.setdefault(int(clusters.numbers[place]), []).append(place)
    found = [
        Proposal(own, float(1 - np.mean([mentions[place].probability for place in own])))
        for own in members.values()
    ]
    return sorted(found, key=lambda own: (-own.sure * len(own.members) ** 0.5, own.members))


def _record(
    own: Proposal, corpus: CorpusMentions, examples: list[dict[str, Any]], linker: ProxyLinker
) -> dict[str, Any]:
    """A proposal as plain data, which ``pel kb add`` reads."""
    mentions = [corpus.mentions[place] for place in own.members]
    names = Counter(mention.text for mention in mentions)
    sorted_names = sorted(names, key=lambda name: (-names[name], name))
    # Each once, ignoring case.
    name, *aliases = list({n.casefold(): n for n in reversed(sorted_names)}.values())[::-1]
    first = mentions[0]  # which makes the id the same at each run over a corpus
    place = f"{first.document}\n{first.start}\n{first.end}\n{first.text}"
    ((label, _),) = Counter(mention.label for mention in mentions).most_common(1)
    types = [type for type in (linker.search.label_types or {}).get(label, ()) if type]
    mean = corpus.vectors.take(np.array(own.members)).mean(axis=0, keepdims=True)
    near = linker.kb.search(mean, _NEAREST)
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
        "examples": examples,
        "nearest": [
            {"id": id, "name": name, "score": round(score, 4)}
            for (id, name), score in zip(labels, scores)
        ],
    }


def _examples(
    places: set[int], corpus: CorpusMentions, parts: Sequence[Path], linking: Linking
) -> dict[int, dict[str, Any]]:
    """The mentions at these places of the corpus, in their contexts."""
    examples: dict[int, dict[str, Any]] = {}
    place = 0
    for part, count in zip(parts, corpus.counts):
        if places.isdisjoint(range(place, place + count)):
            place += count
            continue
        with linking.nlp.memory_zone():
            for _, doc in docs_of(part, linking.nlp):
                text = doc.text
                for _ in mention_spans(doc, linking.linker.spans_key):
                    if place in places:
                        mention = corpus.mentions[place]
                        examples[place] = {
                            **{name: getattr(mention, name) for name in VIA},
                            "before": text[max(0, mention.start - _CONTEXT) : mention.start],
                            "after": text[mention.end : mention.end + _CONTEXT],
                        }
                    place += 1
    return examples
