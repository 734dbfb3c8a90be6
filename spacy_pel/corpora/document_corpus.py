"""Corpora: annotated documents as spaCy Examples, in any format that has entity ids."""

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

# Returns the sources of a corpus: the name of each, for messages, and its documents.
Sources = Callable[[], Iterator[tuple[str, Iterator[Document]]]]


class Corpus:
    """Examples of annotated documents, read again at every call.

    The ``kb_id_`` of a mention is its ids joined by "|", or "NIL"; read it with ``gold_ids``. Tokens
    are split at the edges of mentions. The id of a document is ``doc.user_data["id"]``. Documents
    without text are skipped, as in spaCy's own corpora.

    Args:
        sources: Returns the sources, which are read one after the other.
        limit: The maximum number of documents of each source, for example a file; 0: all.
        spans_key: Where the mentions are: ``doc.spans[spans_key]``, or ``doc.ents`` if None. The
            latter has no overlaps: the longest of overlapping mentions is kept, and the number of
            those left out is logged as a warning.
        gold_mentions: Whether the predicted docs have the mentions, with labels and without ids, so
            that only linking is trained and scored. False: the pipeline predicts them.
        labels: New labels of mentions, by the labels in the source. Other labels are kept.

    Raises:
        PelError: The limit is negative.
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
        """Yield the annotated documents; PelError if a source is malformed."""
        for _, documents in self.sources():
            yield from islice(documents, self.limit or None)

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Yield an Example for each document, with the tokens of this pipeline's tokenizer.

        The counts of a source are logged when it is first read to its end.

        Raises:
            PelError: A source is malformed; or as in ``tokenized``.
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
                reason = "as they overlap a longer one and doc.ents allows no overlap"
                message = f"{name}: {left_out}, {reason}; set spans_key to keep them"
                _log_once(logging.WARNING, message)

    def _example(self, nlp: Language, name: str, document: Document, counts: Counter) -> Example:
        try:
            reference, n_split = tokenized(nlp, document)
        except PelError as error:
            raise error.at(name) from error
        reference.user_data["source"] = name
        predicted = reference.copy()
        spans = []
        for mention in document.mentions or ():
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


@lru_cache(maxsize=64)  # a corpus is read in every epoch, and a config may create it several times
def _log_once(level: int, message: str) -> None:
    logger.log(level, message)


def open_corpus(name: str | Path, **settings: Any) -> Corpus:
    """Open a corpus in any format; see ``open_documents`` and ``Corpus``.

    Raises:
        PelError: There is no such file, or its format has no entity ids.
    """
    open_documents(name, with_ids=True)  # raises its errors now
    return make_document_corpus(name, **settings)


def make_document_corpus(
    path: str | Path | list[Path],
    limit: int = 0,
    spans_key: str | None = None,
    gold_mentions: bool = True,
    labels: dict[str, str] | None = None,
    format: str | None = None,
) -> Corpus:
    """Return a corpus for a ``[corpora]`` block of a config; see ``Corpus``.

    Each file of ``path``, one or several files or folders, is a source; see ``open_documents``.
    """
    if not path:
        raise PelError("the corpus has no file", "name one or more in 'path'")
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
            raise PelError(f"{source}: no documents in it", "give a corpus with documents")

    return Corpus(
        sources, limit=limit, spans_key=spans_key, gold_mentions=gold_mentions, labels=labels
    )
