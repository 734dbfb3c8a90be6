"""The error for a file of a KB that does not hold what its writer wrote."""

from __future__ import annotations

from pathlib import Path

from ..errors import PelError


def damaged(path: Path, fault: str) -> PelError:
    """The error for a damaged file of a KB folder.

    Args:
        path: The file.
        fault: What was met in it.
    """
    return PelError(
        f"{path}: {fault}",
        "open the KB again if it was changed meanwhile; otherwise look for damage: "
        f"python -m spacy pel kb verify {path.parent}",
    )
