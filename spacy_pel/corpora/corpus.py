"""Annotated documents as spaCy Examples."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice

from spacy.language import Language
from spacy.tokens import Span
from spacy.training import Example
from spacy.util import filter_spans

from ..documents.docs import set_mentions, span_of, tokenized
from ..documents.document import Document
from ..errors import PelError
from ..spans import NIL

logger = logging.getLogger(__name__)


class Corpus:
    """Examples of annotated documents, read again at every call. A subclass gives the sources.

    A mention's ``kb_id_`` is its ids joined by "|", or "NIL"; read it with ``gold_ids``. Tokens are
    the tokenizer's, split at each edge of a mention that falls inside one. The document's id is
    ``doc.user_data["id"]``. Documents without any text are passed over, as spaCy's own corpora do.

    Args:
        limit: The number of documents taken from each source, for example a file; 0 takes all.
        spans_key: Where the mentions stand: ``doc.spans[spans_key]``, or ``doc.ents`` if None. The
            latter holds no overlaps: of overlapping mentions the longest stays, and the number left
            out is logged as a warning.
        gold_mentions: Whether the predicted docs carry the mentions, with labels and without ids,
            so that linking alone is trained and scored. False leaves them to the pipeline.
        labels: New labels of mentions, by the labels in the source. A label that is not there stays.

    Raises:
        PelError: If the limit is negative.
    """

    def __init__(
        self,
        *,
        limit: int = 0,
        spans_key: str | None = None,
        gold_mentions: bool = True,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        if limit < 0:
            raise PelError(f"limit of a corpus is {limit}", "set it to 0 to read all")
        self.limit = limit
        self.spans_key = spans_key
        self.gold_mentions = gold_mentions
        self.labels = labels or {}

    def documents_by_source(self) -> Iterator[tuple[str, Iterator[Document]]]:
        """The sources that the limit counts for: a name, for messages, and all documents of each.

        Their ``mentions`` are never None: nothing is to be found in a corpus.
        """
        raise NotImplementedError

    def documents(self) -> Iterator[Document]:
        """The documents as annotated; raises PelError where a source breaks its format."""
        for _, documents in self.documents_by_source():
            yield from islice(documents, self.limit or None)

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Yield an Example a document.

        The counts of a source are logged when it is first read to its end.

        Args:
            nlp: The pipeline whose tokenizer makes the tokens.

        Raises:
            PelError: Where a source breaks its format, and as ``tokenized`` does.
        """
        for name, documents in self.documents_by_source():
            counts: Counter[str] = Counter()
            for document in islice(documents, self.limit or None):
                if document.text:
                    yield self._example(nlp, name, document, counts)
            _report(name, counts)

    def _example(self, nlp: Language, name: str, document: Document, counts: Counter) -> Example:
        try:
            reference, n_split = tokenized(nlp, document)
        except PelError as error:
            raise error.at(name) from error
        predicted = reference.copy()
        mentions = [
            mention._replace(label=self.labels.get(mention.label, mention.label))
            for mention in document.mentions or ()
        ]
        spans = [span_of(reference, mention, "|".join(mention.ids) or NIL) for mention in mentions]
        kept = spans if self.spans_key else filter_spans(spans)
        set_mentions(reference, kept, self.spans_key)
        if self.gold_mentions:
            bare = [Span(predicted, span.start, span.end, span.label) for span in kept]
            set_mentions(predicted, bare, self.spans_key)
        counts.update(
            documents=1, mentions=len(spans), left_out=len(spans) - len(kept), split=n_split
        )
        return Example(predicted, reference)


def _report(name: str, counts: Counter) -> None:
    _log_once(
        logging.INFO,
        f"{name}: {counts['documents']:,} documents, {counts['mentions']:,} mentions, "
        f"{counts['left_out']:,} left out, {counts['split']:,} tokens split",
    )
    if counts["left_out"]:
        _log_once(
            logging.WARNING,
            f"{name}: {counts['left_out']:,} of {counts['mentions']:,} mentions left out, as they "
            "overlap a longer one and doc.ents allows no overlap; set spans_key to keep them",
        )


@lru_cache(maxsize=64)  # a corpus is read every epoch, and a config makes it more than once
def _log_once(level: int, message: str) -> None:
    logger.log(level, message)
