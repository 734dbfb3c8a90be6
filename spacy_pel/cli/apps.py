"""The Typer apps, and what all commands share: options, errors of one line, and the end by SIGTERM."""

import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer import Argument, Option

from ..errors import PelError
from .terminal import log_on_stderr, say_error

_PEL = """Link the mentions of documents to the entities of a knowledge base (KB).

\b
From an ontology to linked documents, without annotations:
  python -m spacy pel start hp.obo linker --encoder BERT
  python -m spacy pel link linker notes.txt --output linked.jsonl

\b
With annotated documents:
  python -m spacy pel kb build umls/2024AA/META kb
  python -m spacy pel train config.cfg --output training --paths.kb kb
  python -m spacy pel kb embed kb training/model-best
  python -m spacy pel calibrate training/model-best dev.pubtator
  python -m spacy pel link training/model-best notes.txt --output linked.jsonl

Each command has examples, as in: python -m spacy pel link --help. If something does not work, run:
python -m spacy pel doctor training/model-best
"""


def _app(help: str) -> typer.Typer:
    return typer.Typer(help=help, no_args_is_help=True, rich_markup_mode=None)


pel = _app(_PEL)
kb = _app("Build, embed, change, search and check a knowledge base.")
pel.add_typer(kb, name="kb")
change = _app("Add, update, merge or remove entities of a knowledge base.")
kb.add_typer(change, name="change")

Text, Texts = str | None, list[str] | None
File, Files = Path | None, list[Path] | None
Pipeline = Annotated[str, Argument(help="Folder or name of a trained pipeline")]
Component = Annotated[str, Option(help="Name of the linker in the pipeline")]
KB = Annotated[Path, Argument(metavar="KB", help="Folder of a KB, or a pipeline that has one")]
OtherKB = Annotated[File, Option("--kb", help="KB to use [default: the pipeline's own]")]
SpansKey = Annotated[Text, Option(help="Link doc.spans[KEY] [default: as the pipeline is set]")]
GpuId = Annotated[int, Option("--gpu-id", "-g", min=-1, help="GPU, or -1 for the CPU")]
Force = Annotated[bool, Option("--force", "-f", help="Replace the pipeline in OUT")]
AsJson = Annotated[bool, Option("--json", help="Print JSON")]
Engine = Annotated[str, Option(help="local: this computer; ray: a Ray cluster")]
Address = Annotated[Text, Option(help="Address of the Ray cluster [default: this computer]")]
_SOURCES = "Files or folders to read; last, the folder to make"
Sources = Annotated[list[Path], Argument(metavar="SOURCE... OUT", help=_SOURCES)]


def command(
    app: typer.Typer, name: str, *, after_all: str = "nothing was written", **settings: Any
) -> Callable[[Callable], Callable]:
    """Decorator that adds a function to an app as a command, and returns it unchanged.

    As a command, an error that the user can put right is one line on stderr and the exit code 1
    (130 for Ctrl-C, 143 for SIGTERM). Any other error is a bug and keeps its traceback.

    Args:
        after_all: What an interruption or a failure of the disk has left, for the message.
        **settings: Further settings of Typer's ``command``.
    """

    def add(function: Callable) -> Callable:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> None:
            if sys.stderr is None:  # closed, as for a daemon; progress is written to it
                sys.stderr = open(os.devnull, "w")
            try:
                with _ending_on_sigterm(), log_on_stderr():
                    return function(*args, **kwargs)
            except BrokenPipeError:  # the reader of stdout has gone: Typer ends quietly
                raise
            except PelError as error:
                code, message = 1, str(error)
            except OSError as error:
                place = f"{error.filename}: " if error.filename else ""
                remedy = "check the path, its rights and the space on its disk, and run it again"
                code, message = 1, f"{place}{error.strerror or error}; {after_all}; {remedy}"
            except KeyboardInterrupt:
                code, message = 130, f"interrupted; {after_all}"
            say_error(message)
            raise typer.Exit(code)

        app.command(name, **{"no_args_is_help": True, **settings})(run)
        return function

    return add


def sources_and_folder(paths: list[Path]) -> tuple[list[Path], Path]:
    """The files to read, and the folder to make, which comes last."""
    *sources, out = paths
    if not sources:
        raise PelError(f"{out}: the last path is the folder to make", "name it after the source")
    return sources, out


@contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    """Within the block SIGTERM raises SystemExit(143), so that half-done work is cleared away."""
    if threading.current_thread() is not threading.main_thread():  # has no signals
        yield
        return
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(*_: object) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)
