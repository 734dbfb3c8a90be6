"""A digest of a whole pipeline, of all its components and KBs."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path

from spacy.language import Language

from ..kb.folder.manifest import MANIFEST
from ..kb.knowledge_base import KnowledgeBase


def pipeline_fingerprint(nlp: Language) -> str:
    """A digest of the files of a loaded pipeline, and of the KBs that it refers to.

    The manifest of a KB stands for all its files, as it has their checksums.
    """
    hash = hashlib.blake2b(digest_size=16)
    folder = nlp.path
    for path in _files(folder) if folder else []:
        hash.update(f"{path.relative_to(folder).as_posix()}\n".encode())
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                hash.update(block)
    for name, component in nlp.pipeline:
        kb = getattr(component, "kb", None)
        if isinstance(kb, KnowledgeBase):
            hash.update(f"{name} {kb.manifest['checksum']}\n".encode())
    return hash.hexdigest()


def package_versions() -> dict[str, str]:
    """The versions of the packages that decide the numbers of a link."""
    import faiss

    versions = {name: version(name) for name in ("spacy-pel", "spacy", "torch", "numpy")}
    return {**versions, "faiss": faiss.__version__}


def _files(folder: Path) -> list[Path]:
    kbs = {path.parent for path in folder.rglob(MANIFEST)}
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in files if path.parent not in kbs or path.name == MANIFEST]
