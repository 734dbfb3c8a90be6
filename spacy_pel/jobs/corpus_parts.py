"""Parts of a corpus whose mentions were linked one by one, kept until all of them are seen."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from sys import intern
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc, DocBin

from ..documents.format import Output, document_id
from ..pipeline.joint_answers import CorpusMention, take_mentions
from ..spans import mention_spans
from .joint_linking import joint_links, joint_settings, paired_mentions, write_links

if TYPE_CHECKING:
    from ..kb.vectors.matrix import VectorMatrix
    from ..linking.paired_mentions import PairedMentions
    from ..pipeline.proxy_linker import ProxyLinker

VECTORS = "vectors.npy"


class CorpusMentions(NamedTuple):
    """The mentions of all parts, without their documents.

    Attributes:
        mentions: The mentions, in their order.
        vectors: Their vectors, in a file.
        counts: The number of mentions of each part.
    """

    mentions: list[CorpusMention]
    vectors: VectorMatrix
    counts: list[int]


class CorpusOutput:
    """An output that is made of the whole corpus: by ``finish``, when all parts are there.

    Memory holds the mentions and the graph of them. Their vectors, and the documents, are in files.

    Args:
        nlp: The pipeline that links.
        linker: The linker of it, with the setting ``vectors``.
        finish: Makes the output: it is given the mentions, the parts, and the path to write.
        say: Called with what the user should know, in a line.
    """

    def __init__(
        self,
        nlp: Language,
        linker: ProxyLinker,
        finish: Callable[[CorpusMentions, Sequence[Path], Path], None],
        say: Callable[[str], object],
    ) -> None:
        self.nlp = nlp
        self.linker = linker
        self._finish = finish
        self._say = say

    def write_part(
        self, docs: Iterable[tuple[int, Doc]], spans_key: str | None, path: Path
    ) -> None:
        """See ``documents.format.Output``. A part has the docs, the mentions and their vectors."""
        kept, numbers, mentions = DocBin(store_user_data=True), [], []
        vectors: list[np.ndarray] = []
        for number, doc in docs:
            own, of_own = take_mentions(doc, document_id(number, doc), spans_key)
            kept.add(doc)
            numbers.append(number)
            mentions += own
            vectors += list(of_own)
        width = self.linker.retriever.width
        with open(path, "wb") as file:
            np.savez(
                file,
                docs=np.frombuffer(kept.to_bytes(), dtype=np.uint8),
                numbers=np.array(numbers, dtype=np.int64),
                mentions=np.frombuffer(json.dumps(mentions).encode(), dtype=np.uint8),
                vectors=np.array(vectors, dtype=np.float32).reshape(-1, width),
            )

    def join(self, parts: Sequence[Path], path: Path) -> None:
        """See ``documents.format.Output``."""
        corpus = _corpus(parts, self.linker.retriever.width)
        self._say(f"All {len(corpus.mentions):,} mentions are linked by themselves; joining them")
        self._finish(corpus, parts, path)


def joint_output(
    nlp: Language, linker: ProxyLinker, written: Output, say: Callable[[str], object]
) -> CorpusOutput:
    """The output of documents whose mentions are linked jointly, in the format of another output.

    Raises:
        PelError: The linker is not calibrated for it.
    """
    settings = joint_settings(linker)

    def finish(corpus: CorpusMentions, parts: Sequence[Path], path: Path) -> None:
        pairs = pairs_of_parts(linker, nlp, parts)
        links = joint_links(corpus.mentions, corpus.vectors, settings, settings.linking, pairs)

        def linked(docs: Iterable[tuple[int, Doc]]) -> Iterator[tuple[int, Doc]]:
            for number, doc in docs:
                own = mention_spans(doc, linker.spans_key)
                write_links(linker, doc, [next(links) for _ in own])
                yield number, doc

        done = [part.with_suffix(".joint") for part in parts]
        for part, own in zip(parts, done):
            with nlp.memory_zone():
                written.write_part(linked(docs_of(part, nlp)), linker.spans_key, own)
        written.join(done, path)

    return CorpusOutput(nlp, linker, finish, say)


def docs_of(part: Path, nlp: Language) -> Iterator[tuple[int, Doc]]:
    """The docs of a part, with their numbers in the input."""
    with np.load(part) as arrays:
        docs, numbers = arrays["docs"].tobytes(), arrays["numbers"].tolist()
    yield from zip(numbers, DocBin().from_bytes(docs).get_docs(nlp.vocab))


def pairs_of_parts(
    linker: ProxyLinker, nlp: Language, parts: Sequence[Path]
) -> PairedMentions | None:
    """What reads the mentions of parts in pairs; see ``paired_mentions``. Their tokens are held."""
    with nlp.memory_zone():
        return paired_mentions(linker, (doc for part in parts for _, doc in docs_of(part, nlp)))


def _corpus(parts: Sequence[Path], width: int) -> CorpusMentions:
    """The mentions of parts. Their vectors are gathered in a file beside these."""
    from ..kb.vectors.matrix import VectorMatrix

    mentions: list[CorpusMention] = []
    counts = []
    for part in parts:
        with np.load(part) as arrays:
            own = json.loads(arrays["mentions"].tobytes())
        mentions += [CorpusMention(*(intern(v) if type(v) is str else v for v in m)) for m in own]
        counts.append(len(own))
    if not mentions:
        return CorpusMentions([], VectorMatrix(np.empty((0, width), dtype=np.float32)), counts)
    gathered = parts[0].with_name(VECTORS)
    shape = (len(mentions), width)
    rows = np.lib.format.open_memmap(gathered, "w+", dtype=np.float32, shape=shape)
    start = 0
    for part, count in zip(parts, counts):
        with np.load(part) as arrays:
            rows[start : start + count] = arrays["vectors"]
        start += count
    rows.flush()
    del rows
    return CorpusMentions(mentions, VectorMatrix.opened(gathered), counts)
