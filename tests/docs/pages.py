"""Pages and notebooks as the tests see them: code blocks, links, commands and what these name."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import typer
from markdown_it import MarkdownIt
from markdown_it.token import Token
from spacy.cli._util import app
from spacy.util import registry

NEEDS = re.compile(r"<!-- needs: (\S+) -->")
PARSER = MarkdownIt("commonmark").enable("table")
SHELL = "%%bash\n"
SPACY = ["python", "-m", "spacy"]
HERE_DOCUMENT = re.compile(r"<<\s*['\"]?(\w+)")


class Block(NamedTuple):
    """A code block. line: of its fence, from 1. needs: what it takes that the tests do not have."""

    language: str
    code: str
    line: int
    needs: str | None


class Page:
    """A Markdown file, read by a CommonMark parser: it tells a fence from a comment, a link from code.

    Attributes:
        blocks: Its code blocks, in their order; one without a fence has the language "".
        marks: What its comments say that the block behind them needs.
        links: The targets of its links and images.
        codes: What stands as code within its text.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        tokens = PARSER.parse(path.read_text(encoding="utf8"))
        spans = [span for token in tokens for span in token.children or ()]
        self.marks = [need for token in tokens for need in _needs(token)]
        self.codes = [span.content for span in spans if span.type == "code_inline"]
        targets = (span.attrGet("href") or span.attrGet("src") for span in spans)
        self.links = [str(target) for target in targets if target]
        self.blocks = [
            Block(
                token.info.strip(),
                token.content,
                token.map[0] + 1 if token.map else 0,
                next(iter(_needs(before)), None) if before else None,
            )
            for before, token in zip([None, *tokens], tokens)
            if token.type in ("fence", "code_block")
        ]


def _needs(token: Token) -> list[str]:
    return NEEDS.findall(token.content) if token.type == "html_block" else []


class Notebook:
    """A file of Jupyter: its code cells as blocks, whose line is the number of the cell.

    replaced: pairs of what stands in its code, and what is run instead.
    """

    def __init__(self, path: Path, replaced: dict[str, str] | None = None) -> None:
        self.path = path
        self.cells = json.loads(path.read_text(encoding="utf8"))["cells"]
        self.blocks = []
        for number, cell in enumerate(self.cells):
            if cell["cell_type"] == "code":
                code = "".join(cell["source"])
                for written, run in (replaced or {}).items():
                    code = code.replace(written, run)
                language = "bash" if code.startswith(SHELL) else "python"
                self.blocks.append(Block(language, code.removeprefix(SHELL), number, None))


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
