"""One who follows the documentation: runs its code blocks in a folder, in their order."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from .pages import Block, Notebook, Page, app, commands_of, spacy_arguments, spacy_command

# In place of minutes of training: three steps of a tiny encoder. All else is as it is written.
SHORT = ["--training.max_steps", "3", "--training.eval_frequency", "3"]
ENCODER = "--components.proxy_linker.model.encoder"
DEMO = [
    *SHORT, "--corpora.dev.limit", "8", f"{ENCODER}.layers", "1", f"{ENCODER}.width", "32"
]  # fmt: skip
SHORTENED = {
    "demo": DEMO,
    "configs/demo.cfg": DEMO,
    "configs/demo_rerank.cfg": SHORT,
    "configs/mentions.cfg": SHORT,
}
DOCUMENTED_ADDRESS = "127.0.0.1:8000"


class Reader:
    """Runs blocks as if typed one after the other: in one folder, in one Python session.

    hurried: trains for three steps only, runs spaCy's commands in this process, which spares the
        start of one for each, and serves at a free port. Else everything is run as it is written.
    """

    def __init__(self, folder: Path, *, hurried: bool) -> None:
        self.folder = folder
        self.hurried = hurried
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._servers: list[subprocess.Popen] = []
        self._address = f"127.0.0.1:{_free_port()}" if hurried else DOCUMENTED_ADDRESS

    def read(self, page: Page | Notebook) -> None:
        """Runs what can be run of a page; an error names its line."""
        before = Path.cwd()
        try:
            for block in page.blocks:
                if block.needs is None and block.language in ("bash", "python"):
                    self._run(block, page.path)
        finally:
            os.chdir(before)
            self._stop_servers()

    def _run(self, block: Block, path: Path) -> None:
        os.chdir(self.folder)
        code = block.code.replace(DOCUMENTED_ADDRESS, self._address)
        if block.language == "python":
            # Behind empty lines, so that a traceback shows the line of the page.
            exec(compile("\n" * block.line + code, str(path), "exec"), self._names)
            return
        for command in commands_of(code):
            try:
                self._command(command)
            except Exception as error:
                raise AssertionError(f"{path}:{block.line}: {command}\n{error}") from error

    def _command(self, command: str) -> None:
        arguments = spacy_arguments(command)
        if command.startswith("cd "):
            self.folder = (self.folder / command.split()[1]).resolve()
            os.chdir(self.folder)
        elif arguments and arguments[:2] == ["pel", "serve"]:
            self._serve(command)
        elif arguments and self.hurried:
            self._spacy(arguments)
        else:
            run = self._bash(command)
            output, _ = run.communicate()
            assert run.returncode == 0, output

    def _spacy(self, arguments: list[str]) -> None:
        if "train" in arguments[:2]:
            config = next(word for word in arguments if word in SHORTENED)
            arguments = [*arguments, *SHORTENED[config]]
        spacy_command()  # adds our commands
        result = CliRunner().invoke(app, arguments)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output

    def _bash(self, command: str) -> subprocess.Popen:
        """The command, under way in a shell whose ``python`` is the one that runs this."""
        script = f'set -eo pipefail\npython() {{ "{sys.executable}" "$@"; }}\n{command}'
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen(["bash", "-c", script], cwd=self.folder, **pipes)

    def _serve(self, command: str) -> None:
        """Starts a server, to be stopped at the end of the page, and waits until it listens."""
        host, port = self._address.split(":")
        if self.hurried:
            command += f" --port {port}"
        server = self._bash(f"exec {command.replace('python', sys.executable, 1)}")
        self._servers.append(server)
        for _ in range(600):
            assert server.poll() is None, server.communicate()[0]
            with socket.socket() as client:
                if client.connect_ex((host, int(port))) == 0:
                    return
            time.sleep(0.1)
        raise AssertionError("the server does not listen after a minute")

    def _stop_servers(self) -> None:
        while self._servers:
            server = self._servers.pop()
            server.terminate()
            server.communicate(timeout=60)  # else it has not heard, and waiting would never end


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
