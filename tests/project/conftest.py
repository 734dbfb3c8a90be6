"""The project's scripts are no package that is installed: they are found here."""

import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2] / "project"
SCRIPTS = ("release/scripts", "scripts", "papers", "")
sys.path[:0] = [str(PROJECT / folder) for folder in SCRIPTS]


@pytest.fixture
def project(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's folder, as the working directory."""
    monkeypatch.chdir(PROJECT)
    return PROJECT
