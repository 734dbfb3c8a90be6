"""The one error class of the package."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class PelError(ValueError):
    """Something the user can put right.

    The command line prints it as one line and exits with 1; any other error that escapes is a bug
    of ours.

    Args:
        problem: What is wrong, and where.
        remedy: What to do about it.
    """

    def __init__(self, problem: str, remedy: str):
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def at(self, place: str) -> "PelError":
        """The same error, with the place where it was met before the problem."""
        return PelError(f"{place}: {self.problem}", self.remedy)

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}"


def damaged(path: Path, fault: str) -> PelError:
    """The error for a file of a KB folder that does not hold what its writer wrote."""
    return PelError(
        f"{path}: {fault}",
        "open the KB again if it was changed meanwhile; otherwise look for damage: "
        f"python -m spacy pel kb verify {path.parent}",
    )


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn an OSError within the block into a PelError that names its file, or else this path."""
    try:
        yield
    except OSError as error:
        problem = f"{error.filename or path}: cannot be read ({error.strerror or error})"
        raise PelError(problem, "check the path, and that you may read it") from error
