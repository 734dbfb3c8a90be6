"""MedMentions as its authors publish it: one PubTator file, and a list of PMIDs for each split."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..errors import PelError
from . import pubtator
from .document import Document
from .document_files import DocumentFile, FileStream
from .document_stream import DocumentStream, RawDocument, checked_documents

_SPLITS = {"train": "trng", "dev": "dev", "test": "test"}  # as the files are named


class MedMentionsSplit(DocumentStream):
    """The documents of a split of MedMentions, full or ST21pv, as one source.

    Ids are bare CUIs. The label of a mention is what the corpus says, in full several TUIs with
    commas.

    Args:
        folder: The folder ``full`` or ``st21pv`` of the corpus, or the ``data`` folder in it, with
            ``corpus_pubtator.txt.gz`` (or unpacked). The lists ``corpus_pubtator_pmids_*.txt``
            stand beside it or, as published, in ``full/data`` alone.
        split: "train", "dev" or "test".

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
        """See ``DocumentStream``."""
        yield f"{self.folder}:{self.split}", checked_documents(self._documents(), "medmentions")

    def _documents(self) -> Iterator[Document]:
        corpus = medmentions_file(self.folder)
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


def medmentions_file(folder: Path) -> Path | None:
    """The corpus file of a folder in MedMentions' layout; None if it has none."""
    names = ("corpus_pubtator.txt.gz", "corpus_pubtator.txt")
    paths = (place / name for place in (folder, folder / "data") for name in names)
    return next((path for path in paths if path.is_file()), None)


def _pmids(corpus: Path) -> dict[str, set[str]]:
    """The PMIDs of each split; PelError if a list is missing or two have the same PMID."""
    splits = {split: set(_pmid_list(corpus, name)) for split, name in _SPLITS.items()}
    owners: dict[str, str] = {}
    for split, pmids in splits.items():
        for pmid in sorted(pmids):
            if owners.setdefault(pmid, split) != split:
                raise PelError(
                    f"{corpus.parent}: PMID {pmid} is in {owners[pmid]} and in {split}",
                    "correct the lists corpus_pubtator_pmids_*.txt",
                )
    return splits


def _pmid_list(corpus: Path, name: str) -> list[str]:
    file = f"corpus_pubtator_pmids_{name}.txt"
    folder = corpus.resolve().parent
    for place in (folder, *(up / "full" / "data" for up in folder.parents[:2])):
        if (place / file).is_file():
            return (place / file).read_text("utf-8-sig").split()
    raise PelError(
        f"{corpus.parent}: no {file} here or in full/data",
        "fetch it with the corpus, which lists its splits there",
    )
