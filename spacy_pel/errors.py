"""The error class of the package, and helpers that raise it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class PelError(ValueError):
    """An error that the user can correct.

    The command line prints it in one line and exits with status 1. Any other exception that escapes
    is a bug.

    Args:
        problem: What is wrong, and where.
        remedy: How to correct it.
    """

    def __init__(self, problem: str, remedy: str):
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def at(self, place: str) -> "PelError":
        """Return the same error, with its place before the problem."""
        return PelError(f"{place}: {self.problem}", self.remedy)

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}"


def damaged(path: Path, fault: str) -> PelError:
    """Return the error for a file of a KB folder whose content was not written by this package."""
    return PelError(
        f"{path}: {fault}",
        "open the KB again if it was changed meanwhile; otherwise look for damage: "
        f"python -m spacy pel kb verify {path.parent}",
    )


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn an OSError within the block into a PelError that names the file, or else this path."""
    try:
        yield
    except OSError as error:
        problem = f"{error.filename or path}: cannot be read ({error.strerror or error})"
        raise PelError(problem, "check the path, and that you may read it") from error
