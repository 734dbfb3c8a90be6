"""The results: a line of JSON for each run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock

from spacy_pel.system.whole_files import whole_file


class Results:
    """The lines of a file, which several processes may add to.

    Of several lines of one corpus, variant and seed the last one counts: it has the latest config.
    """

    def __init__(self, path: Path):
        self.path = path

    def __iter__(self) -> Iterator[dict[str, Any]]:
        if self.path.exists():
            yield from map(json.loads, self.path.read_text(encoding="utf8").splitlines())

    def __contains__(self, digest: str) -> bool:
        return any(line["digest"] == digest for line in self)

    def append(self, line: dict[str, Any]) -> None:
        """Add a line. A process that is killed leaves the whole line or nothing."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{self.path}.lock"):
            lines = [*self, line]
            with whole_file(self.path) as file:
                file.writelines(json.dumps(each) + "\n" for each in lines)

    def by_seed(self, corpus: str, variant: str) -> dict[int, dict[str, Any]]:
        """Give the lines of a variant on a corpus, by their seeds."""
        lines = (ln for ln in self if (ln["corpus"], ln["variant"]) == (corpus, variant))
        last = {line["seed"]: line for line in lines}
        return {seed: last[seed] for seed in sorted(last)}


def figure(line: dict[str, Any], dev: str, path: tuple[str, ...]) -> Any:
    """Give a figure of a result line: of its training, or of a dev set's metrics.

    Args:
        line: The result line.
        dev: The name of the dev set.
        path: The keys that lead to the figure; the first is "training" for one of its training.

    Returns:
        None if the line lacks it.
    """
    found: Any = line if path[0] == "training" else line["metrics"][dev]
    for part in path:
        found = found.get(part) if found is not None else None
    return found
