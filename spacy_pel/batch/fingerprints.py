"""Fingerprints of a linker and of a whole pipeline."""

import hashlib
from typing import Any

from spacy.language import Language

from ..kb.knowledge_base import KnowledgeBase
from ..kb.store import KB_FILE
from ..models.architectures import fingerprint
from ..pipeline.pipelines import linker_of


def linker_state(nlp: Language) -> dict[str, Any]:
    """Return what determines a linker's predictions: KB, weights and calibration, as plain data.

    Raises:
        PelError: There is no linker, or it has no weights or no KB.
    """
    linker = linker_of(nlp)
    return {
        "knowledge base": linker.kb.settings["checksum"],
        "encoder": fingerprint(linker.retriever),
        "number of candidates reranked": linker.reranked,
        "NIL threshold": linker.nil_threshold,
        "ranking": linker.fitted.as_data()["ranking"],
    }


def pipeline_fingerprint(nlp: Language) -> str:
    """Return a digest of the files of a loaded pipeline and of the KBs that it refers to.

    The database of a KB has the checksums of the KB's other files, so these are not read.
    """
    hash = hashlib.blake2b(digest_size=16)
    folder = nlp.path
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()] if folder else []
    kbs = {path.parent for path in files if path.name == KB_FILE}
    for path in files:
        if path.parent in kbs and path.name != KB_FILE:
            continue
        hash.update(f"{path.relative_to(folder).as_posix()}\n".encode())
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                hash.update(block)
    for name, component in nlp.pipeline:
        kb = getattr(component, "kb", None)
        if isinstance(kb, KnowledgeBase):
            hash.update(f"{name} {kb.settings['checksum']}\n".encode())
    return hash.hexdigest()
