"""Batches by their number of mentions, which is what a linker's batch size means."""

# Without "from __future__ import annotations": the registry reads the types of the functions below.

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from spacy.tokens import Span
from spacy.training import Example

from ..documents.docs import set_mentions
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


_Mention = tuple[DocumentMentions, Span]


def make_mention_batcher(
    size: int, spans_key: str | None = None, shuffle_mentions: bool = False
) -> Batcher:
    """Make a batcher whose batches have the same number of gold mentions, for ``[training.batcher]``.

    A batch has a copy of each document that has only those of its mentions that are in the batch.
    Documents without a mention, which teach a linker nothing, are left out. The order follows from
    the state of ``random`` when the batcher begins, which spaCy sets.

    Args:
        size: The number of mentions of a batch.
        spans_key: Where the mentions are, as in the corpus.
        shuffle_mentions: Whether mentions are shuffled one by one, those of 3,000 documents at a
            time. If not, they stay in the order of their documents, which spaCy shuffles: a batch
            then has the mentions of a few documents, which are alike. Shuffle them if each is read
            in a text of its own (``spacy-pel.BiEncoder.v1``, ``spacy-pel.CrossEncoder.v1``), not if
            a document is read once for all its mentions: it would be read again for nearly each.

    Raises:
        PelError: The size is not positive.
    """
    if size < 1:
        raise PelError(f"size of a batch by mentions is {size}", "set it to 1 or more")

    def batches(examples: Iterable[Example]) -> Iterator[list[Example]]:
        # All is drawn from one seed. A training that goes on from a checkpoint restores the state
        # that ``random`` had at the beginning of the epoch, and no later one.
        rng = random.Random(random.getrandbits(64)) if shuffle_mentions else None
        mentions = _mentions(examples, spans_key, rng)
        while batch := list(islice(mentions, size)):
            yield examples_of(batch, spans_key)

    return batches


def _mentions(
    examples: Iterable[Example], spans_key: str | None, rng: random.Random | None
) -> Iterator[_Mention]:
    """All mentions with their documents, shuffled if there is a generator."""
    examples = iter(examples)
    while some := list(islice(examples, SHUFFLED_DOCUMENTS if rng else 1)):
        mentions = mentions_of(some, spans_key)
        if rng:
            rng.shuffle(mentions)
        yield from mentions


def mentions_of(examples: Iterable[Example], spans_key: str | None) -> list[_Mention]:
    """The mentions of the examples, each with its document."""
    documents = (DocumentMentions(e, mention_spans(e.reference, spans_key)) for e in examples)
    return [(document, mention) for document in documents for mention in document.mentions]


def examples_of(batch: Iterable[_Mention], spans_key: str | None) -> list[Example]:
    """The documents of mentions, each with those of its mentions that are given."""
    found: dict[int, tuple[DocumentMentions, list[Span]]] = {}
    for document, mention in batch:
        found.setdefault(id(document), (document, []))[1].append(mention)
    examples = []
    for (example, all_mentions), mentions in found.values():
        if len(mentions) < len(all_mentions):
            reference = example.reference.copy()
            spans = [Span(reference, m.start, m.end, m.label, kb_id=m.kb_id) for m in mentions]
            set_mentions(reference, spans, spans_key)
            example = Example(example.predicted, reference)
        examples.append(example)
    return examples
