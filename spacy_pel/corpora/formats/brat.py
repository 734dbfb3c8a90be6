"""brat's standoff format: a text (``.txt``) and, beside it, a file of its mentions (``.ann``).

As two files a document are no one output, they are written into a ZIP archive, which is unpacked into
brat's folder of data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from ...errors import PelError
from ...spans import ids_in
from ..doc_conversion import linked_mentions, plain_text
from ..document import OFFSETS, Document, Mention, curated_ids, mention_at
from ..vocabularies import vocabulary_of
from .base import (
    MAX_DOCUMENT_BYTES,
    BoundedFile,
    Format,
    Input,
    LineError,
    NumberedDocs,
    decoded,
    document_id,
    encoded,
)

if TYPE_CHECKING:
    from spacy.tokens import Doc

ANNOTATIONS = ".ann"
_TEXT_BOUND = re.compile(r"(T\S+)\t(\S+) (\d+ \d+(?:;\d+ \d+)*)\t(.*)")
_NORMALISED = re.compile(r"N\S+\t\S+ (T\S+) (\S+)(?:\t.*)?")
_OWN = "KB"  # the vocabulary of ids that tell none; brat wants one
_SHOWN = 60  # characters of a line quoted in an error


def _split(file: BoundedFile) -> Iterator[tuple[int, list[str]]]:
    """The name, the text and the annotations of the document whose ``.ann`` this is."""
    path = Path(str(getattr(file.file, "name", "")))
    if not file.name.removesuffix(".gz").endswith(ANNOTATIONS):
        problem = f"not the annotations of a document, {ANNOTATIONS}"
        raise PelError(problem, "unpack an archive, and give its folder")
    zipped = ".gz" if path.suffix == ".gz" else ""
    beside = Path(f"{str(path).removesuffix(zipped).removesuffix(ANNOTATIONS)}.txt")
    try:
        with open(beside, "rb") as texts:
            text = texts.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        problem = f"its text, {beside.name}, cannot be read beside it ({error.strerror})"
        raise PelError(problem, "put both into one folder of this computer") from error
    if len(text) > MAX_DOCUMENT_BYTES:
        raise PelError(f"{beside.name} has more than {MAX_DOCUMENT_BYTES:,} bytes", "split it")
    parts = text, file.read()
    yield 1, [file.name, *(part.decode("utf8", "surrogateescape") for part in parts)]


def _document(data: list[str]) -> Document:
    name, text, lines = data
    text, lines = (decoded(part.encode("utf8", "surrogateescape")) for part in (text, lines))
    places: dict[str, tuple[int, str, str, str]] = {}
    ids: dict[str, list[str]] = {}
    for number, line in enumerate(lines.split("\n")):
        line = line.rstrip("\r")
        if line.startswith("T"):
            if not (found := _TEXT_BOUND.fullmatch(line)):
                remedy = (
                    "a mention has an id, its type and offsets, and its text, with tabs between"
                )
                raise LineError(number, f"malformed line {line[:_SHOWN]!r}", remedy)
            places[found[1]] = number, *found.groups()[1:]
        elif found := _NORMALISED.fullmatch(line):
            ids.setdefault(found[1], []).append(found[2].removeprefix(f"{_OWN}:"))
    mentions = []
    for key, (number, label, offsets, words) in places.items():
        try:
            mentions.append(_mention(text, label, offsets, words, "|".join(ids.get(key, ()))))
        except PelError as error:
            raise LineError(number, error.problem, error.remedy) from error
    id = name.removesuffix(".gz").removesuffix(ANNOTATIONS)
    return Document(text, id, tuple(mentions))


def _mention(text: str, label: str, offsets: str, words: str, ids: str) -> Mention:
    """A mention; one in pieces reaches from the first to the last of them."""
    pieces = sorted(tuple(map(int, piece.split())) for piece in offsets.split(";"))
    remedy = f"{OFFSETS}, in the text as it is in its file"
    expected = words if len(pieces) == 1 else None
    start, end = pieces[0][0], max(end for _, end in pieces)
    own = label, curated_ids(ids)
    return mention_at(text, start, end, *own, expected=expected, remedy=remedy)


def _annotations(doc: Doc, spans_key: str | None) -> str:
    """The lines of a doc's mentions: their places, ids (but NIL) and attributes."""
    lines: list[str] = []
    n_ids = n_attributes = 0
    text = doc.text
    for n, mention in enumerate(linked_mentions(doc, spans_key), start=1):
        label = re.sub(r"[^\w-]+", "_", mention["label"])
        pieces = _pieces(text, mention["start"], mention["end"])
        places = ";".join(f"{start} {end}" for start, end in pieces)
        words = " ".join(text[start:end] for start, end in pieces)
        lines.append(f"T{n}\t{label} {places}\t{words}")
        for id in ids_in(mention["id"]):
            n_ids += 1
            vocabulary, code = vocabulary_of(id)
            reference = "_".join(f"{vocabulary or _OWN}:{code}".split())
            name = " ".join((mention["name"] or "").split())
            lines.append(f"N{n_ids}\tReference T{n} {reference}\t{name}")
        for name, value in mention.get("attributes", {}).items():
            if value not in (None, False, ""):
                n_attributes += 1
                told = "" if value is True else f" {'_'.join(plain_text(value).split())}"
                lines.append(f"A{n_attributes}\t{name} T{n}{told}")
    return "".join(f"{line}\n" for line in lines)


def _pieces(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The place of a mention, parted at ends of lines, which none may hold."""
    found = re.finditer(r"[^\r\n\t\v\f\x1c-\x1e\x85\u2028\u2029]+", text[start:end])
    return [(start + part.start(), start + part.end()) for part in found if part[0].strip()]


class _Archive:
    """A ZIP archive with two files a document; parts are archives as well."""

    def write_part(self, docs: NumberedDocs, spans_key: str | None, path: Path) -> None:
        with ZipFile(path, "w") as archive:
            for number, doc in docs:
                name = _file_name(document_id(number, doc))
                for suffix, text in (
                    (".txt", doc.text),
                    (ANNOTATIONS, _annotations(doc, spans_key)),
                ):
                    archive.writestr(_entry(f"{number} {name}{suffix}"), encoded(text))

    def join(self, parts: Sequence[Path], path: Path) -> None:
        """Documents with the same id are told apart by their numbers."""
        taken: set[str] = set()
        with ZipFile(path, "w") as archive:
            for part in parts:
                with ZipFile(part) as source:
                    for entry in source.namelist():
                        number, name = entry.split(" ", 1)
                        if name in taken:
                            first, last = name.rsplit(".", 1)
                            name = f"{first}-{number}.{last}"
                        taken.add(name)
                        archive.writestr(_entry(name), source.read(entry))


def _entry(name: str) -> ZipInfo:
    """A compressed file of an archive, whose date is always the same."""
    entry = ZipInfo(name)
    entry.compress_type = ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def _file_name(id: str) -> str:
    """The id as a relative path that stays in its folder, on any computer."""
    steps = (re.sub(r"[^\w.-]+", "_", step).lstrip(".") for step in PurePosixPath(id).parts)
    return "/".join(filter(None, steps)) or "_"


FORMAT = Format(
    "brat",
    (ANNOTATIONS, ".brat.zip"),
    Input(_split, _document, has_ids=True),
    _Archive(),
)
