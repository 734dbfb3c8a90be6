"""Batches by their number of mentions, which is what a linker's batch size means."""

# Without "from __future__ import annotations": the registry reads the types of the function below.

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

from spacy.tokens import Span
from spacy.training import Example

from ..errors import PelError
from ..spans import mention_spans

Batcher = Callable[[Iterable[Example]], Iterator[list[Example]]]


def make_mention_batcher(size: int, spans_key: str | None = None) -> Batcher:
    """Return a batcher whose batches have ``size`` gold mentions each, for ``[training.batcher]``.

    The mentions stay in their order. If a batch is full in the middle of a document, the next batch
    begins with a copy of the document that has the remaining mentions. So documents are shuffled,
    and not single mentions. Documents without a mention, which teach a linker nothing, are left
    out.

    Args:
        size: The number of mentions of a batch.
        spans_key: Where the mentions stand, as in the corpus.

    Raises:
        PelError: If the size is not positive.
    """
    if size < 1:
        raise PelError(f"size of a batch by mentions is {size}", "set it to 1 or more")

    def batches(examples: Iterable[Example]) -> Iterator[list[Example]]:
        batch: list[Example] = []
        room = size
        for example in examples:
            mentions = iter(mention_spans(example.reference, spans_key))
            while part := list(islice(mentions, room)):
                batch.append(_with_mentions(example, part, spans_key))
                room -= len(part)
                if not room:
                    yield batch
                    batch, room = [], size
        if batch:
            yield batch

    return batches


def _with_mentions(example: Example, mentions: Sequence[Span], spans_key: str | None) -> Example:
    """The example with only these of its gold mentions; itself if they are all."""
    if len(mentions) == len(mention_spans(example.reference, spans_key)):
        return example
    reference = example.reference.copy()
    spans = [Span(reference, m.start, m.end, m.label, kb_id=m.kb_id) for m in mentions]
    if spans_key:
        reference.spans[spans_key] = spans
    else:
        reference.ents = spans
    return Example(example.predicted, reference)
