"""What decides the answers of a linker, so that its metrics can be told from those of another."""

from __future__ import annotations

import hashlib
from typing import Any

from spacy.language import Language

from ..pipeline.kb_reference import KB_REFERENCE
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
    """All that decides what a linker answers to given mentions, as plain data.

    Args:
        nlp: A pipeline.
        component: The name of the linker in it.

    Raises:
        PelError: There is no such linker, or it has no weights or no KB.
    """
    linker = linker_of(nlp, component)
    reranker = None
    if linker.reranked:
        data = linker.to_bytes(exclude=("cfg", "model", KB_REFERENCE))
        reranker = hashlib.blake2b(data, digest_size=16).hexdigest()
    config, fitted = nlp.get_pipe_config(component), linker.fitted.as_data()
    return {
        "knowledge base": linker.kb.manifest["checksum"],
        "encoder": linker.retriever.fingerprint(),
        "reranker": reranker,
        "number of candidates reranked": linker.reranked,
        "NIL threshold": linker.nil_threshold,
        "calibration": fitted["calibration"],
        "rerank weight": fitted["rerank_weight"],
        "name weight": fitted["name_weight"],
        **{name: value for name, value in config.items() if name not in _LEFT_OUT},
    }
