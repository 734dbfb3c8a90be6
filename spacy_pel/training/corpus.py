"""PubTator files as a spaCy corpus."""

import logging
from bisect import bisect_right
from collections import Counter, defaultdict
from itertools import islice, pairwise
from pathlib import Path
from typing import Iterable, Iterator, List, Optional, Sequence, Tuple, Union

from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import filter_spans

from spacy_pel.errors import PelError
from spacy_pel.training.pubtator import PubTatorDocument, PubTatorMention, read_pubtator

logger = logging.getLogger(__name__)

NIL = "NIL"


def make_pubtator_corpus(
    path: Union[Path, List[Path]],
    limit: int = 0,
    spans_key: Optional[str] = None,
    gold_mentions: bool = True,
) -> "PubTatorCorpus":
    """Return the corpus of one or several PubTator files, for a ``[corpora]`` block of a config.

    The arguments are those of PubTatorCorpus.
    """
    paths = [path] if isinstance(path, (str, Path)) else path  # configs pass strings unconverted
    return PubTatorCorpus(paths, limit=limit, spans_key=spans_key, gold_mentions=gold_mentions)


class PubTatorCorpus:
    """Examples of one or several PubTator files, read anew at every call.

    paths: the files, plain or .gz, in the order they are read.
    limit: documents taken of each file; 0 takes all.
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
        self,
        paths: Sequence[Union[str, Path]],
        *,
        limit: int = 0,
        spans_key: Optional[str] = None,
        gold_mentions: bool = True,
    ) -> None:
        if not paths:
            raise PelError("a PubTator corpus without a file; name one or more in 'path'")
        if limit < 0:
            raise PelError(f"limit of a PubTator corpus is {limit}; set it to 0 to read all")
        self.paths = tuple(Path(path) for path in paths)
        self.limit = limit
        self.spans_key = spans_key
        self.gold_mentions = gold_mentions
        self._reported: set[Path] = set()

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Yield an Example a document; raises PelError where a file breaks the format.

        The counts of a file are logged when it is first read to its end.
        """
        for path in self.paths:
            counts: Counter[str] = Counter()
            for document in islice(read_pubtator(path), self.limit or None):
                if document.text:
                    yield self._example(nlp, path, document, counts)
            if path not in self._reported:
                self._reported.add(path)
                _report(path, counts)

    def _example(
        self, nlp: Language, path: Path, document: PubTatorDocument, counts: Counter
    ) -> Example:
        reference = nlp.make_doc(document.text)
        if reference.text != document.text:
            raise PelError(
                f"{path}: the tokenizer changes the text of document {document.id}, so offsets no "
                "longer hold; use a tokenizer that keeps every character"
            )
        reference.user_data["id"] = document.id
        bounds = [_trimmed_bounds(mention) for mention in document.mentions]
        split = split_tokens(reference, {offset for pair in bounds for offset in pair})
        predicted = reference.copy()
        spans = [
            reference.char_span(
                start, end, label=mention.type, kb_id="|".join(mention.ids) or NIL
            )
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

    def _set_mentions(self, doc: Doc, spans: List[Span]) -> None:
        if self.spans_key:
            doc.spans[self.spans_key] = spans
        else:
            doc.ents = spans


def gold_mentions(doc: Doc, spans_key: Optional[str] = None) -> List[Span]:
    """Return the mentions of a doc: ``doc.spans[spans_key]``, or ``doc.ents`` if it is None."""
    return list(doc.spans.get(spans_key, ()) if spans_key else doc.ents)


def gold_ids(span: Span) -> Tuple[str, ...]:
    """Return the entity ids of a gold mention, any of which is right; none for NIL."""
    return () if span.kb_id_ in ("", NIL) else tuple(span.kb_id_.split("|"))


def _trimmed_bounds(mention: PubTatorMention) -> Tuple[int, int]:
    start = mention.end - len(mention.text.lstrip())
    return start, mention.start + len(mention.text.rstrip())


def split_tokens(doc: Doc, offsets: Iterable[int]) -> int:
    """Split tokens of the doc so that no character offset is inside one; return their number."""
    starts = [token.idx for token in doc]
    cuts: defaultdict[int, List[int]] = defaultdict(list)
    for offset in sorted(offsets):
        index = bisect_right(starts, offset) - 1
        if starts[index] < offset < starts[index] + len(doc[index]):
            cuts[index].append(offset - starts[index])
    with doc.retokenize() as retokenizer:
        for index, inside in cuts.items():
            token = doc[index]
            edges = pairwise((0, *inside, len(token)))
            parts = [token.text[left:right] for left, right in edges]
            retokenizer.split(token, parts, heads=[(token, n) for n in range(len(parts))])
    return len(cuts)


def _report(path: Path, counts: Counter) -> None:
    logger.info(
        "%s: %d documents, %d mentions, %d left out, %d tokens split",
        *(path, counts["documents"], counts["mentions"], counts["left_out"], counts["split"]),
    )
    if counts["left_out"]:
        logger.warning(
            "%s: %d of %d mentions left out, as they overlap a longer one and doc.ents allows no "
            "overlap; set spans_key to keep them",
            *(path, counts["left_out"], counts["mentions"]),
        )
