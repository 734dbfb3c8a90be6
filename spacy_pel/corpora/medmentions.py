"""MedMentions as its authors publish it: one PubTator file, and a list of PMIDs for each split."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from spacy_pel.corpora.annotated import AnnotatedDocument
from spacy_pel.corpora.corpus import Corpus
from spacy_pel.corpora.pubtator import read_pubtator
from spacy_pel.errors import PelError

SPLITS = {"train": "trng", "dev": "dev", "test": "test"}  # as the files are named


class MedMentionsCorpus(Corpus):
    """Examples of a split of MedMentions, full or ST21pv.

    path: the folder ``full`` or ``st21pv`` of the corpus, or the ``data`` folder in it, with
        ``corpus_pubtator.txt.gz`` (or unpacked). The lists ``corpus_pubtator_pmids_*.txt`` stand
        beside it or, as published, in ``full/data`` alone.
    split: "train", "dev" or "test". The other arguments: see Corpus.

    Ids are bare CUIs; a mention's type is what the corpus says, for full several TUIs with commas.
    """

    def __init__(
        self,
        path: str | Path,
        split: str,
        *,
        limit: int = 0,
        spans_key: str | None = None,
        gold_mentions: bool = True,
    ) -> None:
        super().__init__(limit=limit, spans_key=spans_key, gold_mentions=gold_mentions)
        if split not in SPLITS:
            raise PelError(f"{path}: no split {split!r}", f"choose one of {', '.join(SPLITS)}")
        self.path = Path(path)
        self.split = split

    def parts(self) -> Iterator[tuple[str, Iterator[AnnotatedDocument]]]:
        """The split, as one part.

        Raises PelError for a file that is missing, a PMID in two splits and, at the end, for PMIDs
        of the split that the corpus lacks.
        """
        yield f"{self.path}:{self.split}", self._documents()

    def _documents(self) -> Iterator[AnnotatedDocument]:
        corpus = medmentions_file(self.path)
        if corpus is None:
            raise PelError(
                f"{self.path}: no corpus_pubtator.txt.gz in it", "give MedMentions' full or st21pv"
            )
        splits = _pmids(corpus)
        wanted = splits[self.split]
        found = set()
        for document in read_pubtator(corpus):
            if document.id in wanted:
                found.add(document.id)
                yield document
        if lacking := wanted - found:
            raise PelError(
                f"{corpus}: lacks {len(lacking):,} of the {len(wanted):,} PMIDs of {self.split}, "
                f"such as {min(lacking)}",
                "fetch corpus and lists of the same release",
            )


def make_medmentions_corpus(
    path: Path,
    split: str,
    limit: int = 0,
    spans_key: str | None = None,
    gold_mentions: bool = True,
) -> MedMentionsCorpus:
    """Return a split of MedMentions, for a ``[corpora]`` block; see MedMentionsCorpus."""
    return MedMentionsCorpus(
        path, split, limit=limit, spans_key=spans_key, gold_mentions=gold_mentions
    )


def medmentions_file(folder: Path) -> Path | None:
    """The corpus file of a folder in MedMentions' layout, or None."""
    names = ("corpus_pubtator.txt.gz", "corpus_pubtator.txt")
    paths = (place / name for place in (folder, folder / "data") for name in names)
    return next((path for path in paths if path.is_file()), None)


def _pmids(corpus: Path) -> dict[str, set[str]]:
    """The PMIDs of each split; PelError if a list is missing or two have the same PMID."""
    splits = {split: set(_pmid_list(corpus, name)) for split, name in SPLITS.items()}
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
        f"{corpus.parent}: no {file}, nor in full/data",
        "fetch it with the corpus, which lists its splits there",
    )
