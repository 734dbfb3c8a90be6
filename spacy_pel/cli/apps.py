"""The Typer apps, and what all commands share: options, output, and errors of one line."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from ..errors import PelError
from .signals import ending_on_sigterm
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
pel = typer.Typer(
    help=_PEL,
    no_args_is_help=True,
    rich_markup_mode=None,
)
kb = typer.Typer(
    help="Build, embed, change, search and check a knowledge base.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
pel.add_typer(kb, name="kb")
change = typer.Typer(
    help="Add, update, merge or remove entities of a knowledge base.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
kb.add_typer(change, name="change")

Pipeline = Annotated[str, typer.Argument(help="Folder or name of a trained pipeline")]
Component = Annotated[str, typer.Option(help="Name of the linker in the pipeline")]
Corpora = Annotated[
    list[Path],
    typer.Argument(
        help="Files whose mentions have ids (.pubtator, .jsonl, .json, .xml, .spacy, ...; also .gz), or "
        "FOLDER:SPLIT of MedMentions or ZESHEL"
    ),
]
OtherKB = Annotated[
    Path | None, typer.Option("--kb", help="Folder of a KB to use [default: the pipeline's own]")
]
Limit = Annotated[
    int, typer.Option(min=0, help="Number of documents taken of each file; 0 takes all")
]
SpansKey = Annotated[
    str | None,
    typer.Option(help="Take mentions from doc.spans[KEY] [default: as the pipeline is set]"),
]


def command(
    app: typer.Typer, name: str, *, after_all: str = "nothing was written", **settings: Any
) -> Callable[[Callable], Callable]:
    """Decorator that adds a function to an app as a command, and returns it unchanged.

    As a command, an error that the user can put right is one line on stderr and the exit code 1
    (130 for Ctrl-C, 143 for SIGTERM). Any other error is a bug and keeps its traceback.

    Args:
        app: The app.
        name: The name of the command.
        after_all: What an interruption or a failure of the disk has left, for the message.
        **settings: Further settings of Typer's ``command``.
    """

    def add(function: Callable) -> Callable:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> None:
            if sys.stderr is None:  # closed, as for a daemon; progress is written to it
                sys.stderr = open(os.devnull, "w")
            try:
                with ending_on_sigterm(), log_on_stderr():
                    function(*args, **kwargs)
            except BrokenPipeError:  # the reader of stdout has gone: Typer ends quietly
                raise
            except PelError as error:
                _fail(str(error), 1)
            except OSError as error:
                place = f"{error.filename}: " if error.filename else ""
                _fail(
                    f"{place}{error.strerror or error}; {after_all}; check the path, its rights "
                    "and the space on its disk, and run it again",
                    1,
                )
            except KeyboardInterrupt:
                _fail(f"interrupted; {after_all}", 130)

        app.command(name, **{"no_args_is_help": True, **settings})(run)
        return function

    return add


def _fail(message: str, code: int) -> NoReturn:
    """End the program with one line on stderr. (wasabi would break it, and print it to stdout.)"""
    say_error(message)
    raise typer.Exit(code)
