"""Batches by their number of mentions, which is what a linker's batch size means."""

# Without "from __future__ import annotations": the registry reads the types of the function below.

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from spacy.tokens import Span
from spacy.training import Example

from ..errors import PelError
from ..spans import mention_spans

Batcher = Callable[[Iterable[Example]], Iterator[list[Example]]]

# The number of documents whose mentions are shuffled together. They are in memory: an abstract takes
# 150 KB, so these take less than half a GB.
SHUFFLED_DOCUMENTS = 3000


class DocumentMentions(NamedTuple):
    """An example with its gold mentions."""

    example: Example
    mentions: Sequence[Span]

    @classmethod
    def of(cls, example: Example, spans_key: str | None) -> "DocumentMentions":
        """Those of an example."""
        return cls(example, mention_spans(example.reference, spans_key))


def make_mention_batcher(
    size: int, spans_key: str | None = None, shuffle_mentions: bool = False
) -> Batcher:
    """Make a batcher whose batches have the same number of gold mentions, for ``[training.batcher]``.

    A batch has a copy of each document that has only those of its mentions that are in the batch.
    Documents without a mention, which teach a linker nothing, are left out.

    Args:
        size: The number of mentions of a batch.
        spans_key: Where the mentions are, as in the corpus.
        shuffle_mentions: Whether mentions are shuffled one by one. If not, they stay in the order of
            their documents, which spaCy shuffles: a batch then has the mentions of a few documents,
            which are alike. Shuffle them if each is read in a text of its own
            (``spacy-pel.BiEncoder.v1``, ``spacy-pel.CrossEncoder.v1``), not if a document is read
            once for all its mentions: it would be read again for nearly each of them. The mentions
            of 3,000 documents are shuffled at a time.

    Returns:
        The batcher. Its order follows from the state of ``random`` when it begins, which spaCy sets.

    Raises:
        PelError: The size is not positive.
    """
    if size < 1:
        raise PelError(f"size of a batch by mentions is {size}", "set it to 1 or more")

    def batches(examples: Iterable[Example]) -> Iterator[list[Example]]:
        documents = (DocumentMentions.of(example, spans_key) for example in examples)
        mentions = _shuffled(documents) if shuffle_mentions else mentions_in_order(documents)
        while batch := list(islice(mentions, size)):
            yield examples_of(batch, spans_key)

    return batches


def mentions_in_order(
    documents: Iterable[DocumentMentions],
) -> Iterator[tuple[DocumentMentions, Span]]:
    """The mentions of the documents, each with its document."""
    return ((document, mention) for document in documents for mention in document.mentions)


def _shuffled(documents: Iterator[DocumentMentions]) -> Iterator[tuple[DocumentMentions, Span]]:
    """The same, shuffled."""
    # All is drawn from one seed. A training that goes on from a checkpoint restores the state that
    # ``random`` had at the beginning of the epoch, and no later one.
    rng = random.Random(random.getrandbits(64))
    while some := list(islice(documents, SHUFFLED_DOCUMENTS)):
        mentions = list(mentions_in_order(some))
        rng.shuffle(mentions)
        yield from mentions


def examples_of(
    batch: Iterable[tuple[DocumentMentions, Span]], spans_key: str | None
) -> list[Example]:
    """The documents of mentions, each with those of its mentions that are given."""
    found: dict[int, tuple[DocumentMentions, list[Span]]] = {}
    for document, mention in batch:
        found.setdefault(id(document), (document, []))[1].append(mention)
    return [_with_mentions(*each, spans_key) for each in found.values()]


def _with_mentions(
    document: DocumentMentions, mentions: Sequence[Span], spans_key: str | None
) -> Example:
    """The example with only these of its gold mentions; itself if they are all."""
    example = document.example
    if len(mentions) == len(document.mentions):
        return example
    reference = example.reference.copy()
    spans = [Span(reference, m.start, m.end, m.label, kb_id=m.kb_id) for m in mentions]
    if spans_key:
        reference.spans[spans_key] = spans
    else:
        reference.ents = spans
    return Example(example.predicted, reference)
