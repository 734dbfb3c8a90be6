"""brat's standoff format: a text (``.txt``) and a file of its mentions (``.ann``) with the same name.

The output is a ZIP archive, to be unpacked into brat's data folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from ...errors import PelError
from ...kb.records.entity import vocabulary_of
from ...spans import ids_in
from ..doc_conversion import linked_mentions, plain_text
from ..document import MAX_SHOWN, OFFSETS, Document, Mention, curated_ids, mention_at
from .base import (
    MAX_DOCUMENT_BYTES,
    BoundedFile,
    Format,
    Input,
    LineError,
    NumberedDocs,
    checked_text,
    document_id,
    encoded,
    unchecked_text,
)

if TYPE_CHECKING:
    from spacy.tokens import Doc

ANNOTATIONS = ".ann"
_TEXT_BOUND = re.compile(r"(T\S+)\t(\S+) (\d+ \d+(?:;\d+ \d+)*)\t(.*)")
_NORMALISED = re.compile(r"N\S+\t\S+ (T\S+) (\S+)(?:\t.*)?")
_DEFAULT_VOCABULARY = "KB"  # of ids without one, which brat requires


def _split(file: BoundedFile) -> Iterator[tuple[int, list[str]]]:
    """Yield the name, the text and the annotations of the document with this ``.ann`` file."""
    path = Path(str(getattr(file.file, "name", "")))
    if not file.name.removesuffix(".gz").endswith(ANNOTATIONS):
        problem = f"not the annotations of a document, {ANNOTATIONS}"
        raise PelError(problem, "unpack the archive, and name its folder")
    zipped = ".gz" if path.suffix == ".gz" else ""
    beside = Path(f"{str(path).removesuffix(zipped).removesuffix(ANNOTATIONS)}.txt")
    try:
        with beside.open("rb") as texts:
            text = texts.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        problem = f"its text, {beside.name}, cannot be read beside it ({error.strerror})"
        raise PelError(problem, "put both into one folder of this computer") from error
    if len(text) > MAX_DOCUMENT_BYTES:
        raise PelError(f"{beside.name} has more than {MAX_DOCUMENT_BYTES:,} bytes", "split it")
    yield 1, [file.name, unchecked_text(text), unchecked_text(file.read())]


def _document(data: list[str]) -> Document:
    name, text, lines = data[0], checked_text(data[1]), checked_text(data[2])
    places: dict[str, tuple[int, str, str, str]] = {}
    ids: dict[str, list[str]] = {}
    for number, line in enumerate(lines.split("\n")):
        line = line.rstrip("\r")
        if line.startswith("T"):
            if not (match := _TEXT_BOUND.fullmatch(line)):
                remedy = "write the mention's id, type with offsets, and text, separated by tabs"
                raise LineError(number, f"malformed line {line[:MAX_SHOWN]!r}", remedy)
            places[match[1]] = number, match[2], match[3], match[4]
        elif match := _NORMALISED.fullmatch(line):
            id = match[2].removeprefix(f"{_DEFAULT_VOCABULARY}:")
            ids.setdefault(match[1], []).append(id)
    mentions = []
    for key, (number, label, offsets, words) in places.items():
        try:
            mentions.append(_mention(text, label, offsets, words, "|".join(ids.get(key, ()))))
        except PelError as error:
            raise LineError(number, error.problem, error.remedy) from error
    id = name.removesuffix(".gz").removesuffix(ANNOTATIONS)
    return Document(text, id, tuple(mentions))


def _mention(text: str, label: str, offsets: str, words: str, ids: str) -> Mention:
    """Return a mention that spans all its pieces."""
    pieces = [tuple(map(int, piece.split())) for piece in offsets.split(";")]
    return mention_at(
        text,
        min(start for start, _ in pieces),
        max(end for _, end in pieces),
        label,
        curated_ids(ids),
        expected=words if len(pieces) == 1 else None,
        remedy=f"{OFFSETS}, in the text as it is in its file",
    )


def _annotations(doc: Doc, spans_key: str | None) -> str:
    """Return the lines of a Doc's mentions: their offsets, ids (except NIL), and attributes."""
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
            reference = "_".join(f"{vocabulary or _DEFAULT_VOCABULARY}:{code}".split())
            name = " ".join((mention["name"] or "").split())
            lines.append(f"N{n_ids}\tReference T{n} {reference}\t{name}")
        for name, value in mention.get("attributes", {}).items():
            if value not in (None, False, ""):
                n_attributes += 1
                suffix = "" if value is True else f" {'_'.join(plain_text(value).split())}"
                lines.append(f"A{n_attributes}\t{name} T{n}{suffix}")
    return "".join(f"{line}\n" for line in lines)


def _pieces(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Split the offsets of a mention at line ends, which brat does not allow in a mention."""
    lines = re.finditer(r"[^\r\n\t\v\f\x1c-\x1e\x85\u2028\u2029]+", text[start:end])
    return [(start + line.start(), start + line.end()) for line in lines if line[0].strip()]


class _Archive:
    """A ZIP archive with two files for each document. Parts are archives, too."""

    def write_part(self, docs: NumberedDocs, spans_key: str | None, path: Path) -> None:
        with ZipFile(path, "w") as archive:
            for number, doc in docs:
                name = _file_name(document_id(number, doc))
                texts = {".txt": doc.text, ANNOTATIONS: _annotations(doc, spans_key)}
                for suffix, text in texts.items():
                    archive.writestr(_entry(f"{number} {name}{suffix}"), encoded(text))

    def join(self, parts: Sequence[Path], path: Path) -> None:
        """Join archives. The names of documents with the same id get their numbers."""
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
    """Return the entry of a compressed file, with a constant date."""
    entry = ZipInfo(name)
    entry.compress_type = ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def _file_name(id: str) -> str:
    """Return an id as a relative path that cannot leave its folder on any system."""
    steps = (re.sub(r"[^\w.-]+", "_", step).lstrip(".") for step in PurePosixPath(id).parts)
    return "/".join(filter(None, steps)) or "_"


FORMAT = Format(
    "brat",
    (ANNOTATIONS, ".brat.zip"),
    Input(_split, _document, has_ids=True),
    _Archive(),
)
