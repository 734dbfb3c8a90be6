"""The project's scripts are no package that is installed: they are found here."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2] / "project"
sys.path[:0] = [str(PROJECT / "scripts"), str(PROJECT)]


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's folder, as the working directory."""
    monkeypatch.chdir(PROJECT)
    return PROJECT


def result(
    variant: str, seed: int, at_1: float, corpus: str = "demo", **changes: Any
) -> dict[str, Any]:
    """A line of results: recall@1, and half of it as auPR."""
    recalls = {f"recall@{k}": {"all": 0.1, "in_kb": at_1} for k in (1, 5, 16, 64)}
    nil = {
        **{"gold": 2, "average_precision": at_1 / 2, "precision": None, "recall": None, "f1": None},
        **{"recall@1": at_1, "recall@64": at_1, "recall@64_nil_as_candidate": at_1},
        "curve": {"precision": [1.0, at_1], "recall": [0.5, 1.0]},
    }
    norms = {"mean": 2.0, "variance": at_1, "variance_over_alpha": at_1}
    norms["relative_variance"] = at_1 / 4
    training = {
        **{"steps": 4, "epochs": 2.0, "seconds": 8.0, "seconds_per_epoch": 4.0},
        "passes_per_epoch": {"mentions": 10.0, "proxies": 20.0, "index": 0.0, "pairs": 0.0},
        "memory_mb": 900.0,
        "gradient_norm": norms,
        "gradient_norms": {"step": [1, 2, 3, 4], "norm": [4.0, 3.0, 2.0, 1.0 + at_1]},
    }
    return {
        **{"variant": variant, "corpus": corpus, "seed": seed, "digest": f"{variant}{seed}"},
        **{"limit": 0, "commit": "abc", "minutes": 1.0, "training": training},
        "metrics": {corpus: {**recalls, "nil": nil, "mentions_per_second": 100.0}},
        **changes,
    }
