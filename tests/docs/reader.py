"""Read a page of the documentation: find its code blocks and links, and run the blocks in order."""

import itertools
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import typer
from markdown_it import MarkdownIt
from spacy.cli._util import app
from spacy.util import registry
from typer.testing import CliRunner

NEEDS = re.compile(r"<!-- needs: (\S+) -->")
PARSER = MarkdownIt("commonmark").enable("table")
SHELL = "%%bash\n"
# Tests train a tiny encoder for three steps.
SHORT = ["--training.max_steps", "3", "--training.eval_frequency", "3"]
ENCODER = "--components.proxy_linker.model.encoder"
DEMO = [
    *SHORT, "--corpora.dev.limit", "8", f"{ENCODER}.layers", "1", f"{ENCODER}.width", "32"
]  # fmt: skip
SHORTENED = {
    "demo/configs/demo.cfg": DEMO,
    "configs/demo.cfg": DEMO,
    "configs/demo_rerank.cfg": SHORT,
    "configs/mentions.cfg": SHORT,
}


class Block(NamedTuple):
    """A code block, the line of its fence (from 1), and what it needs that the tests lack."""

    language: str
    code: str
    line: int
    needs: str | None


class Page:
    """A Markdown file: its code blocks, link targets and inline code."""

    def __init__(self, path: Path) -> None:
        self.path, self.text = path, path.read_text(encoding="utf8")
        tokens = PARSER.parse(self.text)
        spans = [span for token in tokens for span in token.children or ()]
        self.codes = [span.content for span in spans if span.type == "code_inline"]
        self.links = [str(t) for s in spans if (t := s.attrGet("href") or s.attrGet("src"))]
        self.blocks = []
        for before, token in itertools.pairwise([None, *tokens]):
            if token.type in ("fence", "code_block"):
                mark = before and before.type == "html_block" and NEEDS.search(before.content)
                place = (token.info.strip(), token.content, token.map[0] + 1)
                self.blocks.append(Block(*place, mark[1] if mark else None))


class Notebook:
    """A Jupyter notebook, whose cells are blocks. ``replaced`` maps written code to the code to run."""

    def __init__(self, path: Path, replaced: dict[str, str]) -> None:
        self.path, self.blocks = path, []
        self.cells = json.loads(path.read_text(encoding="utf8"))["cells"]
        for number, cell in enumerate(self.cells):
            if cell["cell_type"] == "code":
                code = "".join(cell["source"])
                for written, run in replaced.items():
                    code = code.replace(written, run)
                language = "bash" if code.startswith(SHELL) else "python"
                self.blocks.append(Block(language, code.removeprefix(SHELL), number, None))


def commands_of(code: str) -> Iterator[str]:
    """Yield the commands of a block: one per line, with continuations and here-documents."""
    lines = iter(code.replace("\\\n", " ").splitlines())
    for line in lines:
        here = re.search(r"<<\s*['\"]?(\w+)", line)
        if here:
            line = "\n".join([line, *itertools.takewhile(here[1].__ne__, lines), here[1]])
        if line.strip() and not line.startswith("#"):
            yield line


def spacy_arguments(command: str) -> list[str] | None:
    """Return the arguments of a single ``python -m spacy`` or ``pel`` command, or None for others."""
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:  # an unclosed quote, as in an excerpt
        return None
    if any(set(word) <= set("();<>|&") for word in words):
        return None
    if words[:3] == ["python", "-m", "spacy"]:
        return words[3:]
    return words if words[:1] == ["pel"] else None


def check_spacy(arguments: list[str]) -> None:
    """Raise an error if spaCy lacks a command or option. Run nothing."""
    registry.cli.get_all()  # adds our commands
    command, rest = typer.main.get_command(app), list(arguments)
    while hasattr(command, "commands") and rest and rest[0] != "--help":
        assert rest[0] in command.commands, f"no command {rest[0]} in {command.name}"
        command = command.commands[rest.pop(0)]
    context = command.context_class(command, info_name=command.name, **command.context_settings)
    command.make_parser(context).parse_args(rest)


class Reader:
    """Run blocks one after the other, in one folder and one Python session.

    Train for three steps only, run spaCy's commands in this process, and serve at a free port.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._servers: list[subprocess.Popen] = []
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self._port = listener.getsockname()[1]

    def read(self, page: Page | Notebook) -> None:
        """Run the blocks of a page that need nothing else. Errors name the line."""
        before = Path.cwd()
        try:
            for block in page.blocks:
                os.chdir(self.folder)
                code = block.code.replace("127.0.0.1:8000", f"127.0.0.1:{self._port}")
                if block.needs is None and block.language == "python":
                    # Behind empty lines, so that a traceback shows the line of the page.
                    exec(compile("\n" * block.line + code, str(page.path), "exec"), self._names)
                elif block.needs is None and block.language == "bash":
                    for command in commands_of(code):
                        try:
                            self._run(command)
                        except Exception as error:
                            place = f"{page.path}:{block.line}: {command}"
                            raise AssertionError(f"{place}\n{error}") from error
        finally:
            os.chdir(before)
            while self._servers:
                server = self._servers.pop()
                server.terminate()
                server.communicate(timeout=60)

    def _run(self, command: str) -> None:
        arguments = spacy_arguments(command)
        if command.startswith("cd "):
            self.folder = (self.folder / command.split()[1]).resolve()
            os.chdir(self.folder)
        elif arguments and arguments[:2] == ["pel", "serve"]:
            self._serve(
                f"exec {sys.executable} -m spacy {shlex.join(arguments)} --port {self._port}"
            )
        elif arguments:
            if "train" in arguments[:2]:
                arguments += SHORTENED[next(word for word in arguments if word in SHORTENED)]
            registry.cli.get_all()  # adds our commands
            result = CliRunner().invoke(app, arguments)
            if result.exception and not isinstance(result.exception, SystemExit):
                raise result.exception
            assert result.exit_code == 0, result.output
        else:
            run = self._bash(command)
            output, _ = run.communicate()
            assert run.returncode == 0, output

    def _bash(self, command: str) -> subprocess.Popen:
        """Start the command in a shell whose ``python`` and ``pel`` are those of this process."""
        python = f'python() {{ "{sys.executable}" "$@"; }}\npel() {{ python -m spacy pel "$@"; }}'
        script = f"set -eo pipefail\n{python}\n{command}"
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(["bash", "-c", script], cwd=self.folder, **pipes)

    def _serve(self, command: str) -> None:
        """Start a server, which ends with the page, and wait until it listens."""
        server = self._bash(command)
        self._servers.append(server)
        for _ in range(600):
            assert server.poll() is None, server.communicate()[0]
            with socket.socket() as client:
                if client.connect_ex(("127.0.0.1", self._port)) == 0:
                    return
            time.sleep(0.1)
        raise AssertionError("the server does not listen after a minute")
