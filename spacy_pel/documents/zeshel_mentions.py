"""ZESHEL as its authors publish it: mentions of a split, in documents of several worlds."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..errors import PelError
from ..kb.readers.entity_source import json_lines
from ..kb.readers.zeshel_dictionary import ZeshelDocument, text_of, zeshel_documents
from .document import Document, mention_at
from .document_stream import DocumentStream, RawDocument, checked_documents

# Words kept before the first and after the last mention of a document: as many word pieces as an
# encoder of BERT architecture reads, so nothing that it could read is cut.
CONTEXT_WORDS = 512


class ZeshelSplit(DocumentStream):
    """The documents of a split of ZESHEL; each world is a source.

    A mention's id is the document that it stands for, its label the category that ZESHEL gives it
    (LOW_OVERLAP, for example). Documents come in the order of their world's file, each once with
    all its mentions. A document is cut 512 words before its first mention and 512 words after its
    last one. The mentions of the split are held in memory, and one document at a time.

    Args:
        folder: The folder with ``mentions/`` and ``documents/``.
        split: A file of mentions: train, val, test, heldout_train_seen or heldout_train_unseen.
        world: The one to take, as in ``documents/<world>.json``; None takes all of the split.

    Raises:
        PelError: While it is read, for an unknown split or world, a line that is no mention, a
            mention that its document does not have where it should, and a missing document.
    """

    def __init__(self, folder: Path, split: str, world: str | None = None) -> None:
        self.folder = folder
        self.split = split
        self.world = world

    def documents_by_source(self) -> Iterator[tuple[str, Iterator[RawDocument]]]:
        """The worlds of the split, by name; see ``DocumentStream``."""
        mentions = self._mentions()
        if self.world is not None and self.world not in mentions:
            known = ", ".join(sorted(mentions))
            raise PelError(
                f"{self.folder}: no world {self.world!r} in {self.split}", f"it has: {known}"
            )
        for world in sorted(mentions) if self.world is None else [self.world]:
            file = self.folder / "documents" / f"{world}.json"
            documents = checked_documents(_annotated(file, mentions[world]), "zeshel")
            yield f"{self.folder}:{self.split}:{world}", documents

    def _mentions(self) -> _Mentions:
        file = self.folder / "mentions" / f"{self.split}.json"
        if not file.is_file():
            known = ", ".join(sorted(path.stem for path in file.parent.glob("*.json"))) or "none"
            raise PelError(f"{self.folder}: no split {self.split!r} of ZESHEL", f"it has: {known}")
        mentions: _Mentions = defaultdict(lambda: defaultdict(list))
        for where, record in json_lines(file):
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


def has_zeshel(folder: Path) -> bool:
    """Whether a folder has ZESHEL's layout."""
    return (folder / "mentions").is_dir() and (folder / "documents").is_dir()


def _annotated(file: Path, mentions: dict[str, list[_TokenMention]]) -> Iterator[Document]:
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


def _annotated_document(document: ZeshelDocument, mentions: list[_TokenMention]) -> Document:
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
    annotated = [
        mention_at(
            text,
            tokens[mention.first][0] - begin,
            tokens[mention.last][1] - begin,
            mention.category,
            (mention.entity,),
        )
        for mention in mentions
    ]
    return Document(text, document.id, tuple(annotated))
