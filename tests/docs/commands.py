"""Shell commands of the documentation: taken apart, and checked against what there is."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from typing import Any

import typer
from spacy.cli._util import app
from spacy.util import registry

SPACY = ["python", "-m", "spacy"]
HERE_DOCUMENT = re.compile(r"<<\s*['\"]?(\w+)")


def commands_of(code: str) -> Iterator[str]:
    """The commands of a block: one a line, unless continued; a here-document with its lines."""
    lines = iter(code.replace("\\\n", " ").splitlines())
    for line in lines:
        here = HERE_DOCUMENT.search(line)
        if here:
            body = itertools.takewhile(here[1].__ne__, lines)
            line = "\n".join([line, *body, here[1]])
        if line.strip() and not line.startswith("#"):
            yield line


def spacy_arguments(command: str) -> list[str] | None:
    """What a command gives to ``python -m spacy``; None if it is another, or more than that."""
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:  # an unclosed quote, as in an excerpt
        return None
    if words[:3] != SPACY or any(set(word) <= set("();<>|&") for word in words):
        return None
    return words[3:]


def spacy_command() -> Any:
    """The command line of spaCy, with what entry points add to it."""
    registry.cli.get_all()
    return typer.main.get_command(app)


def check_spacy(arguments: list[str], whole: bool = True) -> None:
    """Raises an error for a command or an option of spaCy's that is not there.

    whole: also for an argument that it lacks. Nothing is run, and no path need exist.
    """
    command, rest = spacy_command(), list(arguments)
    while hasattr(command, "commands") and (rest or whole) and rest != ["--help"]:
        assert rest and rest[0] in command.commands, f"no command {rest[:1]} in {command.name}"
        command = command.commands[rest.pop(0)]
    if rest == ["--help"]:
        return
    context = command.context_class(command, info_name=command.name, **command.context_settings)
    given, _, _ = command.make_parser(context).parse_args(rest)
    missing = [p.name for p in command.params if p.required and given.get(p.name) in (None, ())]
    assert not (whole and missing), f"{command.name} lacks {missing}"
