"""What decides the answers of a linker, and of a whole pipeline, as plain data."""

from __future__ import annotations

import hashlib
from typing import Any

from spacy.language import Language

from ..kb.knowledge_base import KnowledgeBase
from ..kb.store import KB_FILE
from ..pipeline.kb_component import KB_FOLDER
from ..pipeline.pipelines import linker_of

# Entries of the component's config that do not decide its answers, or that other entries of the
# state stand for.
_LEFT_OUT = {
    *("factory", "kb", "path", "spans_key", "candidates", "overwrite", "scorer", "row_kind"),
    "vectors",
    *("model", "loss", "regularizer", "negatives", "name_dropout", "reranker", "rerank"),
    "nil_threshold",
}


def linker_state(nlp: Language, component: str = "proxy_linker") -> dict[str, Any]:
    """All that decides what the linker of a pipeline answers to given mentions, as plain data.

    PelError if there is no such linker, or it has no weights or no KB.
    """
    linker = linker_of(nlp, component)
    reranker = None
    if linker.reranked:
        data = linker.to_bytes(exclude=("cfg", "reader", "model", KB_FOLDER))
        reranker = hashlib.blake2b(data, digest_size=16).hexdigest()
    config = nlp.get_pipe_config(component)
    return {
        "knowledge base": linker.kb.settings["checksum"],
        "encoder": linker.retriever.fingerprint(),
        "reranker": reranker,
        "number of candidates reranked": linker.reranked,
        "NIL threshold": linker.nil_threshold,
        "ranking": linker.fitted.as_data()["ranking"],
        **{name: value for name, value in config.items() if name not in _LEFT_OUT},
    }


def pipeline_fingerprint(nlp: Language) -> str:
    """A digest of the files of a loaded pipeline, and of the KBs that it refers to.

    The database of a KB stands for all its files, as it has the checksums of the others.
    """
    hash = hashlib.blake2b(digest_size=16)
    folder = nlp.path
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()] if folder else []
    kbs = {path.parent for path in files if path.name == KB_FILE}
    for path in files:
        if path.parent in kbs and path.name != KB_FILE:
            continue
        hash.update(f"{path.relative_to(folder).as_posix()}\n".encode())
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                hash.update(block)
    for name, component in nlp.pipeline:
        kb = getattr(component, "kb", None)
        if isinstance(kb, KnowledgeBase):
            hash.update(f"{name} {kb.settings['checksum']}\n".encode())
    return hash.hexdigest()
