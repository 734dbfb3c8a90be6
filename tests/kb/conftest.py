from pathlib import Path

import pytest

from .living import ENTITIES, living_kb


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a KB of ENTITIES with vectors, for one test alone."""
    return living_kb(tmp_path / "kb", ENTITIES)
