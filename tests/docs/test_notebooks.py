"""Each notebook runs from its first cell to its last, and is committed without what it printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from .notebook import Notebook
from .reader import Reader

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))
# A notebook downloads this encoder. The tests have one of their own.
ENCODER = "sentence-transformers/all-MiniLM-L6-v2"


def test_there_are_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["link", "ontology", "review", "train"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, tiny_folder: Path, tmp_path: Path) -> None:
    Reader(tmp_path, hurried=True).read(Notebook(path, {ENCODER: str(tiny_folder)}))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_holds_no_output(path: Path) -> None:
    for cell in Notebook(path).cells:
        assert cell["cell_type"] == "markdown" or not (cell["outputs"] or cell["execution_count"])
