"""One way to name a corpus, whatever its layout: what the commands take."""

from __future__ import annotations

from pathlib import Path

from spacy_pel.corpora.corpus import Corpus, PubTatorCorpus
from spacy_pel.corpora.medmentions import MedMentionsCorpus, medmentions_file
from spacy_pel.corpora.zeshel import ZeshelCorpus
from spacy_pel.errors import PelError


def open_corpus(
    name: str | Path,
    *,
    limit: int = 0,
    spans_key: str | None = None,
    gold_mentions: bool = True,
) -> Corpus:
    """The corpus of a name. limit, spans_key, gold_mentions: see Corpus.

    The name is the path of a PubTator file; or FOLDER:SPLIT of MedMentions in its official layout;
    or FOLDER:SPLIT or FOLDER:SPLIT:WORLD of ZESHEL in its own.
    Raises PelError for a folder without a split, or in no such layout; what is wrong with the
    files themselves is found when they are read.
    """
    settings = {"limit": limit, "spans_key": spans_key, "gold_mentions": gold_mentions}
    folder, chosen = _folder(str(name))
    if folder is None:
        return PubTatorCorpus([name], **settings)
    if medmentions_file(folder):
        if len(chosen) != 1:
            raise PelError(
                f"{name}: no split is named", f"write {folder}:train, {folder}:dev or {folder}:test"
            )
        return MedMentionsCorpus(folder, *chosen, **settings)
    if (folder / "mentions").is_dir():
        if not chosen:
            raise PelError(
                f"{name}: no split is named", f"write {folder}:val, or {folder}:val:WORLD"
            )
        return ZeshelCorpus(folder, chosen[0], chosen[1:] or None, **settings)
    raise PelError(
        f"{folder}: neither MedMentions (corpus_pubtator.txt.gz) nor ZESHEL (mentions/) is in this "
        "folder",
        "give one of them, or a PubTator file",
    )


def _folder(name: str) -> tuple[Path | None, list[str]]:
    """The folder with which the name begins, and what stands behind it, parted by colons."""
    chosen: list[str] = []
    while not Path(name).is_dir():
        name, colon, last = name.rpartition(":")
        if not colon or len(chosen) == 2:
            return None, []
        chosen.insert(0, last)
    return Path(name), chosen
