"""Notebooks as the tests see them: their cells as code blocks."""

from __future__ import annotations

import json
from pathlib import Path

from .markdown import Block

SHELL = "%%bash\n"


class Notebook:
    """A file of Jupyter. replaced: pairs of what stands in its code, and what is run instead."""

    def __init__(self, path: Path, replaced: dict[str, str] | None = None) -> None:
        self.path = path
        self.cells = json.loads(path.read_text(encoding="utf8"))["cells"]
        self._replaced = replaced or {}

    @property
    def blocks(self) -> list[Block]:
        """Its code cells; the line of each is its number in the notebook."""
        return [
            self._block("".join(cell["source"]), number)
            for number, cell in enumerate(self.cells)
            if cell["cell_type"] == "code"
        ]

    def _block(self, code: str, number: int) -> Block:
        for written, run in self._replaced.items():
            code = code.replace(written, run)
        language = "bash" if code.startswith(SHELL) else "python"
        return Block(language, code.removeprefix(SHELL), number, None)
