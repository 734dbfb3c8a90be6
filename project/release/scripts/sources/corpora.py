"""Corpora, from the archives of their authors to one PubTator file a split."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from spacy_pel.documents import pubtator
from spacy_pel.documents.document import Document
from spacy_pel.documents.document_stream import RawDocument
from spacy_pel.documents.format import BoundedFile
from spacy_pel.documents.published_splits import MedMentionsSplit
from spacy_pel.errors import PelError
from spacy_pel.system.whole_files import whole_file

from .changed_source import report_change
from .recipe import FETCH_EXTRA, Recipe, sha256

# No workflow that trains or chooses settings reads this folder.
HELD_OUT = "held_out"


class Counts(NamedTuple):
    """What a split holds, as published."""

    documents: int
    mentions: int

    def __str__(self) -> str:
        return f"{self.documents:,} documents, {self.mentions:,} mentions"


def zipped_split(member: str, counts: Counts, digest: str, output: Path, archive: Path) -> str:
    """Writes the text of one split, as it stands in a zip archive.

    Args:
        member: The name of the split's file in the archive, without folders.
        counts: What it holds as far as we know. A difference is reported.
        digest: The SHA-256 of the archive; "" if none is known. A difference is reported.
        output: The file to write (gzip).
        archive: The archive.

    Returns:
        What the split holds.

    Raises:
        PelError: The archive is damaged or has no such file, or a document of it is faulty.
    """
    if digest:
        report_change(archive, "SHA-256", digest, sha256(archive))
    text = _member(archive, member)
    found = _counted(_documents(text, f"{archive}:{member}"))
    report_change(archive, member, counts, found)
    _write_gzip(output, [text])
    return str(found)


def medmentions_split(split: str, counts: Counts, output: Path, corpus: Path, *_: Path) -> str:
    """Writes one split of MedMentions; see ``zipped_split``.

    Args:
        split: "train", "dev" or "test".
        counts: What it holds as published.
        output: The file to write (gzip).
        corpus: ``corpus_pubtator.txt.gz``. The lists of PMIDs stand beside it or in ``full/data``.
    """
    raw = MedMentionsSplit(corpus.parent, split)
    documents = [document.document() for document in raw]
    found = _counted(documents)
    report_change(corpus, split, counts, found)
    _write_gzip(output, (pubtator.pubtator_text(document).encode() for document in documents))
    return str(found)


def _member(archive: Path, name: str) -> bytes:
    try:
        with zipfile.ZipFile(archive) as file:
            for path in file.namelist():
                # Archives made on a Mac also have ._NAME in __MACOSX.
                if path.rpartition("/")[2] == name:
                    return file.read(path)
            held = ", ".join(file.namelist()[:5])
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise PelError(f"{archive}: damaged ({error})", "delete it and fetch it again") from error
    raise PelError(
        f"{archive}: holds no {name}, but {held}", "fetch the archive that docs/corpora.md names"
    )


def _documents(text: bytes, name: str) -> Iterator[Document]:
    for place, block in pubtator.FORMAT.input.split(BoundedFile(io.BytesIO(text)), name):
        yield RawDocument(name, place, block, pubtator.FORMAT).document()


def _counted(documents: Iterable[Document]) -> Counts:
    mentions = [len(document.mentions or ()) for document in documents]
    return Counts(len(mentions), sum(mentions))


def _write_gzip(output: Path, parts: Iterable[bytes]) -> None:
    """Writes a gzip file whose bytes depend on its contents alone."""
    with whole_file(output, "xb") as file:
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as zipped:
            zipped.writelines(parts)


def _bc5cdr(output: str, split: str, mentions: int) -> Recipe:
    member = f"CDR_{split}Set.PubTator.txt"
    make = partial(zipped_split, member, Counts(500, mentions), "")
    return Recipe(output, ("bc5cdr/CDR_Data.zip",), make)


def _ncbi_disease(output: str, split: str, counts: Counts, digest: str) -> Recipe:
    make = partial(zipped_split, f"NCBI{split}set_corpus.txt", counts, digest)
    return Recipe(output, (f"ncbi_disease/NCBI{split}set_corpus.zip",), make)


def _medmentions(output: str, split: str, counts: Counts) -> Recipe:
    lists = [
        f"medmentions/full/data/corpus_pubtator_pmids_{x}.txt" for x in ("trng", "dev", "test")
    ]
    inputs = ("medmentions/st21pv/data/corpus_pubtator.txt.gz", *lists)
    return Recipe(output, inputs, partial(medmentions_split, split, counts), FETCH_EXTRA)


def _paths(corpus: str) -> tuple[str, str, str]:
    """Where train, dev and test of a corpus go."""
    folders = (f"corpora/{corpus}/train", f"corpora/{corpus}/dev", f"{HELD_OUT}/{corpus}/test")
    train, dev, test = (f"{folder}.pubtator.txt.gz" for folder in folders)
    return train, dev, test


_BC5CDR, _NCBI, _MEDMENTIONS = map(_paths, ("bc5cdr", "ncbi_disease", "medmentions"))
RECIPES = (
    _bc5cdr(_BC5CDR[0], "Training", 9_385),
    _bc5cdr(_BC5CDR[1], "Development", 9_591),
    _bc5cdr(_BC5CDR[2], "Test", 9_809),
    _ncbi_disease(
        *(_NCBI[0], "train", Counts(593, 5_145)),
        "26157233d70aeda0b2ac1dda4fc9369b0717bd888f5afe511d0c1c6a5ad307a0",
    ),
    _ncbi_disease(
        *(_NCBI[1], "develop", Counts(100, 787)),
        "61681ad09356619c8f4f3e1738663dd007ad0135720fdc90195120fea944cbe9",
    ),
    _ncbi_disease(
        *(_NCBI[2], "test", Counts(100, 960)),
        "b978442f39c739deb6619c70e7b07327d9eb1b71aff64996c02a592435583f46",
    ),
    _medmentions(_MEDMENTIONS[0], "train", Counts(2_635, 122_241)),
    _medmentions(_MEDMENTIONS[1], "dev", Counts(878, 40_884)),
    _medmentions(_MEDMENTIONS[2], "test", Counts(879, 40_157)),
)
