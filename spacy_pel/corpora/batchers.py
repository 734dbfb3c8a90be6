"""Batchers that count mentions, not documents."""

# Without "from __future__ import annotations": the registry reads the types of the functions below.

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from spacy.tokens import Span
from spacy.training import Example

from ..errors import PelError
from ..spans import mention_spans
from .doc_conversion import set_mentions

Batcher = Callable[[Iterable[Example]], Iterator[list[Example]]]

# The number of documents whose mentions are shuffled together; they take less than half a GB.
SHUFFLE_BUFFER = 3000

_Document = tuple[Example, list[Span]]  # with its gold mentions
_Mention = tuple[_Document, Span]


def make_mention_batcher(
    size: int, spans_key: str | None = None, shuffle_mentions: bool = False
) -> Batcher:
    """Return a batcher for ``[training.batcher]`` whose batches have the same number of gold mentions.

    A batch has copies of documents, each with its mentions in the batch. Documents without mentions are
    left out. The order depends on the state of ``random``, which spaCy sets, when the batcher starts.

    Args:
        size: The number of mentions of a batch.
        spans_key: Where the mentions are, as in the corpus.
        shuffle_mentions: Whether to shuffle mentions one by one, those of 3,000 documents at a time.
            Otherwise a batch has the mentions of a few documents, which are similar. Shuffle them if
            each is read in a text of its own (``spacy-pel.BiEncoder.v1``,
            ``spacy-pel.CrossEncoder.v1``), not if a document is encoded once for all its mentions.
    """
    if size < 1:
        raise PelError(f"the batch size is {size} mentions", "set it to 1 or more")

    def all_mentions(examples: Iterator[Example]) -> Iterator[_Mention]:
        rng = _rng() if shuffle_mentions else None
        while buffer := list(islice(examples, SHUFFLE_BUFFER if rng else 1)):
            mentions = _mentions(buffer, spans_key)
            if rng:
                rng.shuffle(mentions)
            yield from mentions

    def batches(examples: Iterable[Example]) -> Iterator[list[Example]]:
        mentions = all_mentions(iter(examples))
        while batch := list(islice(mentions, size)):
            yield _examples(batch, spans_key)

    return batches


def make_entity_batcher(
    size: int, per_entity: int = 2, spans_key: str | None = None, documents: int = 20_000
) -> Batcher:
    """Return a batcher for ``[training.batcher]`` whose batches have several mentions of each entity.

    It is for losses over pairs of mentions. The mentions of an entity are shuffled and split into
    groups, which are also shuffled. The last group of an entity may be smaller.

    Args:
        size: The number of mentions of a batch; 2N in KRISSBERT's Eq. 2, where it is 512.
        per_entity: The number of mentions of an entity in a batch.
        spans_key: Where the mentions are, as in the corpus.
        documents: The number of documents that are grouped together, in memory. In a larger corpus
            the mentions of an entity should be adjacent, as in the output of "pel mentions".
    """
    if not 2 <= per_entity <= size:
        problem = f"a batch of {size} mentions, with {per_entity} of an entity"
        raise PelError(problem, "give 2 or more of an entity, and at least that size")

    def batches(examples: Iterable[Example]) -> Iterator[list[Example]]:
        rng = _rng()
        examples = iter(examples)
        while buffer := list(islice(examples, documents)):
            by_entity: defaultdict[str, list[_Mention]] = defaultdict(list)
            for document, mention in _mentions(buffer, spans_key):
                by_entity[mention.kb_id_].append((document, mention))
            groups = []
            for mentions in by_entity.values():
                rng.shuffle(mentions)
                starts = range(0, len(mentions), per_entity)
                groups += [mentions[start : start + per_entity] for start in starts]
            rng.shuffle(groups)
            while groups:
                batch = groups.pop()
                while groups and len(batch) + len(groups[-1]) <= size:
                    batch += groups.pop()
                yield _examples(batch, spans_key)

    return batches


def _rng() -> random.Random:
    return random.Random(random.getrandbits(64))


def _mentions(examples: Iterable[Example], spans_key: str | None) -> list[_Mention]:
    """Return the mentions of examples, each with its document."""
    documents = ((e, mention_spans(e.reference, spans_key)) for e in examples)
    return [(document, mention) for document in documents for mention in document[1]]


def _examples(batch: Iterable[_Mention], spans_key: str | None) -> list[Example]:
    """Return the documents of mentions, with only these mentions."""
    by_document: dict[int, tuple[_Document, list[Span]]] = {}
    for document, mention in batch:
        by_document.setdefault(id(document), (document, []))[1].append(mention)
    examples = []
    for (example, all_mentions), mentions in by_document.values():
        if len(mentions) < len(all_mentions):
            reference = example.reference.copy()
            spans = [Span(reference, m.start, m.end, m.label, kb_id=m.kb_id) for m in mentions]
            set_mentions(reference, spans, spans_key)
            example = Example(example.predicted, reference)
        examples.append(example)
    return examples
