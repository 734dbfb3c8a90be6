"""The commands hang on spaCy's own command line."""

from __future__ import annotations

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


def spacy_pel(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "spacy", "pel", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_spacy_lists_the_commands() -> None:
    result = spacy_pel("--help")
    assert result.returncode == 0, result.stderr
    assert len(COMMANDS) > 12
    for name in {command[0] for command in COMMANDS}:
        assert f"\n  {name} " in result.stdout


def test_they_are_a_program_of_their_own() -> None:
    (script,) = entry_points(group="console_scripts", name="pel")
    assert script.load() is pel


def test_an_error_is_one_line_on_stderr(tmp_path: Path) -> None:
    result = spacy_pel("kb", "info", tmp_path)
    assert result.returncode == 1
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1
    assert f"{tmp_path}: no knowledge base here; build one" in result.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example(run, command: tuple[str, ...]) -> None:
    assert f"python -m spacy pel {' '.join(command)} " in run(*command, "--help")
