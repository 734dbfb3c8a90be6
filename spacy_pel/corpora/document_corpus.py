"""Corpora of any format of documents that has entity ids, and one way to name them."""

# Without "from __future__ import annotations": the registry reads the types of the functions below.

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..documents.document import Document
from ..documents.document_stream import RawDocument
from ..documents.open_documents import open_documents
from ..errors import PelError
from .corpus import Corpus


class DocumentCorpus(Corpus):
    """Examples of files, folders and splits; each file, and each world of ZESHEL, is a source.

    Args:
        names: What is read, in this order; see ``open_documents``.
        format: The format of files; None if their names decide.
        settings: See ``Corpus``.

    Raises:
        PelError: There is no name. While the corpus is read: there is no such document, its format
            has no entity ids, or its source breaks the format.
    """

    def __init__(
        self, names: Sequence[str | Path], *, format: str | None = None, **settings: Any
    ) -> None:
        if not names:
            raise PelError("a corpus without a file", "name one or more in 'path'")
        super().__init__(**settings)
        self.names = tuple(map(str, names))
        self.format = format

    def documents_by_source(self) -> Iterator[tuple[str, Iterator[Document]]]:
        """See ``Corpus``."""
        for name in self.names:
            stream = open_documents(name, self.format, with_ids=True)
            for source, documents in stream.documents_by_source():
                yield source, self._documents(source, documents)

    def _documents(self, source: str, documents: Iterator[RawDocument]) -> Iterator[Document]:
        is_empty = True
        for raw in documents:
            is_empty = False
            document = raw.document(self.spans_key)
            yield document._replace(mentions=document.mentions or ())
        if is_empty:
            raise PelError(f"{source}: no documents in it", "give a corpus that has some")


def open_corpus(
    name: str | Path,
    *,
    limit: int = 0,
    spans_key: str | None = None,
    gold_mentions: bool = True,
) -> DocumentCorpus:
    """The corpus that a name stands for, of any format. The commands take such names.

    Args:
        name: A file, a folder of files, or FOLDER:SPLIT; see ``open_documents``.
        limit: See ``Corpus``.
        spans_key: See ``Corpus``.
        gold_mentions: See ``Corpus``.

    Raises:
        PelError: There is no such file or split, or its format has no entity ids. What is wrong
            with the documents is found when they are read.
    """
    open_documents(str(name), with_ids=True)  # refuses it here and now
    return DocumentCorpus([name], limit=limit, spans_key=spans_key, gold_mentions=gold_mentions)


def make_document_corpus(
    path: Path | list[Path],
    limit: int = 0,
    spans_key: str | None = None,
    gold_mentions: bool = True,
    labels: dict[str, str] | None = None,
) -> DocumentCorpus:
    """Return a corpus of any format with entity ids, for a ``[corpora]`` block of a config.

    Args:
        path: One or several files, folders, or FOLDER:SPLIT; see ``open_documents``.
        limit: See ``Corpus``.
        spans_key: See ``Corpus``.
        gold_mentions: See ``Corpus``.
        labels: See ``Corpus``.
    """
    names = [path] if isinstance(path, (str, Path)) else path  # configs pass strings unconverted
    return DocumentCorpus(
        names, limit=limit, spans_key=spans_key, gold_mentions=gold_mentions, labels=labels
    )


def make_pubtator_corpus(
    path: Path | list[Path],
    limit: int = 0,
    spans_key: str | None = None,
    gold_mentions: bool = True,
    labels: dict[str, str] | None = None,
) -> DocumentCorpus:
    """Return a corpus of PubTator files of any name, for a ``[corpora]`` block of a config.

    Args:
        path: One or several files, plain or .gz, in the order they are read.
        limit: See ``Corpus``.
        spans_key: See ``Corpus``.
        gold_mentions: See ``Corpus``.
        labels: See ``Corpus``.
    """
    corpus = make_document_corpus(path, limit, spans_key, gold_mentions, labels)
    corpus.format = "pubtator"
    return corpus


def make_medmentions_corpus(
    path: Path,
    split: str,
    limit: int = 0,
    spans_key: str | None = None,
    gold_mentions: bool = True,
) -> DocumentCorpus:
    """Return a split of MedMentions, for a ``[corpora]`` block of a config.

    Args:
        path: The folder; see ``MedMentionsSplit``.
        split: "train", "dev" or "test".
        limit: See ``Corpus``.
        spans_key: See ``Corpus``.
        gold_mentions: See ``Corpus``.
    """
    return make_document_corpus([f"{path}:{split}"], limit, spans_key, gold_mentions)


def make_zeshel_corpus(
    path: Path,
    split: str,
    worlds: list[str] | None = None,
    limit: int = 0,
    spans_key: str | None = None,
    gold_mentions: bool = True,
) -> DocumentCorpus:
    """Return a split of ZESHEL, for a ``[corpora]`` block of a config.

    To train on it without holding all documents in memory, set ``max_epochs`` to -1.

    Args:
        path: The folder; see ``ZeshelSplit``.
        split: "train", "val", "test", "heldout_train_seen" or "heldout_train_unseen".
        worlds: The worlds to take; None takes all of the split.
        limit: See ``Corpus``.
        spans_key: See ``Corpus``.
        gold_mentions: See ``Corpus``.
    """
    split_name = f"{path}:{split}"
    names = [f"{split_name}:{world}" for world in sorted(worlds or ())] or [split_name]
    return make_document_corpus(names, limit, spans_key, gold_mentions)
