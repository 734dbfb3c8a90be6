"""Figures of ``pel evaluate`` in their files, and whether they are those of a pipeline."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spacy.language import Language

from ..errors import PelError
from ..pipeline.kb_reference import KB_REFERENCE
from ..pipeline.pipelines import linker_of

# Of the component's config, what does not decide its answers, or is part of the rest of its state.
_ELSEWHERE = {
    *("factory", "kb", "path", "spans_key", "candidates", "overwrite", "scorer", "row_kind"),
    *("model", "loss", "regularizer", "negatives", "name_dropout", "reranker", "rerank"),
    "nil_threshold",
}


def linker_state(nlp: Language, component: str = "proxy_linker") -> dict[str, Any]:
    """All that decides what a linker answers to given mentions, as plain data.

    Raises PelError if there is no linker, or it has no weights or KB.
    """
    linker = linker_of(nlp, component)
    reranker = None
    if linker.reranked:
        data = linker.to_bytes(exclude=("cfg", "model", KB_REFERENCE))
        reranker = hashlib.blake2b(data, digest_size=16).hexdigest()
    config = nlp.get_pipe_config(component)
    return {
        "knowledge base": linker.kb.manifest["checksum"],
        "encoder": linker.retriever.fingerprint(),
        "reranker": reranker,
        "number of candidates reranked": linker.reranked,
        "NIL threshold": linker.nil_threshold,
        "calibration": linker.cfg["calibration"],
        "rerank weight": linker.cfg["rerank_weight"],
        "name weight": linker.cfg["name_weight"],
        **{name: value for name, value in config.items() if name not in _ELSEWHERE},
    }


def figures_of(
    nlp: Language, paths: Sequence[Path], component: str = "proxy_linker"
) -> dict[str, dict[str, Any]]:
    """The metrics of files that ``pel evaluate`` wrote of this linker and KB, by their names.

    Raises PelError if a file is no such file, or holds figures of another linker or KB.
    """
    state = linker_state(nlp, component) if paths else {}
    figures: dict[str, dict[str, Any]] = {}
    for path in paths:
        metrics = _read(path)
        before = metrics["linker"]
        changed = [key for key in {**before, **state} if before.get(key) != state.get(key)]
        if changed:
            raise PelError(
                f"{path}: has figures of another {', '.join(changed)} than those of the pipeline",
                f"evaluate anew: {evaluate_command(metrics)} --output {path}",
            )
        if path.stem in figures:
            raise PelError(f"{path}: is the second file of this name", "rename one of them")
        figures[path.stem] = metrics
    return figures


def evaluate_command(metrics: dict[str, Any]) -> str:
    """The command that gave the metrics, but for the file that they are in."""
    words = ["python -m spacy pel evaluate", metrics["pipeline"], *metrics["corpus"]]
    for option, value in (("--spans-key", metrics["spans_key"]), ("--limit", metrics["limit"])):
        words += [option, str(value)] if value else []
    return " ".join(words)


def _read(path: Path) -> dict[str, Any]:
    try:
        metrics = json.loads(path.read_text("utf8"))
    except ValueError as error:
        raise PelError(
            f"{path}: is not JSON", "give a file of python -m spacy pel evaluate"
        ) from error
    if not isinstance(metrics, dict) or not isinstance(metrics.get("linker"), dict):
        raise PelError(
            f"{path}: does not say of which linker it is",
            f"make it anew: python -m spacy pel evaluate PIPELINE CORPUS --output {path}",
        )
    return metrics
