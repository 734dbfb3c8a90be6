"""Annotated documents as spaCy Examples; PubTator files as a corpus of them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import filter_spans

from spacy_pel.corpora.annotated import AnnotatedDocument, AnnotatedMention
from spacy_pel.corpora.pubtator import read_pubtator
from spacy_pel.errors import PelError
from spacy_pel.spans import NIL, split_tokens

logger = logging.getLogger(__name__)


class Corpus:
    """Examples of annotated documents, read anew at every call. A subclass says what the parts are.

    limit: documents taken of each part, a file for example; 0 takes all.
    spans_key: where the mentions stand: ``doc.spans[spans_key]``, or ``doc.ents`` if None. The
        latter holds no overlaps: of overlapping mentions the longest stays, and the number left
        out is logged as a warning.
    gold_mentions: whether the predicted docs carry the mentions, with labels and without ids, so
        that linking alone is trained and scored. False leaves them to the pipeline.

    A mention's ``kb_id_`` is its ids joined by "|", or "NIL"; read it with gold_ids. Tokens are the
    tokenizer's, split at each edge of a mention that falls inside one; white space at the edges of
    a mention is no part of it. The document's id is ``doc.user_data["id"]``. Documents without
    any text are passed over, as spaCy's own corpora do.
    """

    def __init__(
        self, *, limit: int = 0, spans_key: str | None = None, gold_mentions: bool = True
    ) -> None:
        if limit < 0:
            raise PelError(f"limit of a corpus is {limit}", "set it to 0 to read all")
        self.limit = limit
        self.spans_key = spans_key
        self.gold_mentions = gold_mentions

    def parts(self) -> Iterator[tuple[str, Iterator[AnnotatedDocument]]]:
        """The parts that the limit counts: a name, for messages, and all documents of each."""
        raise NotImplementedError

    def documents(self) -> Iterator[AnnotatedDocument]:
        """The documents as annotated; raises PelError where a source breaks its format."""
        for _, documents in self.parts():
            yield from islice(documents, self.limit or None)

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Yield an Example a document; raises PelError where a source breaks its format.

        The counts of a part are logged when it is first read to its end.
        """
        for name, documents in self.parts():
            counts: Counter[str] = Counter()
            for document in islice(documents, self.limit or None):
                if document.text:
                    yield self._example(nlp, name, document, counts)
            _report(name, counts)

    def _example(
        self, nlp: Language, name: str, document: AnnotatedDocument, counts: Counter
    ) -> Example:
        reference = nlp.make_doc(document.text)
        if reference.text != document.text:
            raise PelError(
                f"{name}: the tokenizer changes the text of document {document.id}, so offsets no "
                "longer hold",
                "use a tokenizer that keeps every character",
            )
        reference.user_data["id"] = document.id
        bounds = [_trimmed_bounds(mention) for mention in document.mentions]
        split = split_tokens(reference, {offset for pair in bounds for offset in pair})
        predicted = reference.copy()
        spans = [
            reference.char_span(start, end, label=mention.type, kb_id="|".join(mention.ids) or NIL)
            for (start, end), mention in zip(bounds, document.mentions)
        ]
        kept = spans if self.spans_key else filter_spans(spans)
        self._set_mentions(reference, kept)
        if self.gold_mentions:
            self._set_mentions(
                predicted, [Span(predicted, span.start, span.end, span.label) for span in kept]
            )
        counts.update(
            documents=1, mentions=len(spans), left_out=len(spans) - len(kept), split=split
        )
        return Example(predicted, reference)

    def _set_mentions(self, doc: Doc, spans: list[Span]) -> None:
        if self.spans_key:
            doc.spans[self.spans_key] = spans
        else:
            doc.ents = spans


class PubTatorCorpus(Corpus):
    """Examples of one or several PubTator files; each is a part.

    paths: the files, plain or .gz, in the order they are read. The other arguments: see Corpus.
    """

    def __init__(
        self,
        paths: Sequence[str | Path],
        *,
        limit: int = 0,
        spans_key: str | None = None,
        gold_mentions: bool = True,
    ) -> None:
        if not paths:
            raise PelError("a PubTator corpus without a file", "name one or more in 'path'")
        super().__init__(limit=limit, spans_key=spans_key, gold_mentions=gold_mentions)
        self.paths = tuple(Path(path) for path in paths)

    def parts(self) -> Iterator[tuple[str, Iterator[AnnotatedDocument]]]:
        for path in self.paths:
            yield str(path), read_pubtator(path)


def make_pubtator_corpus(
    path: Path | list[Path],
    limit: int = 0,
    spans_key: str | None = None,
    gold_mentions: bool = True,
) -> PubTatorCorpus:
    """Return the corpus of one or several PubTator files, for a ``[corpora]`` block of a config.

    The arguments are those of PubTatorCorpus.
    """
    paths = [path] if isinstance(path, (str, Path)) else path  # configs pass strings unconverted
    return PubTatorCorpus(paths, limit=limit, spans_key=spans_key, gold_mentions=gold_mentions)


def _trimmed_bounds(mention: AnnotatedMention) -> tuple[int, int]:
    start = mention.end - len(mention.text.lstrip())
    return start, mention.start + len(mention.text.rstrip())


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
