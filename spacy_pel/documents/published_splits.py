"""Corpora in the layouts in which their authors publish them: folders that hold several splits.

MedMentions is one PubTator file, and a list of PMIDs for each split. ZESHEL has the mentions of each
split, in documents of several worlds.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import PelError
from ..kb.readers.json_records import json_lines, text_of
from ..system.lines import json_object
from . import pubtator
from .document import Document, mention_at
from .format import BoundedFile, DocumentFile, Format, Input, Place, decoded, filled_lines

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

    PelError if there is no such split, or its list or its mentions are faulty.
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


def _lacking(what: str, wanted: Collection[str], found: set[str]) -> None:
    """Raises PelError if documents of a split are not in its corpus."""
    if lacking := set(wanted) - found:
        problem = f"lacks {len(lacking):,} of the {len(wanted):,} {what}, such as {min(lacking)}"
        raise PelError(problem, _OF_ONE_RELEASE)


def _medmentions(folder: Path, split: str) -> list[DocumentFile]:
    """A split of MedMentions. Its list stands beside the corpus or, as published, in ``full/data``."""
    if split not in _SPLITS:
        problem = f"{folder}: MedMentions has no split {split!r}"
        raise PelError(problem, f"choose one of {', '.join(_SPLITS)}")
    corpus = _medmentions_file(folder)
    parents = corpus.resolve().parents
    name = f"corpus_pubtator_pmids_{_SPLITS[split]}.txt"
    places = (parents[0], *(up / "full" / "data" for up in parents[1:3]))
    found = [place / name for place in places if (place / name).is_file()]
    if not found:
        problem = f"{corpus.parent}: no {name} here or in full/data"
        raise PelError(problem, "fetch it with the corpus, which lists its splits there")
    pmids = frozenset(found[0].read_text("utf-8-sig").split())
    read = pubtator.FORMAT.input._replace(split=partial(_of_pmids, pmids))
    format = Format("medmentions", (), read)
    return [DocumentFile(f"{folder}:{split}", str(corpus), None, format)]


def _of_pmids(pmids: Collection[str], file: BoundedFile) -> Iterator[tuple[Place, Any]]:
    found = set()
    for place, block in pubtator.FORMAT.input.split(file):
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


class _Mention(NamedTuple):
    """A mention of ZESHEL. Its id is the document that it stands for."""

    place: str
    first: int  # token
    last: int  # token
    text: str
    category: str  # such as LOW_OVERLAP
    id: str


def _is_zeshel(folder: Path) -> bool:
    return (folder / "mentions").is_dir() and (folder / "documents").is_dir()


def _zeshel(folder: Path, split: str, world: str | None = None) -> list[DocumentFile]:
    """The worlds of a split of ZESHEL, or one of them. The mentions are held in memory.

    Documents come in the order of their world's file, each once with all its mentions. A document is
    cut 512 words before its first mention and 512 words after its last one.
    """
    file = folder / "mentions" / f"{split}.json"
    if not file.is_file():
        known = ", ".join(sorted(path.stem for path in file.parent.glob("*.json"))) or "none"
        raise PelError(f"{folder}: no split {split!r} of ZESHEL", f"it has: {known}")
    worlds: dict[str, dict[str, list[_Mention]]] = {}
    for place, record in json_lines(file):
        name, document, *texts = (text_of(place, record, key) for key in _MENTION_KEYS)
        first, last = record.get("start_index"), record.get("end_index")
        if not (isinstance(first, int) and isinstance(last, int) and 0 <= first <= last):
            raise PelError(f"{place}: no start_index up to an end_index", "correct the line")
        documents = worlds.setdefault(name, defaultdict(list))
        documents[document].append(_Mention(place, first, last, *texts))
    if world is not None and world not in worlds:
        problem = f"{folder}: no world {world!r} in {split}"
        raise PelError(problem, f"it has: {', '.join(sorted(worlds))}")
    files = []
    for name in sorted(worlds) if world is None else [world]:
        read = Input(partial(_with_mentions, worlds[name]), _annotated, has_ids=True)
        path = str(folder / "documents" / f"{name}.json")
        format = Format("zeshel", (), read)
        files.append(DocumentFile(f"{folder}:{split}:{name}", path, None, format))
    return files


def _with_mentions(
    mentions: Mapping[str, list[_Mention]], file: BoundedFile
) -> Iterator[tuple[Place, Any]]:
    found = set()
    for number, line in filled_lines(file):
        try:
            record = json_object(decoded(line))
        except ValueError as error:
            raise PelError(f"line {number}: {error}", "correct the line") from error
        id = str(record.get("document_id"))
        if id in mentions:
            found.add(id)
            yield number, [text_of(f"line {number}", record, "text"), id, mentions[id]]
        file.size = 0
    _lacking("documents", mentions, found)


def _annotated(data: tuple[str, str, list[_Mention]]) -> Document:
    whole, id, mentions = data
    tokens = [token.span() for token in re.finditer(r"\S+", whole)]
    for place, first, last, text, *_ in mentions:
        if " ".join(whole[start:end] for start, end in tokens[first : last + 1]) != text:
            problem = (
                f"{place}: the mention reads {text[:60]!r} but document {id} has something else"
            )
            raise PelError(f"{problem} at tokens {first}-{last}", _OF_ONE_RELEASE)
    first = max(0, min(mention.first for mention in mentions) - CONTEXT_WORDS)
    last = min(len(tokens) - 1, max(mention.last for mention in mentions) + CONTEXT_WORDS)
    begin, end = tokens[first][0], tokens[last][1]
    text = whole[begin:end]
    annotated = [
        mention_at(text, tokens[m.first][0] - begin, tokens[m.last][1] - begin, m.category, (m.id,))
        for m in mentions
    ]
    return Document(text, id, tuple(annotated))
