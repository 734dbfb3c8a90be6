"""Mentions of a whole corpus, linked together: each link may come through another mention.

Each mention is linked by itself. Then mentions that probably mean the same are joined in clusters with
one entity at most, which all mentions of a cluster get (ArboEL, 2.3 and A.2).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from sys import intern
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc, DocBin

from ..coreference.clusters import Clusters
from ..coreference.joint import JointSettings, Neighbourhood, joint_clusters, mention_neighbours
from ..corpora.formats.base import Output, document_id
from ..errors import PelError
from ..kb.vectors.matrix import VectorMatrix
from ..pipeline.joint_annotations import CorpusMention, JointLink, take_mentions, write_joint_links
from ..spans import mention_spans

if TYPE_CHECKING:
    from ..pipeline.proxy_linker import ProxyLinker


logger = logging.getLogger(__name__)


def joint_settings(linker: ProxyLinker) -> JointSettings:
    """How a linker links jointly; PelError if that was not fitted to its scores."""
    settings = linker.fitting(linker.joint)
    if settings is None or linker.fitting(linker.ranking) is None:
        raise PelError(
            f'"{linker.name}" is not calibrated to link jointly',
            "run: python -m spacy pel calibrate PIPELINE DEV --jointly",
        )
    return settings


@contextmanager
def with_settings(linker: object, **settings: Any) -> Iterator[None]:
    """Within the block, a linker, or a group of its settings, has these settings."""
    before = {name: getattr(linker, name) for name in settings}
    for name, value in settings.items():
        setattr(linker, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(linker, name, value)


def clusters_of(
    mentions: Sequence[CorpusMention],
    vectors: VectorMatrix,
    settings: JointSettings,
    counted: Neighbourhood,
) -> tuple[Clusters, list[str]]:
    """The clusters of the mentions of a corpus, and the ids of the entities that they name.

    Each mention was linked by itself.
    """
    ids, entities = numbered_ids([mention.id for mention in mentions])
    probabilities = np.array([mention.probability for mention in mentions])
    neighbours = mention_neighbours(vectors, counted.k)
    return joint_clusters(neighbours, entities, probabilities, settings, counted), ids


def numbered_ids(ids: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The distinct ids, sorted, and the number of each given one, int64 [n]; -1 for ""."""
    distinct = sorted(set(ids) | {""})  # "" comes first
    numbers = {id: number for number, id in enumerate(distinct, -1)}
    return distinct[1:], np.array([numbers[id] for id in ids], dtype=np.int64)


class CorpusMentions(NamedTuple):
    """The mentions of a corpus, in their order, without their documents."""

    mentions: list[CorpusMention]
    vectors: VectorMatrix  # in a file or in memory
    counts: list[int]  # of the mentions of each part


def write_corpus_part(
    linker: ProxyLinker, docs: Iterable[tuple[int, Doc]], spans_key: str | None, path: Path
) -> None:
    """Keep a block of a corpus until all blocks are seen: docs, mentions, vectors.

    It is an ``Output.write_part``. The docs are linked while they are taken.
    """
    kept, numbers, mentions = DocBin(store_user_data=True), [], []
    vectors = [np.empty((0, linker.retriever.width), np.float32)]
    with with_settings(linker.output, vectors=True):
        for number, doc in docs:
            own, of_own = take_mentions(doc, document_id(number, doc), spans_key)
            kept.add(doc)
            numbers.append(number)
            mentions += own
            vectors += [of_own] * bool(own)
    with open(path, "wb") as file:
        np.savez(
            file,
            docs=np.frombuffer(kept.to_bytes(), dtype=np.uint8),
            numbers=np.array(numbers, dtype=np.int64),
            mentions=np.frombuffer(json.dumps(mentions).encode(), dtype=np.uint8),
            vectors=np.concatenate(vectors),
        )


def write_jointly(
    nlp: Language,
    linker: ProxyLinker,
    written: Output,
    parts: Sequence[Path],
    path: Path,
) -> None:
    """Link the mentions of a corpus together, and write the docs to a file.

    ``parts`` are files of ``write_corpus_part``. Memory holds the mentions and the graph of them.
    Their vectors, and the documents, are in files.
    """
    mentions, vectors, _ = corpus_mentions(linker, parts, path)
    settings, key = joint_settings(linker), linker.spans_key
    found, ids = clusters_of(mentions, vectors, settings, settings.linking)
    links = (
        JointLink(
            "" if entity < 0 else ids[entity],
            None if via < 0 else mentions[via],
            vectors.take(np.array([row]))[0],
        )
        for row, (entity, via) in enumerate(zip(found.entities.tolist(), found.through.tolist()))
    )

    def linked(docs: Iterable[tuple[int, Doc]]) -> Iterator[tuple[int, Doc]]:
        for number, doc in docs:
            own = [next(links) for _ in mention_spans(doc, key)]
            write_joint_links(doc, own, linker.kb, key, linker.output.xrefs or ())
            yield number, doc

    done = [path.with_name(f"{number}.joint") for number in range(len(parts))]
    for part, own in zip(parts, done):
        with nlp.memory_zone():
            written.write_part(linked(docs_of(part, nlp)), key, own)
    written.join(done, path)


def docs_of(part: Path, nlp: Language) -> Iterator[tuple[int, Doc]]:
    """The docs of a part, with their numbers in the input."""
    with np.load(part) as arrays:
        docs, numbers = arrays["docs"].tobytes(), arrays["numbers"].tolist()
    yield from zip(numbers, DocBin().from_bytes(docs).get_docs(nlp.vocab))


def corpus_mentions(linker: ProxyLinker, parts: Sequence[Path], path: Path) -> CorpusMentions:
    """The mentions of parts. Their vectors are gathered in a file in the folder of ``path``."""
    mentions: list[CorpusMention] = []
    counts = []
    for part in parts:
        with np.load(part) as arrays:
            own = json.loads(arrays["mentions"].tobytes())
        mentions += [CorpusMention(*(intern(v) if type(v) is str else v for v in m)) for m in own]
        counts.append(len(own))
    logger.info("All %s mentions are linked by themselves; joining them", f"{len(mentions):,}")
    shape = (len(mentions), linker.retriever.width)
    if not mentions:  # an empty file cannot be mapped
        return CorpusMentions([], VectorMatrix(np.empty(shape, dtype=np.float32)), counts)
    gathered = path.with_name("vectors.npy")
    rows = np.lib.format.open_memmap(gathered, "w+", dtype=np.float32, shape=shape)
    ends = np.cumsum(counts)
    for part, start, end in zip(parts, ends - counts, ends):
        with np.load(part) as arrays:
            rows[start:end] = arrays["vectors"]
    rows.flush()
    del rows
    return CorpusMentions(mentions, VectorMatrix.opened(gathered), counts)
