"""Entities that a knowledge base lacks, found in files: written as a source of a KB."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from spacy.language import Language

from ..documents import open_documents
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
    pairs_of_parts,
    with_settings,
)
from .link import link_blocks
from .proposals import Proposal, proposal_records, proposals
from .proposals_page import page_of

if TYPE_CHECKING:
    from .link_docs import Linking

_CONTEXT = 120  # characters shown before a mention, and after it


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
            what,
            progress,
            partial(_write_proposals, linking, least_mentions, progress.say),
        )
    page = target.with_suffix(".html")
    with open(target, encoding="utf8") as lines, whole_file(page) as file:
        records = [json.loads(line) for line in lines]
        file.write(page_of(records))
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
    corpus = corpus_mentions(parts, path.with_name("vectors.npy"), linker.retriever.width, say)
    pairs = pairs_of_parts(linker, nlp, parts)
    found, _ = clusters_of(corpus.mentions, corpus.vectors, settings, settings.discovery, pairs)
    all_found = proposals(corpus.mentions, found)
    kept = [own for own in all_found if len(own.members) >= least_mentions]
    examples = _examples(kept, corpus, parts, nlp, linker.spans_key)
    records = proposal_records(kept, corpus.mentions, corpus.vectors.take, examples, linker)
    with open(path, "w", encoding="utf8") as file:
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


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
        places = [place for place in range(first, first + count) if place in shown]
        if places:
            with nlp.memory_zone():
                texts = list(_texts(part, nlp, spans_key))
                for place in places:
                    mention = corpus.mentions[place]
                    examples[place] = _in_context(texts[place - first], mention)
        first += count
    return examples


def _texts(part: Path, nlp: Language, spans_key: str | None) -> Iterator[str]:
    """The text of the document of each mention of a part."""
    for _, doc in docs_of(part, nlp):
        text = doc.text
        for _ in mention_spans(doc, spans_key):
            yield text


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
