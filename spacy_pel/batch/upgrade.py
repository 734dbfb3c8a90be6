"""Update a KB to a new release of its source: ``pel kb upgrade``."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from spacy.language import Language

from ..curation.kb_encoder import KBEncoder
from ..errors import PelError
from ..kb.build import build_kb
from ..kb.change import change_entities
from ..kb.knowledge_base import KnowledgeBase
from ..kb.readers import open_source
from ..kb.readers.build_from_sources import source_name
from ..kb.records.entity import Entity, renamed
from ..kb.upgrade import Upgrade, compare_release
from ..models.architectures import entity_vectors
from ..pipeline.pipelines import linker_of
from .document_blocks import NoBar
from .embed import check_reusable, embed_kb, rows_with_reuse


def upgrade_kb(
    folder: Path,
    sources: Sequence[Path],
    *,
    nlp: Language | None = None,
    compare_only: bool = False,
    reading: Callable[[Iterable[Entity], str], Iterable[Entity]] = lambda entities, name: entities,
    encoding: Callable[..., Any] = NoBar,
) -> Upgrade:
    """Update a KB to a new release of its source, and return the changes (``compare_release``).

    The KB keeps learnt names, acronyms, mentions, and corrections. Its entities change in one transaction; an
    error or an interruption before it leaves the KB unchanged. Only new texts are encoded. Then, a new index
    is built; until then, the search among the new vectors is exact and slower.

    Args:
        folder: The folder of the KB.
        sources: The files or folders of the new release.
        nlp: The pipeline whose linker made the vectors of the KB. None if the KB has none.
        compare_only: Change nothing.
        reading: Wraps the entities of a source, with its file name.
        encoding: Makes a progress bar like ``tqdm`` from ``total`` and ``initial``.

    Raises:
        PelError: There is no KB, a source is missing or malformed, the release lacks more than a tenth of the
            entities, the pipeline is missing or has another encoder, or another process is writing.
    """
    linker = linker_of(nlp) if nlp and not compare_only else None
    with KnowledgeBase.open(folder) as old, tempfile.TemporaryDirectory() as scratch:
        stored = old.settings["vectors"]
        encoder = KBEncoder(linker, nlp) if linker else None
        if stored and not compare_only:  # before the slow steps
            if encoder is None:
                remedy = "give the pipeline that made them: --pipeline PIPELINE"
                raise PelError(f"{folder}: has vectors, so new names need vectors too", remedy)
            old.check_fingerprint(encoder.fingerprint)
        is_full_length = bool(stored) and old.stored_dim == old.dim
        if linker and encoder and is_full_length:
            check_reusable(old, encoder)
            encoder = _ReusingEncoder(linker, nlp, old)
        with _release(old, sources, Path(scratch) / "kb", reading) as new:
            upgrade = compare_release(old, new)
            if not compare_only:
                change_entities(
                    folder,
                    "put",
                    upgrade.records,
                    encoder,
                    remove=[retired.id for retired in upgrade.retired],
                    types=[type for type in new.semantic_types if type.code],
                    sources=new.settings["sources"],
                )
    if linker and is_full_length:
        form = {name: stored[name] for name in ("dtype", "index", "alike")}
        embed_kb(folder, linker, nlp=nlp, progress=encoding, **form)
    return upgrade


class _ReusingEncoder(KBEncoder):
    """An encoder that copies the vectors of unchanged texts from a KB."""

    def __init__(self, linker: Any, nlp: Language | None, kb: KnowledgeBase) -> None:
        super().__init__(linker, nlp)
        self._kb = kb

    def rows(self, entities: Sequence[Entity]) -> tuple[np.ndarray, np.ndarray]:
        """Return vectors, float32 [n, dim], and the position of the entity of each, int64 [n]."""
        return rows_with_reuse(self._kb, entities, partial(entity_vectors, self.retriever))[:2]


def _release(
    old: KnowledgeBase,
    sources: Sequence[Path],
    folder: Path,
    reading: Callable[[Iterable[Entity], str], Iterable[Entity]],
) -> KnowledgeBase:
    """Build the KB of a release, with concept ids in place of the old KB's alternative ids."""
    opened = {path: open_source(path) for path in sources}
    entities = (e for path, source in opened.items() for e in reading(source.entities, path.name))
    concept_ids = {entity.concept_id for entity in old}
    mapping = {id: e.concept_id for e in old for id in e.alt_ids if id not in concept_ids}
    return build_kb(
        renamed(entities, mapping),
        folder,
        types=[type for source in opened.values() for type in source.types],
        sources=[source_name(path, source.version) for path, source in opened.items()],
    )
