"""PubTator files: documents with mentions, read and written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from spacy_pel.corpora.annotated import AnnotatedDocument, AnnotatedMention
from spacy_pel.errors import PelError
from spacy_pel.system.lines import numbered_lines

_PASSAGE = re.compile(r"([^\t|]+)\|([ta])\|(.*)")
_RELATION_NAME = re.compile(r"[A-Za-z_]+")
_ID_PREFIX = re.compile(r"(?:UMLS|MESH|OMIM):", re.IGNORECASE)
_NO_ID = ("", "-", "-1")
_SHOWN = 60  # characters of the user's text quoted in an error


def read_pubtator(path: Path) -> Iterator[AnnotatedDocument]:
    """Yield the documents of a PubTator file, one at a time; gzip where the name ends in .gz.

    A blank line ends a document, and so does the title line of the next one. A document without
    an abstract line is its title alone, one without a title line its abstract alone. Relation
    lines and the columns after the sixth are skipped.

    Where several ids stand in the column, parted by "|" or by the "+" of NCBI disease, one of them
    found is a hit (docs/corpora.md says what they mean in each corpus). The prefixes UMLS:, MESH:
    and OMIM: are removed, as knowledge bases hold bare ids; "-1", "-" and nothing mean no id.

    Raises PelError, naming file and line, where the file breaks the format or a mention's text is
    not what the document has at its offsets, blanks around it aside (NCBI has such blanks).
    """
    documents = 0
    lines = ((f"{path}, line {number}", line) for number, line in numbered_lines(path))
    for document in documents_of(lines):
        documents += 1
        yield document
    if not documents:
        raise PelError(f"{path}: no documents in the file", "give a PubTator file that holds some")


def documents_of(lines: Iterable[tuple[str, str]]) -> Iterator[AnnotatedDocument]:
    """Yield the documents of lines in PubTator format: pairs (where it stands, line).

    Raises PelError as read_pubtator does.
    """
    draft: _Draft | None = None
    for where, line in lines:
        blank = not line.strip()
        passage = _PASSAGE.fullmatch(line)
        if draft and (blank or (passage and passage[2] == "t" and passage[1] != draft.id)):
            yield draft.document()
            draft = None
        if blank:
            continue
        if draft is None:
            if passage is None:
                raise PelError(
                    f"{where}: mention before its document, or not PubTator: {line[:_SHOWN]!r}",
                    "put the 'PMID|t|title' line first, with no blank line before its mentions",
                )
            draft = _Draft(passage[1])
        if passage:
            draft.add_passage(where, *passage.groups())
        else:
            draft.add_annotation(where, line)
    if draft:
        yield draft.document()


def pubtator_text(document: AnnotatedDocument) -> str:
    """The document in PubTator format, with a blank line behind it: what read_pubtator reads.

    Line ends within the text become blanks, so that offsets hold; a mention without ids gets "-1".
    """
    id, text, mentions, title = document
    first, rest = (title, text[len(title) :]) if title else (text, "")
    lines = [f"{id}|t|{_one_line(first)}"]
    if rest:
        lines.append(f"{id}|a|{_one_line(rest[1:])}")
    lines += (
        f"{id}\t{start}\t{end}\t{_one_line(mention)}\t{type}\t{'|'.join(ids) or '-1'}"
        for start, end, mention, type, ids in mentions
    )
    return "\n".join(lines) + "\n\n"


def _one_line(text: str) -> str:
    return text.translate({ord(character): " " for character in "\r\n\t"})


class _Draft:
    """A document whose lines are still being read."""

    def __init__(self, id: str) -> None:
        self.id = id
        self._passages: dict[str, str] = {}
        self._rows: list[tuple[str, list[str]]] = []

    def add_passage(self, where: str, id: str, kind: str, text: str) -> None:
        self._check_id(where, id)
        if kind in self._passages:
            raise PelError(
                f"{where}: second |{kind}| line of document {id}",
                "remove it, or put a blank line between two documents",
            )
        self._passages[kind] = text

    def add_annotation(self, where: str, line: str) -> None:
        row = line.split("\t")
        if len(row) >= 4:
            self._check_id(where, row[0])
            if len(row) < 6 and _RELATION_NAME.fullmatch(row[1]):
                return
        if len(row) < 6:
            raise PelError(
                f"{where}: malformed line of {len(row)} columns: {line[:_SHOWN]!r}",
                "a mention has PMID, start, end, text, type and id (-1 for none) with tabs between",
            )
        self._rows.append((where, row))

    def document(self) -> AnnotatedDocument:
        text = " ".join(self._passages[kind] for kind in "ta" if kind in self._passages)
        mentions = tuple(_mention(where, row, text) for where, row in self._rows)
        return AnnotatedDocument(self.id, text, mentions, self._passages.get("t", ""))

    def _check_id(self, where: str, id: str) -> None:
        if id != self.id:
            raise PelError(
                f"{where}: line of document {id[:_SHOWN]} inside document {self.id}",
                "move it to its own document, or put a blank line between the two",
            )


def _mention(where: str, row: list[str], text: str) -> AnnotatedMention:
    start, end, mention, type = _offset(where, row[1]), _offset(where, row[2]), row[3], row[4]
    if start >= end:
        raise PelError(f"{where}: start {start} is not before end {end}", "correct the offsets")
    if start < 0 or end > len(text):
        raise PelError(
            f"{where}: offsets {start}-{end} out of range, as the document has {len(text)} "
            "characters",
            "correct the offsets, which count characters of title + ' ' + abstract",
        )
    found = text[start:end]
    if found.strip() != mention.strip():
        raise PelError(
            f"{where}: the mention reads {mention[:_SHOWN]!r} but the document has "
            f"{found[:_SHOWN]!r} at {start}-{end}",
            "correct the offsets, which count characters (not bytes) of title + ' ' + abstract",
        )
    if not found.strip():
        raise PelError(f"{where}: the mention is blank", "remove the line")
    if not type.strip():
        raise PelError(f"{where}: the mention has no type", "write one in the fifth column")
    return AnnotatedMention(start, end, found, type.strip(), _ids(row[5]))


def _offset(where: str, field: str) -> int:
    try:
        return int(field)
    except ValueError:
        raise PelError(
            f"{where}: malformed offset {field[:_SHOWN]!r}", "columns 2 and 3 are whole numbers"
        ) from None


def _ids(field: str) -> tuple[str, ...]:
    ids = (_ID_PREFIX.sub("", id.strip()).strip() for id in re.split(r"[|+]", field))
    return tuple(dict.fromkeys(id for id in ids if id not in _NO_ID))
