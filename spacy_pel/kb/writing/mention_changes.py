"""Learns and forgets the mentions of a source. Each call is one transaction.

The mentions of a source are files of their own. No other change of a KB touches them: a mention
belongs to an id, and counts while the KB has that id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import PelError
from ..folder.checksums import check_files
from ..folder.manifest import read_manifest
from ..folder.manifest_form import all_file_names, mention_entries
from ..folder.transaction import Transaction, folder_transaction
from ..knowledge_base import KnowledgeBase
from ..known_mentions import MentionWeight
from ..records.mention_store import MentionPassage, MentionStore
from ..records.mention_writing import write_mentions
from .row_encoder import MentionEncoder
from .vector_writing import write_segment_vectors

# How much mentions count before that is fitted.
UNFITTED = MentionWeight(0.2, 0.5)
_ENCODED = 64  # passages given to the encoder at a time
_BLOCK = 4096  # rows written at a time


def learn_mentions(
    path: str | Path,
    source: str,
    passages: Iterable[MentionPassage],
    encoder: MentionEncoder | None,
) -> int:
    """Gives a KB the mentions of a source, in place of those that it had of this source.

    Until the very end, and after any error or interruption, the KB stays as it was.

    Args:
        path: The KB folder.
        source: The name of the source.
        passages: The passages with their mentions.
        encoder: Makes the vectors; None for a KB without vectors.

    Returns:
        The number of mentions.

    Raises:
        PelError: There is no KB or no mention, the encoder is not that of the KB, another process is
            writing to it, or the disk is full.
    """
    folder = Path(path).absolute()
    read_manifest(folder)  # if there is no KB, no folder is made
    with folder_transaction(folder) as transaction:
        manifest = read_manifest(folder)
        _check_encoder(folder, manifest, source, encoder)
        records = transaction.temporary(".sqlite")
        n_entities, n_rows = write_mentions(records, passages)
        if not n_rows:
            raise PelError(f"{source}: no mention has an entity in {folder}", "give another corpus")
        entry = {
            "source": source,
            "records": transaction.publish(records, "mentions"),
            "count": n_entities,
            "rows": n_rows,
            "removed": None,
            "vectors": None,
        }
        if manifest["vectors"]:
            entry["vectors"] = _encoded(transaction, manifest["vectors"], entry, encoder)
        others = [old for old in mention_entries(manifest) if old["source"] != source]
        mentions = manifest.get("mentions") or UNFITTED._asdict()
        fingerprint = encoder.mention_fingerprint if encoder else None
        new = {**mentions, "fingerprint": fingerprint, "segments": [*others, entry]}
        _commit(transaction, {**manifest, "mentions": new})
    return n_rows


def forget_mentions(path: str | Path, source: str) -> int:
    """Takes the mentions of a source out of a KB, and returns their number.

    Raises:
        PelError: There is no KB, it has learnt no mentions from this source, or another process is
            writing to it.
    """
    folder = Path(path).absolute()
    read_manifest(folder)
    with folder_transaction(folder) as transaction:
        manifest = read_manifest(folder)
        entries = mention_entries(manifest)
        kept = [entry for entry in entries if entry["source"] != source]
        if len(kept) == len(entries):
            known = ", ".join(entry["source"] for entry in entries) or "none"
            raise PelError(
                f"{folder}: has learnt no mentions from {source!r}", f"its sources: {known}"
            )
        mentions = {**manifest["mentions"], "segments": kept} if kept else None
        _commit(transaction, {**manifest, "mentions": mentions})
    return sum(entry["rows"] for entry in entries if entry["source"] == source)


def set_mention_weight(path: str | Path, weight: MentionWeight) -> None:
    """Sets how much the mentions of a KB count, which has some."""
    with folder_transaction(Path(path).absolute()) as transaction:
        manifest = read_manifest(transaction.folder)
        mentions = {**manifest["mentions"], **{k: float(v) for k, v in weight._asdict().items()}}
        _commit(transaction, {**manifest, "mentions": mentions})


def embedded_mentions(
    transaction: Transaction,
    manifest: dict[str, Any],
    vectors: dict[str, Any],
    encoder: MentionEncoder,
) -> dict[str, Any]:
    """The "mentions" of a manifest with new vectors, made of their texts; see ``EmbedMentions``.

    Args:
        transaction: The transaction, which gets the files of the vectors.
        manifest: The manifest until now.
        vectors: Its new "vectors".
        encoder: Makes the vectors.

    Raises:
        PelError: A file of texts was changed.
    """
    entries = mention_entries(manifest)
    check_files(transaction.folder, manifest["files"], [entry["records"] for entry in entries])
    made = [
        {**entry, "vectors": _encoded(transaction, vectors, entry, encoder)} for entry in entries
    ]
    fingerprint = encoder.mention_fingerprint
    return {**manifest["mentions"], "fingerprint": fingerprint, "segments": made}


def _check_encoder(
    folder: Path, manifest: dict[str, Any], source: str, encoder: MentionEncoder | None
) -> None:
    """Raises PelError if mentions would get no vectors, or vectors that do not fit the others."""
    if not manifest["vectors"]:
        return
    if encoder is None:
        raise PelError(
            f"{folder}: has vectors, so mentions need vectors too",
            "give the pipeline that made them: --pipeline PIPELINE",
        )
    with KnowledgeBase.open(folder) as kb:
        kb.check_fingerprint(encoder.fingerprint)
        if any(segment.source != source for segment in kb.mentions.segments):
            kb.mentions.check_fingerprint(encoder.mention_fingerprint, folder)


def _encoded(
    transaction: Transaction,
    settings: dict[str, Any],
    entry: dict[str, Any],
    encoder: MentionEncoder,
) -> dict[str, Any]:
    """Publishes the vectors of a segment of mentions; returns what the manifest says of them.

    Passages are read in their order, and rows are in order of entities. So rows wait in a file.
    """
    path = transaction.temporary(".npy")
    shape = (entry["rows"], encoder.dim)
    waiting = np.lib.format.open_memmap(path, "w+", np.float32, shape)
    owners = np.empty(entry["rows"], dtype=np.int64)
    with closing(MentionStore(transaction.folder / entry["records"])) as store:
        numbers = {id: number for number, id in enumerate(store.ids())}
        read = store.passages()
        while block := list(islice(read, _ENCODED)):
            passages = [passage for passage, _ in block]
            rows = [row for _, own in block for row in own]
            waiting[rows] = encoder.mention_vectors(passages)
            owners[rows] = [numbers[m.id] for passage in passages for m in passage.mentions]

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for start in range(0, len(owners), _BLOCK):
            yield waiting[start : start + _BLOCK], owners[start : start + _BLOCK]

    return write_segment_vectors(
        transaction, batches(), entry["count"], encoder.dim, dtype=settings["dtype"]
    )


def _commit(transaction: Transaction, manifest: dict[str, Any]) -> None:
    """Commits a manifest whose mentions have changed."""
    known = {**manifest["files"], **transaction.files}
    files = {name: known[name] for name in sorted(all_file_names(manifest))}
    transaction.commit({**manifest, "files": files})
