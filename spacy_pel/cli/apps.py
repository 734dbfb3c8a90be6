"""The Typer apps, the options that commands share, and the handling of errors and signals."""

import functools
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeAlias

import typer
from typer import Argument, Option

from ..errors import PelError
from .terminal import log_on_stderr, say_error

_PEL = """Link mentions in documents to the entities of a knowledge base (KB).

\b
Without annotated documents:
  python -m spacy pel start hp.obo linker --encoder BERT
  python -m spacy pel link linker notes.txt --output linked.jsonl

\b
With annotated documents:
  python -m spacy pel kb build umls/2024AA/META kb
  python -m spacy train config.cfg --output training --paths.kb kb
  python -m spacy pel kb embed kb training/model-best
  python -m spacy pel calibrate training/model-best dev.pubtator
  python -m spacy pel link training/model-best notes.txt --output linked.jsonl

Each command shows examples: python -m spacy pel link --help. To diagnose a failure:
python -m spacy pel doctor training/model-best
"""


def _app(help: str) -> typer.Typer:
    return typer.Typer(help=help, no_args_is_help=True, rich_markup_mode=None)


pel = _app(_PEL)
kb = _app("Build, embed, change, search and check a knowledge base (KB).")
pel.add_typer(kb, name="kb")
change = _app("Add, update, merge or remove entities of a KB.")
kb.add_typer(change, name="change")

# The types of options that may be omitted.
Text: TypeAlias = str | None
Texts: TypeAlias = list[str] | None
File: TypeAlias = Path | None
Files: TypeAlias = list[Path] | None
Pipeline = Annotated[str, Argument(help="Folder or name of a trained pipeline")]
KB = Annotated[Path, Argument(metavar="KB", help="Folder of a KB, or of a pipeline with a KB")]
OtherKB = Annotated[File, Option("--kb", help="KB to use [default: the pipeline's]")]
SpansKey = Annotated[Text, Option(help="Link doc.spans[KEY] [default: the pipeline's setting]")]
GpuId = Annotated[int, Option("--gpu-id", "-g", min=-1, help="GPU, or -1 for the CPU")]
Force = Annotated[bool, Option("--force", "-f", help="Replace an existing pipeline in OUT")]
AsJson = Annotated[bool, Option("--json", help="Print JSON")]
Prefixes = Annotated[Texts, Option(help="Of ontologies: prefixes of ids, or all; repeatable")]
Engine = Annotated[str, Option(help="local: this computer; ray: a Ray cluster")]
Address = Annotated[Text, Option(help="Address of the Ray cluster [default: start one here]")]
Sources = Annotated[
    list[Path],
    Argument(metavar="SOURCE... OUT", help="Files or folders to read, then the folder to make"),
]


def command(
    app: typer.Typer, name: str, *, after_all: str = "nothing was written", **settings: Any
) -> Callable[[Callable], Callable]:
    """Return a decorator that adds a function to an app as a command.

    An error that the user can correct is printed as one line on stderr, with exit code 1; Ctrl-C exits
    with 130 and SIGTERM with 143. Any other error is a bug and keeps its traceback. The decorator
    returns the function unchanged.

    Args:
        app: The app that gets the command.
        name: The name of the command.
        after_all: What is on disk after an interruption or a disk error, for the message.
        **settings: Further settings of Typer's ``command``.
    """

    def add(function: Callable) -> Callable:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> None:
            if sys.stderr is None:  # closed, as for a daemon; progress bars need a stream
                sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 (stays open until the exit)
            try:
                with _exit_on_sigterm(), log_on_stderr():
                    return function(*args, **kwargs)
            except BrokenPipeError:  # the reader of stdout has closed it: Typer exits quietly
                raise
            except PelError as error:
                code, message = 1, str(error)
            except OSError as error:
                place = f"{error.filename}: " if error.filename else ""
                remedy = "check the path, its permissions and the free disk space, and run it again"
                code, message = 1, f"{place}{error.strerror or error}; {after_all}; {remedy}"
            except KeyboardInterrupt:
                code, message = 130, f"interrupted; {after_all}"
            say_error(message)
            raise typer.Exit(code)

        app.command(name, **{"no_args_is_help": True, **settings})(run)
        return function

    return add


def sources_and_folder(paths: list[Path]) -> tuple[list[Path], Path]:
    """Split the paths of SOURCE... OUT into the sources and the folder to make."""
    *sources, out = paths
    if not sources:
        raise PelError(f"{out}: there is no SOURCE before it", "give SOURCE first, then OUT")
    return sources, out


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """Make SIGTERM raise SystemExit(143) within the block, so that temporary files are removed."""
    if threading.current_thread() is not threading.main_thread():  # only this one gets signals
        yield
        return
    before = signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _exit(*_: object) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)
