"""Write corpora as one PubTator file a split, from the archives of their authors.

python scripts/corpora.py bc5cdr assets data
"""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

import typer
from wasabi import msg

from spacy_pel.documents import open_documents, pubtator
from spacy_pel.documents.document import Document
from spacy_pel.documents.document_stream import RawDocument
from spacy_pel.documents.format import BoundedFile
from spacy_pel.errors import PelError
from spacy_pel.system.whole_files import whole_file

# Test documents go to "held_out": no workflow that trains or chooses settings reads it.
FOLDERS = {"train": "corpora", "dev": "corpora", "test": "held_out"}
# Archive, split, file in the archive, documents and mentions as published.
ZIPPED = """
bc5cdr/CDR_Data.zip train CDR_TrainingSet.PubTator.txt 500 9385
bc5cdr/CDR_Data.zip dev CDR_DevelopmentSet.PubTator.txt 500 9591
bc5cdr/CDR_Data.zip test CDR_TestSet.PubTator.txt 500 9809
ncbi_disease/NCBItrainset_corpus.zip train NCBItrainset_corpus.txt 593 5145
ncbi_disease/NCBIdevelopset_corpus.zip dev NCBIdevelopset_corpus.txt 100 787
ncbi_disease/NCBItestset_corpus.zip test NCBItestset_corpus.txt 100 960
"""
MEDMENTIONS = {"train": (2635, 122241), "dev": (878, 40884), "test": (879, 40157)}


def main(corpus: str, assets: Path, data: Path) -> None:
    """Write CORPUS (bc5cdr, ncbi_disease or medmentions), fetched to ASSETS, to the folder DATA.

    Test documents go to DATA/held_out. A download that differs from the one that the figures of the
    docs were taken with is reported and used.
    """
    for line in ZIPPED.splitlines():
        if line.startswith(f"{corpus}/"):
            archive, split, member, documents, mentions = line.split()
            text = text_in(assets / archive, member)
            blocks = pubtator.FORMAT.input.split(BoundedFile(io.BytesIO(text)), member)
            found = [RawDocument(member, *block, pubtator.FORMAT).document() for block in blocks]
            counts = (int(documents), int(mentions))
            write_split(data / FOLDERS[split] / corpus, split, found, counts, [text])
    for split, counts in MEDMENTIONS.items() if corpus == "medmentions" else ():
        found = [raw.document() for raw in open_documents(f"{assets}/medmentions/st21pv:{split}")]
        texts = (pubtator.pubtator_text(document).encode() for document in found)
        write_split(data / FOLDERS[split] / corpus, split, found, counts, texts)


def text_in(archive: Path, member: str) -> bytes:
    """The text of one split, as it stands in a zip archive.

    Raises:
        PelError: The archive is damaged or has no such file.
    """
    try:
        with zipfile.ZipFile(archive) as file:
            for path in file.namelist():  # archives made on a Mac also have ._NAME in __MACOSX
                if path.rpartition("/")[2] == member:
                    return file.read(path)
            held = ", ".join(file.namelist()[:5])
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise PelError(f"{archive}: damaged ({error})", "delete it and fetch it again") from error
    remedy = "fetch the archive that docs/corpora.md names"
    raise PelError(f"{archive}: holds no {member}, but {held}", remedy)


def write_split(
    folder: Path,
    split: str,
    documents: list[Document],
    counts: tuple[int, int],
    parts: Iterable[bytes],
) -> None:
    """Write a split, and say what it holds, and whether that is not what it should hold."""
    mentions = sum(len(document.mentions or ()) for document in documents)
    output = folder / f"{split}.pubtator.txt.gz"
    if (len(documents), mentions) != counts:
        msg.warn("The source has changed: expected {:,} documents, {:,} mentions".format(*counts))
    write_gzip(output, parts)
    msg.good(f"{output}: {len(documents):,} documents, {mentions:,} mentions")


def write_gzip(output: Path, parts: Iterable[bytes]) -> None:
    """Write a gzip file, whole or not at all, whose bytes depend on its contents alone."""
    with whole_file(output, "xb") as file:
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as zipped:
            zipped.writelines(parts)


if __name__ == "__main__":
    try:
        typer.run(main)
    except PelError as error:
        msg.fail(str(error), exits=1)
