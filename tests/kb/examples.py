"""A small KB that the tests of this room share."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spacy_pel.kb import Entity

ENTITIES = [
    Entity("C3", "Multiple sclerosis", ("MS", "Disseminated"), ("Disease",), "A disease."),
    Entity("C1", "Mitral stenosis", ("MS",), ("Disease", "Finding"), None, ("OMIM:1", "D1")),
    Entity("C2", "Mass spectrometry", (), (), None),
    Entity("C10", "Été 日本 🧬", ("β-catenin",), (), "Naïve."),
]
IDS = ["C1", "C10", "C2", "C3"]  # in order of number
VECTORS = np.eye(4, dtype=np.float32)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}
