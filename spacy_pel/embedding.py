"""The vectors of a knowledge base, made by a pipeline's retriever."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Optional

import numpy as np

from .kb.build import write_vectors
from .kb.knowledge_base import KnowledgeBase
from .proxies import encode_rows

if TYPE_CHECKING:
    from .pipeline.proxy_linker import ProxyLinker


def embed_kb(
    path: str | Path, linker: ProxyLinker, *, progress: Optional[Callable[[int], object]] = None
) -> KnowledgeBase:
    """Encode all entities of a KB folder with the linker's retriever, and open the KB again.

    Which rows there are is for the linker's ``row_kind`` to say. progress: called with the number
    of entities done since the last call. A linker that has this KB open must open it anew:
    ``linker.set_kb(path)``. Until the very end, and after any error or interruption, the KB stays
    as it was.
    Raises PelError if there is no KB or the linker has no weights, and for a full disk.
    """
    kb = KnowledgeBase.open(path)
    retriever, row_kind = linker.retriever, linker.cfg["row_kind"]

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        rows = encode_rows(kb, range(len(kb)), row_kind, retriever.entity_vectors)
        for vectors, numbers in rows:
            yield vectors, numbers
            if progress:
                progress(len(np.unique(numbers)))

    return write_vectors(
        kb.path,
        batches(),
        dim=retriever.width,
        fingerprint=retriever.fingerprint(),
        row_kind=row_kind,
    )


def is_embedded(kb: KnowledgeBase, linker: ProxyLinker) -> bool:
    """Whether the KB already has the vectors that ``embed_kb`` would give it."""
    return (
        kb.has_vectors
        and kb.row_kind == linker.cfg["row_kind"]
        and kb.fingerprint == linker.retriever.fingerprint()
    )
