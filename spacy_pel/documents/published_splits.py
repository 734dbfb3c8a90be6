"""Corpora in the layouts in which their authors publish them: folders that hold several splits.

MedMentions is one PubTator file, and a list of PMIDs for each split. ZESHEL has the mentions of each
split, in documents of several worlds.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import PelError
from ..kb.readers.json_records import json_lines, text_of
from ..system.lines import json_object
from . import pubtator
from .document import Document, mention_at
from .document_stream import DocumentFile
from .format import BoundedFile, Format, Input, Place, decoded, filled_lines

_SPLITS = {"train": "trng", "dev": "dev", "test": "test"}  # as the files of MedMentions are named
# Words kept before the first and after the last mention of a document of ZESHEL: as many word pieces
# as an encoder of BERT architecture reads, so nothing that it could read is cut.
CONTEXT_WORDS = 512
_OF_ONE_RELEASE = "fetch mentions, lists and documents of the same release"
_MENTION_KEYS = ("corpus", "context_document_id", "text", "category", "label_document_id")


def is_published(folder: Path) -> bool:
    """Whether a folder has one of the layouts."""
    return bool(_medmentions_file(folder)) or _is_zeshel(folder)


def open_split(folder: Path, words: Sequence[str]) -> list[DocumentFile]:
    """The files of a split, by a folder and the words that follow it: ["val", "lego"].

    Raises:
        PelError: The folder has none of the layouts, the words name no split, or its list or its
            mentions are faulty. What is wrong with the documents is found when they are read.
    """
    if _medmentions_file(folder):
        opened, name, examples = _medmentions, "MedMentions", ("train", "dev", "test")
    elif _is_zeshel(folder):
        opened, name, examples = _zeshel, "ZESHEL", ("val", "val:WORLD")
    else:
        problem = f"{folder}: neither MedMentions nor ZESHEL is in this folder"
        raise PelError(problem, "give one of them, or a file")
    if not 1 <= len(words) <= examples[-1].count(":") + 1:
        choices = " or ".join(f"{folder}:{example}" for example in examples)
        raise PelError(f"{folder}: {name} has several splits", f"write {choices}")
    return opened(folder, *words)


def _lacking(what: str, wanted: set[str], found: set[str]) -> None:
    """Raises PelError if documents of a split are not in its corpus."""
    if lacking := wanted - found:
        problem = f"lacks {len(lacking):,} of the {len(wanted):,} {what}, such as {min(lacking)}"
        raise PelError(problem, _OF_ONE_RELEASE)


# MedMentions


def _medmentions(folder: Path, split: str) -> list[DocumentFile]:
    """A split of MedMentions ("train", "dev" or "test"). Ids are bare CUIs.

    The label of a mention is what the corpus says, in full several TUIs with commas. The folder is
    ``full`` or ``st21pv`` of the corpus, or the ``data`` folder in it, with
    ``corpus_pubtator.txt.gz`` (or unpacked). The lists ``corpus_pubtator_pmids_*.txt`` stand beside
    it or, as published, in ``full/data`` alone.
    """
    if split not in _SPLITS:
        problem = f"{folder}: MedMentions has no split {split!r}"
        raise PelError(problem, f"choose one of {', '.join(_SPLITS)}")
    corpus = _medmentions_file(folder)
    read = pubtator.FORMAT.input._replace(split=partial(_of_pmids, _pmids(corpus)[split]))
    format = Format("medmentions", (), read)
    return [DocumentFile(f"{folder}:{split}", str(corpus), None, format)]


def _of_pmids(pmids: set[str], file: BoundedFile, name: str) -> Iterator[tuple[Place, Any]]:
    found = set()
    for place, block in pubtator.FORMAT.input.split(file, name):
        pmid = block.partition(b"|")[0].decode(errors="replace")
        if pmid in pmids:
            found.add(pmid)
            yield place, block
        file.size = 0
    _lacking("PMIDs", pmids, found)


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
    for split, name in _SPLITS.items():
        file = f"corpus_pubtator_pmids_{name}.txt"
        found = [place / file for place in places if (place / file).is_file()]
        if not found:
            problem = f"{corpus.parent}: no {file} here or in full/data"
            raise PelError(problem, "fetch it with the corpus, which lists its splits there")
        own = set(found[0].read_text("utf-8-sig").split())
        for other, pmids in splits.items():
            if own & pmids:
                problem = f"{corpus.parent}: PMID {min(own & pmids)} is in {other} and in {split}"
                raise PelError(problem, "correct the lists corpus_pubtator_pmids_*.txt")
        splits[split] = own
    return splits


# ZESHEL

Mention = tuple[str, int, int, str, str, str]  # place, first and last token, text, category, id


def _is_zeshel(folder: Path) -> bool:
    return (folder / "mentions").is_dir() and (folder / "documents").is_dir()


def _zeshel(folder: Path, split: str, world: str | None = None) -> list[DocumentFile]:
    """The worlds of a split of ZESHEL, or one of them.

    A mention's id is the document that it stands for, its label the category that ZESHEL gives it
    (LOW_OVERLAP, for example). Documents come in the order of their world's file, each once with
    all its mentions. A document is cut 512 words before its first mention and 512 words after its
    last one. The mentions of the split are held in memory.
    """
    file = folder / "mentions" / f"{split}.json"
    if not file.is_file():
        known = ", ".join(sorted(path.stem for path in file.parent.glob("*.json"))) or "none"
        raise PelError(f"{folder}: no split {split!r} of ZESHEL", f"it has: {known}")
    worlds: dict[str, dict[str, list[Mention]]] = {}
    for place, record in json_lines(file):
        name, document, *texts = (text_of(place, record, key) for key in _MENTION_KEYS)
        first, last = record.get("start_index"), record.get("end_index")
        if not (isinstance(first, int) and isinstance(last, int) and 0 <= first <= last):
            raise PelError(f"{place}: no start_index up to an end_index", "correct the line")
        documents = worlds.setdefault(name, defaultdict(list))
        documents[document].append((place, first, last, *texts))
    if world is not None and world not in worlds:
        problem = f"{folder}: no world {world!r} in {split}"
        raise PelError(problem, f"it has: {', '.join(sorted(worlds))}")
    return [
        DocumentFile(
            f"{folder}:{split}:{name}",
            str(folder / "documents" / f"{name}.json"),
            None,
            Format("zeshel", (), Input(partial(_with_mentions, worlds[name]), _annotated, True)),
        )
        for name in (sorted(worlds) if world is None else [world])
    ]


def _with_mentions(
    mentions: Mapping[str, list[Mention]], file: BoundedFile, name: str
) -> Iterator[tuple[Place, Any]]:
    found = set()
    for number, line in filled_lines(file, name):
        try:
            record = json_object(decoded(line))
        except ValueError as error:
            raise PelError(f"line {number}: {error}", "correct the line") from error
        id = str(record.get("document_id"))
        if id in mentions:
            found.add(id)
            yield number, [text_of(f"line {number}", record, "text"), id, mentions[id]]
        file.size = 0
    _lacking("documents", set(mentions), found)


def _annotated(data: tuple[str, str, list[Mention]], spans_key: str | None) -> Document:
    whole, id, mentions = data
    tokens = [token.span() for token in re.finditer(r"\S+", whole)]
    for place, first, last, text, *_ in mentions:
        if " ".join(whole[start:end] for start, end in tokens[first : last + 1]) != text:
            raise PelError(
                f"{place}: the mention reads {text[:60]!r} but document {id} has something else at "
                f"tokens {first}-{last}",
                _OF_ONE_RELEASE,
            )
    first = max(0, min(first for _, first, *_ in mentions) - CONTEXT_WORDS)
    last = min(len(tokens) - 1, max(last for _, _, last, *_ in mentions) + CONTEXT_WORDS)
    begin, end = tokens[first][0], tokens[last][1]
    text = whole[begin:end]
    annotated = [
        mention_at(text, tokens[first][0] - begin, tokens[last][1] - begin, category, (entity,))
        for _, first, last, _, category, entity in mentions
    ]
    return Document(text, id, tuple(annotated))
