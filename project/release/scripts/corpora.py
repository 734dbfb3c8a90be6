"""Corpora, from the archives of their authors to one PubTator file a split."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from recipe import FETCH_EXTRA, Recipe, report_change, sha256, write_gzip

from spacy_pel.documents import pubtator
from spacy_pel.documents.document import Document
from spacy_pel.documents.document_stream import RawDocument
from spacy_pel.documents.format import BoundedFile
from spacy_pel.documents.published_splits import MedMentionsSplit
from spacy_pel.errors import PelError

# Test documents go to "held_out": no workflow that trains or chooses settings reads it.
FOLDERS = {"train": "corpora", "dev": "corpora", "test": "held_out"}
# By corpus and split: the archive; the file in it; its documents and mentions, as published; its SHA-256, if known.
ZIPPED = {
    "bc5cdr": {
        "train": ("bc5cdr/CDR_Data.zip", "CDR_TrainingSet.PubTator.txt", 500, 9_385, ""),
        "dev": ("bc5cdr/CDR_Data.zip", "CDR_DevelopmentSet.PubTator.txt", 500, 9_591, ""),
        "test": ("bc5cdr/CDR_Data.zip", "CDR_TestSet.PubTator.txt", 500, 9_809, ""),
    },
    "ncbi_disease": {
        "train": (
            *("ncbi_disease/NCBItrainset_corpus.zip", "NCBItrainset_corpus.txt", 593, 5_145),
            "26157233d70aeda0b2ac1dda4fc9369b0717bd888f5afe511d0c1c6a5ad307a0",
        ),
        "dev": (
            *("ncbi_disease/NCBIdevelopset_corpus.zip", "NCBIdevelopset_corpus.txt", 100, 787),
            "61681ad09356619c8f4f3e1738663dd007ad0135720fdc90195120fea944cbe9",
        ),
        "test": (
            *("ncbi_disease/NCBItestset_corpus.zip", "NCBItestset_corpus.txt", 100, 960),
            "b978442f39c739deb6619c70e7b07327d9eb1b71aff64996c02a592435583f46",
        ),
    },
}
MEDMENTIONS = {"train": (2_635, 122_241), "dev": (878, 40_884), "test": (879, 40_157)}


def zipped_split(
    member: str, documents: int, mentions: int, digest: str, output: Path, archive: Path
) -> str:
    """Write the text of one split, as it stands in a zip archive; returns what it holds.

    Another SHA-256 of the archive, or other numbers of documents and mentions, are reported.

    Raises:
        PelError: The archive is damaged or has no such file, or a document of it is faulty.
    """
    if digest:
        report_change(archive, "SHA-256", digest, sha256(archive))
    try:
        with zipfile.ZipFile(archive) as file:
            # Archives made on a Mac also have ._NAME in __MACOSX.
            places = [path for path in file.namelist() if path.rpartition("/")[2] == member]
            text = file.read(places[0]) if places else None
            held = ", ".join(file.namelist()[:5])
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise PelError(f"{archive}: damaged ({error})", "delete it and fetch it again") from error
    if text is None:
        remedy = "fetch the archive that docs/corpora.md names"
        raise PelError(f"{archive}: holds no {member}, but {held}", remedy)
    name = f"{archive}:{member}"
    blocks = pubtator.FORMAT.input.split(BoundedFile(io.BytesIO(text)), name)
    raw = (RawDocument(name, place, block, pubtator.FORMAT) for place, block in blocks)
    found = _holds(document.document() for document in raw)
    report_change(archive, member, _words(documents, mentions), found)
    write_gzip(output, [text])
    return found


def medmentions_split(
    split: str, documents: int, mentions: int, output: Path, corpus: Path, *_: Path
) -> str:
    """Write one split of MedMentions; see ``zipped_split``.

    corpus: ``corpus_pubtator.txt.gz``. The lists of PMIDs stand beside it or in ``full/data``.
    """
    found = [raw.document() for raw in MedMentionsSplit(corpus.parent, split)]
    report_change(corpus, split, _words(documents, mentions), _holds(found))
    write_gzip(output, (pubtator.pubtator_text(document).encode() for document in found))
    return _holds(found)


def _holds(documents: Iterable[Document]) -> str:
    mentions = [len(document.mentions or ()) for document in documents]
    return _words(len(mentions), sum(mentions))


def _words(documents: int, mentions: int) -> str:
    return f"{documents:,} documents, {mentions:,} mentions"


def _recipes() -> Iterable[Recipe]:
    for corpus, splits in ZIPPED.items():
        for split, (archive, *known) in splits.items():
            output = f"{FOLDERS[split]}/{corpus}/{split}.pubtator.txt.gz"
            yield Recipe(output, (archive,), partial(zipped_split, *known))
    lists = (
        f"medmentions/full/data/corpus_pubtator_pmids_{x}.txt" for x in ("trng", "dev", "test")
    )
    inputs = ("medmentions/st21pv/data/corpus_pubtator.txt.gz", *lists)
    for split, counts in MEDMENTIONS.items():
        output = f"{FOLDERS[split]}/medmentions/{split}.pubtator.txt.gz"
        yield Recipe(output, inputs, partial(medmentions_split, split, *counts), FETCH_EXTRA)


RECIPES = tuple(_recipes())
