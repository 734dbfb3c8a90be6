import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import typer

from spacy_pel.cli import pel


def commands_of(app: typer.Typer) -> list[tuple[str, ...]]:
    """The words of each command of an app, and of the apps in it."""
    below = [
        (group.name, *words)
        for group in app.registered_groups
        for words in commands_of(group.typer_instance)
    ]
    return [*((command.name,) for command in app.registered_commands), *below]


COMMANDS = commands_of(pel)


def test_spacy_has_the_commands_and_an_error_is_one_line_on_stderr(tmp_path: Path) -> None:
    (script,) = entry_points(group="console_scripts", name="pel")
    assert script.load() is pel and len(COMMANDS) > 12
    command = [sys.executable, "-m", "spacy", "pel", "kb", "info", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stdout) == (1, "")
    assert len(result.stderr.strip().splitlines()) == 1
    assert f"{tmp_path}: no knowledge base here; build one" in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(run, command: tuple[str, ...]) -> None:
    assert f"python -m spacy pel {' '.join(command)} " in run(*command, "--help")
