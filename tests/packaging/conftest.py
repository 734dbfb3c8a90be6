"""A BERT that pipelines are made of."""

from pathlib import Path

import pytest

from ..towers import save_bert


@pytest.fixture
def bert(tmp_path: Path) -> Path:
    """The folder of a BERT of two layers with random weights, as Hugging Face stores one."""
    folder = tmp_path / "bert"
    folder.mkdir()
    return Path(save_bert(folder, n_layers=2))
