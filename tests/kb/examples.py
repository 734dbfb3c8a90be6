"""A small KB that the tests of this room share, and KBs of several segments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from spacy_pel.kb import Entity, KnowledgeBase, SemanticType
from spacy_pel.kb.folder.transaction import Transaction, folder_transaction
from spacy_pel.kb.records.record_writing import write_records
from spacy_pel.kb.writing.segment_entries import count_entity
from spacy_pel.kb.writing.vector_writing import write_segment_vectors

ENTITIES = [
    Entity("C3", "Multiple sclerosis", ("MS", "Disseminated"), ("Disease",), "A disease."),
    Entity("C1", "Mitral stenosis", ("MS",), ("Disease", "Finding"), None, ("OMIM:1", "D1")),
    Entity("C2", "Mass spectrometry", (), (), None),
    Entity("C10", "Été 日本 🧬", ("β-catenin",), (), "Naïve."),
]
IDS = ["C1", "C10", "C2", "C3"]  # in order of number
COUNTED = ("entities", "aliases", "definitions", "alt_ids", "parents", "retired_ids", "xrefs")
VECTORS = np.eye(4, dtype=np.float32)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def segmented_kb(
    folder: Path,
    segments: Sequence[Sequence[Entity]],
    *,
    removed: Collection[str] = (),
    vectors: Mapping[str, Sequence[float]] | None = None,
    types: Sequence[SemanticType] = (),
) -> KnowledgeBase:
    """A KB of these segments, of which some ids were removed; a vector for each id, or none."""
    with folder_transaction(folder) as changes:
        entries = [_entry(changes, each, removed, vectors, types) for each in segments]
        counts = Counter(dict.fromkeys(COUNTED, 0))
        for entity in (e for each in segments for e in each if e.concept_id not in removed):
            count_entity(counts, entity)
        dim = len(next(iter(vectors.values()))) if vectors else None
        changes.commit(
            {
                "created_by": "test",
                "sources": [],
                "counts": counts,
                "files": changes.files,
                "segments": entries,
                "vectors": vectors
                and {"dim": dim, "dtype": "float32", "row_kind": "entity", "fingerprint": "abc"},
            }
        )
    return KnowledgeBase.open(folder)


def _entry(
    changes: Transaction,
    entities: Sequence[Entity],
    removed: Collection[str],
    vectors: Mapping[str, Sequence[float]] | None,
    types: Sequence[SemanticType],
) -> dict:
    records = changes.temporary(".sqlite")
    write_records(records, changes.temporary(".sqlite"), entities, types)
    ids = sorted(entity.concept_id for entity in entities)
    gone = np.flatnonzero([id in removed for id in ids])
    removed_file = changes.temporary(".npy")
    np.save(removed_file, gone)
    rows = np.array([vectors[id] for id in ids], dtype=np.float32) if vectors else None
    return {
        "records": changes.publish(records, "entities"),
        "count": len(ids),
        "removed": changes.publish(removed_file, "removed") if len(gone) else None,
        "vectors": vectors
        and write_segment_vectors(
            changes, [(rows, np.arange(len(ids)))], len(ids), rows.shape[1], dtype="float32"
        ),
    }
