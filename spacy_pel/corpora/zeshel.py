"""ZESHEL as its authors publish it: mentions of a split, in documents of several worlds."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from spacy_pel.corpora.annotated import AnnotatedDocument, AnnotatedMention
from spacy_pel.corpora.corpus import Corpus
from spacy_pel.errors import PelError
from spacy_pel.kb.readers.zeshel_dictionary import (
    ZeshelDocument,
    text_of,
    zeshel_documents,
    zeshel_records,
)

# Words kept before the first and behind the last mention of a document: as many word pieces as an
# encoder of BERT architecture reads, so nothing that it could read is cut.
CONTEXT_WORDS = 512


class ZeshelCorpus(Corpus):
    """Examples of a split of ZESHEL; each world is a part.

    path: the folder with ``mentions/`` and ``documents/``.
    split: a file of mentions: train, val, test, heldout_train_seen or heldout_train_unseen.
    worlds: those to take, as in ``documents/<world>.json``; None takes all of the split. The other
        arguments: see Corpus.

    A mention's id is the document that it stands for, its label the category that ZESHEL gives it
    (LOW_OVERLAP, for example). Documents come in the order of their world's file, each once with
    all its mentions, cut 512 words before the first and behind the last of them. In memory are the
    mentions of the split, and one document at a time.
    """

    def __init__(
        self,
        path: str | Path,
        split: str,
        worlds: Sequence[str] | None = None,
        *,
        limit: int = 0,
        spans_key: str | None = None,
        gold_mentions: bool = True,
    ) -> None:
        super().__init__(limit=limit, spans_key=spans_key, gold_mentions=gold_mentions)
        self.path = Path(path)
        self.split = split
        self.worlds = None if worlds is None else tuple(worlds)

    def parts(self) -> Iterator[tuple[str, Iterator[AnnotatedDocument]]]:
        """The worlds of the split, by name.

        Raises PelError for an unknown split or world, a line that is no mention, a mention that its
        document does not have where it should, and a document that is missing.
        """
        mentions = self._mentions()
        if unknown := sorted(set(self.worlds or ()) - set(mentions)):
            known = ", ".join(sorted(mentions))
            raise PelError(
                f"{self.path}: no world {unknown[0]!r} in {self.split}", f"it has: {known}"
            )
        for world in sorted(self.worlds or mentions):
            file = self.path / "documents" / f"{world}.json"
            yield f"{self.path}:{self.split}:{world}", _annotated(file, mentions[world])

    def _mentions(self) -> _Mentions:
        file = self.path / "mentions" / f"{self.split}.json"
        if not file.is_file():
            known = ", ".join(sorted(path.stem for path in file.parent.glob("*.json"))) or "none"
            raise PelError(f"{self.path}: no split {self.split!r} of ZESHEL", f"it has: {known}")
        mentions: _Mentions = defaultdict(lambda: defaultdict(list))
        for where, record in zeshel_records(file):
            keys = ("corpus", "context_document_id", "text", "category", "label_document_id")
            world, document, *texts = (text_of(where, record, key) for key in keys)
            first, last = record.get("start_index"), record.get("end_index")
            if not (isinstance(first, int) and isinstance(last, int) and 0 <= first <= last):
                raise PelError(f"{where}: no start_index up to an end_index", "correct the line")
            mentions[world][document].append(_TokenMention(where, first, last, *texts))
        return mentions


class _TokenMention(NamedTuple):
    """A mention by its first and last token, where tokens are what stands between blanks."""

    where: str
    first: int
    last: int
    text: str
    category: str
    entity: str


_Mentions = defaultdict[str, defaultdict[str, list[_TokenMention]]]  # by world, by document


def make_zeshel_corpus(
    path: Path,
    split: str,
    worlds: list[str] | None = None,
    limit: int = 0,
    spans_key: str | None = None,
    gold_mentions: bool = True,
) -> ZeshelCorpus:
    """Return a split of ZESHEL, for a ``[corpora]`` block of a config; see ZeshelCorpus."""
    return ZeshelCorpus(
        path, split, worlds, limit=limit, spans_key=spans_key, gold_mentions=gold_mentions
    )


def _annotated(file: Path, mentions: dict[str, list[_TokenMention]]) -> Iterator[AnnotatedDocument]:
    found = set()
    for document in zeshel_documents(file):
        if document.id in mentions:
            found.add(document.id)
            yield _annotated_document(document, mentions[document.id])
    if missing := set(mentions) - found:
        example = mentions[min(missing)][0]
        raise PelError(
            f"{file}: lacks {len(missing):,} documents, such as {min(missing)} of {example.where}",
            "fetch mentions and documents of the same release",
        )


def _annotated_document(
    document: ZeshelDocument, mentions: list[_TokenMention]
) -> AnnotatedDocument:
    tokens = [token.span() for token in re.finditer(r"\S+", document.text)]
    for mention in mentions:
        places = tokens[mention.first : mention.last + 1]
        if " ".join(document.text[start:end] for start, end in places) != mention.text:
            raise PelError(
                f"{mention.where}: the mention reads {mention.text[:60]!r} but document "
                f"{document.id} has something else at tokens {mention.first}-{mention.last}",
                "fetch mentions and documents of the same release",
            )
    first = max(0, min(mention.first for mention in mentions) - CONTEXT_WORDS)
    last = min(len(tokens) - 1, max(mention.last for mention in mentions) + CONTEXT_WORDS)
    begin, end = tokens[first][0], tokens[last][1]
    text = document.text[begin:end]
    annotated = []
    for mention in mentions:
        start, stop = tokens[mention.first][0] - begin, tokens[mention.last][1] - begin
        annotated.append(
            AnnotatedMention(start, stop, text[start:stop], mention.category, (mention.entity,))
        )
    return AnnotatedDocument(document.id, text, tuple(annotated))
