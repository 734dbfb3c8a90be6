"""Corpora in the layouts in which their authors publish them: folders that hold several splits.

MedMentions is one PubTator file, and a list of PMIDs for each split. ZESHEL has the mentions of each
split, in documents of several worlds. To add one: a ``DocumentStream``, and a line in ``LAYOUTS``.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import PelError
from ..kb.readers.json_records import ZeshelDocument, json_lines, text_of, zeshel_documents
from . import pubtator
from .document import Document, mention_at
from .document_stream import (
    DocumentFile,
    DocumentStream,
    FileStream,
    RawDocument,
    checked_documents,
)

_SPLITS = {"train": "trng", "dev": "dev", "test": "test"}  # as the files of MedMentions are named
# Words kept before the first and after the last mention of a document of ZESHEL: as many word pieces
# as an encoder of BERT architecture reads, so nothing that it could read is cut.
CONTEXT_WORDS = 512


class MedMentionsSplit(DocumentStream):
    """The documents of a split of MedMentions ("train", "dev" or "test"), as one source.

    Ids are bare CUIs. The label of a mention is what the corpus says, in full several TUIs with
    commas. The folder is ``full`` or ``st21pv`` of the corpus, or the ``data`` folder in it, with
    ``corpus_pubtator.txt.gz`` (or unpacked). The lists ``corpus_pubtator_pmids_*.txt`` stand beside
    it or, as published, in ``full/data`` alone.

    Raises:
        PelError: For another split. While it is read: for a file that is missing, a PMID in two
            splits and, at the end, for PMIDs of the split that the corpus lacks.
    """

    def __init__(self, folder: Path, split: str) -> None:
        if split not in _SPLITS:
            problem = f"{folder}: MedMentions has no split {split!r}"
            raise PelError(problem, f"choose one of {', '.join(_SPLITS)}")
        self.folder = folder
        self.split = split

    def documents_by_source(self) -> Iterator[tuple[str, Iterator[RawDocument]]]:
        yield f"{self.folder}:{self.split}", checked_documents(self._documents(), "medmentions")

    def _documents(self) -> Iterator[Document]:
        corpus = _medmentions_file(self.folder)
        assert corpus is not None
        wanted = _pmids(corpus)[self.split]
        found = set()
        for raw in FileStream([DocumentFile(str(corpus), str(corpus), None, pubtator.FORMAT)]):
            document = raw.document()
            if document.id in wanted:
                found.add(document.id)
                yield document
        if lacking := wanted - found:
            raise PelError(
                f"{corpus}: lacks {len(lacking):,} of the {len(wanted):,} PMIDs of {self.split}, "
                f"such as {min(lacking)}",
                "fetch corpus and lists of the same release",
            )


def _medmentions_file(folder: Path) -> Path | None:
    """The corpus file of a folder in MedMentions' layout; None if it has none."""
    names = ("corpus_pubtator.txt.gz", "corpus_pubtator.txt")
    paths = (place / name for place in (folder, folder / "data") for name in names)
    return next((path for path in paths if path.is_file()), None)


def _pmids(corpus: Path) -> dict[str, set[str]]:
    """The PMIDs of each split; PelError if a list is missing or two have the same PMID."""
    folder = corpus.resolve().parent
    places = (folder, *(up / "full" / "data" for up in folder.parents[:2]))
    splits: dict[str, set[str]] = {}
    owners: dict[str, str] = {}
    for split, name in _SPLITS.items():
        file = f"corpus_pubtator_pmids_{name}.txt"
        found = [place / file for place in places if (place / file).is_file()]
        if not found:
            raise PelError(
                f"{corpus.parent}: no {file} here or in full/data",
                "fetch it with the corpus, which lists its splits there",
            )
        splits[split] = set(found[0].read_text("utf-8-sig").split())
        for pmid in sorted(splits[split]):
            if owners.setdefault(pmid, split) != split:
                raise PelError(
                    f"{corpus.parent}: PMID {pmid} is in {owners[pmid]} and in {split}",
                    "correct the lists corpus_pubtator_pmids_*.txt",
                )
    return splits


class _TokenMention(NamedTuple):
    """A mention by its first and last token, where tokens are what stands between blanks."""

    where: str
    first: int
    last: int
    text: str
    category: str
    entity: str


_Mentions = defaultdict[str, defaultdict[str, list[_TokenMention]]]  # by world, by document


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
    """

    def __init__(self, folder: Path, split: str, world: str | None = None) -> None:
        self.folder = folder
        self.split = split
        self.world = world

    def documents_by_source(self) -> Iterator[tuple[str, Iterator[RawDocument]]]:
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


class Layout(NamedTuple):
    """A layout of folders."""

    name: str  # of the corpus
    is_in: Callable[[Path], object]  # whether a folder has it
    opened: Callable[..., DocumentStream]  # given the folder and the words that follow it
    examples: tuple[str, ...]  # of such words, separated by colons, for messages


LAYOUTS = (
    Layout("MedMentions", _medmentions_file, MedMentionsSplit, ("train", "dev", "test")),
    Layout(
        "ZESHEL",
        lambda folder: (folder / "mentions").is_dir() and (folder / "documents").is_dir(),
        ZeshelSplit,
        ("val", "val:WORLD"),
    ),
)


def layout_of(folder: Path) -> Layout | None:
    """The layout that a folder has; None for any other folder."""
    return next((layout for layout in LAYOUTS if layout.is_in(folder)), None)


def open_split(folder: Path, words: Sequence[str]) -> DocumentStream:
    """The documents of a split, by a folder and the words that follow it: ["val", "lego"].

    Raises:
        PelError: The folder has none of the layouts, or the words name no split. What is wrong with
            the files is found when they are read.
    """
    layout = layout_of(folder)
    if layout is None:
        names = " nor ".join(layout.name for layout in LAYOUTS)
        raise PelError(
            f"{folder}: neither {names} is in this folder", "give one of them, or a file"
        )
    longest = max(example.count(":") + 1 for example in layout.examples)
    if not 1 <= len(words) <= longest:
        choices = " or ".join(f"{folder}:{example}" for example in layout.examples)
        raise PelError(f"{folder}: {layout.name} has several splits", f"write {choices}")
    return layout.opened(folder, *words)
