"""The JSON files of metrics that ``pel evaluate`` writes: written and read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from spacy.language import Language

from ..errors import PelError
from ..jobs.fingerprints import linker_state

_FIELDS = {"mentions", "recall@1", "mrr"}


def write_metrics(file: TextIO, metrics: dict[str, Any]) -> None:
    """Write metrics to an open file, as indented JSON."""
    json.dump(metrics, file, indent=2)
    file.write("\n")


def read_metrics(path: Path) -> dict[str, Any]:
    """The metrics in a file.

    Raises:
        PelError: The file holds no metrics of linking.
        OSError: The file cannot be read.
    """
    try:
        metrics = json.loads(path.read_text("utf8"))
    except ValueError as error:
        raise PelError(
            f"{path}: is not JSON ({error})", "give a file of python -m spacy pel evaluate"
        ) from error
    if not isinstance(metrics, dict) or not metrics.keys() >= _FIELDS:
        raise PelError(
            f"{path}: has no metrics of linking", "give a file of python -m spacy pel evaluate"
        )
    return metrics


def metrics_of_linker(
    nlp: Language, paths: Sequence[Path], component: str = "proxy_linker"
) -> dict[str, dict[str, Any]]:
    """The metrics of files, which must be those of this linker with this KB.

    Args:
        nlp: A pipeline.
        paths: Files of ``pel evaluate``.
        component: The name of the linker in the pipeline.

    Returns:
        The metrics by the names of their files, without folder and suffix.

    Raises:
        PelError: A file holds no metrics, or those of another linker or KB, or two files have the
            same name.
    """
    state = linker_state(nlp, component) if paths else {}
    metrics_by_name: dict[str, dict[str, Any]] = {}
    for path in paths:
        metrics = read_metrics(path)
        if not isinstance(metrics.get("linker"), dict):
            raise PelError(
                f"{path}: does not say which linker it is for",
                f"make it again: python -m spacy pel evaluate PIPELINE CORPUS --output {path}",
            )
        before = metrics["linker"]
        changed = [key for key in {**before, **state} if before.get(key) != state.get(key)]
        if changed:
            raise PelError(
                f"{path}: has figures of another {', '.join(changed)} than those of the pipeline",
                f"evaluate it again: {evaluate_command(metrics)} --output {path}",
            )
        if path.stem in metrics_by_name:
            raise PelError(f"{path}: is the second file of this name", "rename one of them")
        metrics_by_name[path.stem] = metrics
    return metrics_by_name


def evaluate_command(metrics: dict[str, Any]) -> str:
    """The command that computed the metrics, without the file to write."""
    words = ["python -m spacy pel evaluate", metrics["pipeline"], *metrics["corpus"]]
    for option, value in (("--spans-key", metrics["spans_key"]), ("--limit", metrics["limit"])):
        words += [option, str(value)] if value else []
    return " ".join(words)
