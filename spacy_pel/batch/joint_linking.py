"""Joint linking of all mentions of a corpus (ArboEL, 2.3 and A.2).

Each mention is linked by itself. Then mentions that probably mean the same are joined in clusters. All
mentions of a cluster get its entity, and a cluster has at most one.
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
    """Return a linker's calibrated settings of joint linking; PelError if it has none."""
    settings = linker.fitting(linker.joint)
    if settings is None or linker.fitting(linker.ranking) is None:
        raise PelError(
            f'"{linker.name}" is not calibrated to link jointly',
            "run: python -m spacy pel calibrate PIPELINE DEV --jointly",
        )
    return settings


@contextmanager
def with_settings(linker: object, **settings: Any) -> Iterator[None]:
    """Change settings of a linker, or of a group of its settings, within a ``with`` block."""
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
    """Return the clusters of the mentions of a corpus, and the ids that their entity numbers stand for."""
    ids, entities = numbered_ids([mention.id for mention in mentions])
    probabilities = np.array([mention.probability for mention in mentions])
    neighbours = mention_neighbours(vectors, counted.k)
    return joint_clusters(neighbours, entities, probabilities, settings, counted), ids


def numbered_ids(ids: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Return the distinct ids, sorted, and the position of each id among them, int64 [n]; -1 for ""."""
    distinct = sorted(set(ids) | {""})  # "" comes first
    numbers = {id: number for number, id in enumerate(distinct, -1)}
    return distinct[1:], np.array([numbers[id] for id in ids], dtype=np.int64)


class CorpusMentions(NamedTuple):
    """The mentions of a corpus, in their order, and their vectors.

    ``counts`` has the number of mentions of each part.
    """

    mentions: list[CorpusMention]
    vectors: VectorMatrix
    counts: list[int]


def write_corpus_part(
    linker: ProxyLinker, docs: Iterable[tuple[int, Doc]], spans_key: str | None, path: Path
) -> None:
    """Write the docs of a block with their mentions and vectors, for when all blocks are linked.

    It is an ``Output.write_part``. The docs are linked as they are iterated.
    """
    doc_bin, numbers = DocBin(store_user_data=True), []
    mentions: list[CorpusMention] = []
    vectors = [np.empty((0, linker.retriever.get_dim("nO")), np.float32)]
    with with_settings(linker.output, vectors=True):
        for number, doc in docs:
            doc_mentions, doc_vectors = take_mentions(doc, document_id(number, doc), spans_key)
            doc_bin.add(doc)
            numbers.append(number)
            mentions += doc_mentions
            if doc_mentions:
                vectors.append(doc_vectors)
    with path.open("wb") as file:
        np.savez(
            file,
            docs=np.frombuffer(doc_bin.to_bytes(), dtype=np.uint8),
            numbers=np.array(numbers, dtype=np.int64),
            mentions=np.frombuffer(json.dumps(mentions).encode(), dtype=np.uint8),
            vectors=np.concatenate(vectors),
        )


def write_jointly(
    nlp: Language,
    linker: ProxyLinker,
    output: Output,
    parts: Sequence[Path],
    path: Path,
) -> None:
    """Link the mentions of a corpus jointly, and write the docs to a file.

    ``parts`` are files of ``write_corpus_part``. The mentions and their graph are in memory; the vectors and
    the documents stay in files.
    """
    corpus = corpus_mentions(linker, parts, path)
    mentions, vectors = corpus.mentions, corpus.vectors
    settings, key = joint_settings(linker), linker.spans_key
    clusters, ids = clusters_of(mentions, vectors, settings, settings.linking)
    entities, through = clusters.entities.tolist(), clusters.through.tolist()
    links = (
        JointLink(
            "" if entity < 0 else ids[entity],
            None if via < 0 else mentions[via],
            vectors.take(np.array([row]))[0],
        )
        for row, (entity, via) in enumerate(zip(entities, through))
    )

    def linked(docs: Iterable[tuple[int, Doc]]) -> Iterator[tuple[int, Doc]]:
        for number, doc in docs:
            doc_links = [next(links) for _ in mention_spans(doc, key)]
            write_joint_links(doc, doc_links, linker.kb, key, linker.output.xrefs or ())
            yield number, doc

    linked_parts = [path.with_name(f"{number}.joint") for number in range(len(parts))]
    for part, linked_part in zip(parts, linked_parts):
        with nlp.memory_zone():
            output.write_part(linked(docs_of(part, nlp)), key, linked_part)
    output.join(linked_parts, path)


def docs_of(part: Path, nlp: Language) -> Iterator[tuple[int, Doc]]:
    """Yield the docs of a part, with their numbers in the input."""
    with np.load(part) as arrays:
        docs, numbers = arrays["docs"].tobytes(), arrays["numbers"].tolist()
    yield from zip(numbers, DocBin().from_bytes(docs).get_docs(nlp.vocab))


def corpus_mentions(linker: ProxyLinker, parts: Sequence[Path], path: Path) -> CorpusMentions:
    """Return the mentions of parts. Their vectors are copied to a file in the folder of ``path``."""
    mentions: list[CorpusMention] = []
    counts = []
    for part in parts:
        with np.load(part) as arrays:
            rows = json.loads(arrays["mentions"].tobytes())
        for row in rows:
            # Most of the texts recur: labels, ids, names.
            fields: list[Any] = [intern(v) if isinstance(v, str) else v for v in row]
            mentions.append(CorpusMention(*fields))
        counts.append(len(rows))
    logger.info("linked %s mentions one by one; joining them", f"{len(mentions):,}")
    shape = (len(mentions), linker.retriever.get_dim("nO"))
    if not mentions:  # an empty file cannot be mapped
        return CorpusMentions([], VectorMatrix(np.empty(shape, dtype=np.float32)), counts)
    vectors_path = path.with_name("vectors.npy")
    vectors = np.lib.format.open_memmap(vectors_path, "w+", dtype=np.float32, shape=shape)
    ends = np.cumsum(counts)
    for part, start, end in zip(parts, ends - counts, ends):
        with np.load(part) as arrays:
            vectors[start:end] = arrays["vectors"]
    vectors.flush()
    del vectors
    return CorpusMentions(mentions, VectorMatrix.opened(vectors_path), counts)
