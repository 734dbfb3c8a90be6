"""Annotated documents as spaCy Examples: corpora of any format that has entity ids, by their names."""

# Without "from __future__ import annotations": the registry reads the types of the functions below.

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Span
from spacy.training import Example
from spacy.util import filter_spans

from ..errors import PelError
from ..spans import NIL
from .doc_conversion import set_mentions, span_of, tokenized
from .document import Document
from .open_documents import RawDocument, open_documents

logger = logging.getLogger(__name__)

# Gives the sources of a corpus: a name, for messages, and the documents of each.
Sources = Callable[[], Iterator[tuple[str, Iterator[Document]]]]


class Corpus:
    """Examples of annotated documents, read again at every call.

    A mention's ``kb_id_`` is its ids joined by "|", or "NIL"; read it with ``gold_ids``. Tokens are
    the tokenizer's, split at each edge of a mention that falls inside one. The document's id is
    ``doc.user_data["id"]``. Documents without any text are passed over, as spaCy's own corpora do.

    Args:
        sources: Gives the sources, each of which is read when it is its turn.
        limit: The number of documents taken from each source, for example a file; 0 takes all.
        spans_key: Where the mentions stand: ``doc.spans[spans_key]``, or ``doc.ents`` if None. The
            latter holds no overlaps: of overlapping mentions the longest stays, and the number left
            out is logged as a warning.
        gold_mentions: Whether the predicted docs carry the mentions, with labels and without ids,
            so that linking alone is trained and scored. False leaves them to the pipeline.
        labels: New labels of mentions, by the labels in the source. A label that is not there stays.

    PelError if the limit is negative.
    """

    def __init__(
        self,
        sources: Sources,
        *,
        limit: int = 0,
        spans_key: str | None = None,
        gold_mentions: bool = True,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        if limit < 0:
            raise PelError(f"limit of a corpus is {limit}", "set it to 0 to read all")
        self.sources = sources
        self.limit = limit
        self.spans_key = spans_key
        self.gold_mentions = gold_mentions
        self.labels = labels or {}

    def documents(self) -> Iterator[Document]:
        """The documents as annotated; raises PelError where a source breaks its format."""
        for _, documents in self.sources():
            yield from islice(documents, self.limit or None)

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Yield an Example a document, with the tokens of this pipeline's tokenizer.

        The counts of a source are logged when it is first read to its end. PelError where a source
        breaks its format, and as of ``tokenized``.
        """
        for name, documents in self.sources():
            counts: Counter[str] = Counter()
            for document in islice(documents, self.limit or None):
                if document.text:
                    yield self._example(nlp, name, document, counts)
            _log_once(
                logging.INFO,
                f"{name}: {counts['documents']:,} documents, {counts['mentions']:,} mentions, "
                f"{counts['left_out']:,} left out, {counts['split']:,} tokens split",
            )
            if counts["left_out"]:
                left_out = f"{counts['left_out']:,} of {counts['mentions']:,} mentions left out"
                why = "as they overlap a longer one and doc.ents allows no overlap"
                _log_once(logging.WARNING, f"{name}: {left_out}, {why}; set spans_key to keep them")

    def _example(self, nlp: Language, name: str, document: Document, counts: Counter) -> Example:
        try:
            reference, n_split = tokenized(nlp, document)
        except PelError as error:
            raise error.at(name) from error
        reference.user_data["source"] = name
        predicted = reference.copy()
        spans = []
        for mention in document.mentions:
            labelled = mention._replace(label=self.labels.get(mention.label, mention.label))
            spans.append(span_of(reference, labelled, "|".join(mention.ids) or NIL))
        kept = spans if self.spans_key else filter_spans(spans)
        set_mentions(reference, kept, self.spans_key)
        if self.gold_mentions:
            bare = [Span(predicted, span.start, span.end, span.label) for span in kept]
            set_mentions(predicted, bare, self.spans_key)
        counts.update(
            documents=1, mentions=len(spans), left_out=len(spans) - len(kept), split=n_split
        )
        return Example(predicted, reference)


@lru_cache(maxsize=64)  # a corpus is read every epoch, and a config makes it more than once
def _log_once(level: int, message: str) -> None:
    logger.log(level, message)


def open_corpus(name: str | Path, **settings: Any) -> Corpus:
    """The corpus that a name stands for, of any format; see ``open_documents`` and ``Corpus``.

    PelError if there is no such file, or its format has no entity ids.
    """
    open_documents(name, with_ids=True)  # refuses it here and now
    return make_document_corpus(name, **settings)


# For a [corpora] block of a config. For what is not described here see ``Corpus``.


def make_document_corpus(
    path: Path | list[Path],
    limit: int = 0,
    spans_key: str | None = None,
    gold_mentions: bool = True,
    labels: dict[str, str] | None = None,
    format: str | None = None,
) -> Corpus:
    """Return a corpus of one or several files or folders; see ``open_documents``. Each file is a source."""
    if not path:
        raise PelError("a corpus without a file", "name one or more in 'path'")
    names = [path] if isinstance(path, (str, Path)) else path  # configs pass strings unconverted

    def sources() -> Iterator[tuple[str, Iterator[Document]]]:
        stream = open_documents(tuple(map(str, names)), format, with_ids=True)
        for source, documents in stream.documents_by_source():
            yield source, annotated(source, documents)

    def annotated(source: str, documents: Iterable[RawDocument]) -> Iterator[Document]:
        raw = None
        for raw in documents:
            document = raw.document(spans_key)
            yield document._replace(mentions=document.mentions or ())
        if raw is None:
            raise PelError(f"{source}: no documents in it", "give a corpus that has some")

    kept = {"limit": limit, "spans_key": spans_key, "gold_mentions": gold_mentions}
    return Corpus(sources, labels=labels, **kept)
