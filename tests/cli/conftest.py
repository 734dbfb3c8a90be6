"""How the tests of this room call the command line."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import CliRunner

from spacy_pel.cli import pel


@pytest.fixture
def run() -> Callable[..., str]:
    """Runs ``pel ARGUMENTS`` and gives what it prints, if it ends with the exit code ``code``.

    White space in it is made single blanks. A failure must be one line, without a traceback.
    """

    def run_pel(*arguments: object, code: int = 0, stdin: bytes = b"") -> str:
        result = CliRunner().invoke(pel, [str(a) for a in arguments], input=stdin)
        assert result.exit_code == code, (result.output, result.exception)
        if code:
            assert isinstance(result.exception, SystemExit), result.exception
            assert result.output.splitlines()[-1].startswith("Error: ")
            assert "Traceback" not in result.output
        return " ".join(result.output.split())  # wasabi breaks lines anywhere

    return run_pel
