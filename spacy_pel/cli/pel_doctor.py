"""``pel doctor``: whether what is installed, a pipeline and its KB work together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from ..errors import PelError
from ..pipeline.pipelines import linker_of, load_pipeline
from ..tasks.checks import BROKEN, NOTE, OK, Finding, computing, installed, knowledge_base
from ..tasks.checks import pipeline as pipeline_findings
from .apps import Component, OtherKB, command, pel

_MARKS = {
    OK: ("ok    ", typer.colors.GREEN),
    NOTE: ("note  ", typer.colors.YELLOW),
    BROKEN: ("BROKEN", typer.colors.RED),
}


@command(pel, "doctor", no_args_is_help=False)
def doctor_cli(
    pipeline: Annotated[
        str | None, typer.Argument(help="Folder or name of a trained pipeline")
    ] = None,
    kb: OtherKB = None,
    component: Component = "proxy_linker",
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON")] = False,
) -> None:
    """Check installation, pipeline and KB.

    Says whether they fit together, what was found, and what to do about it. Ends with the exit
    code 1 if something is broken, that is, if linking would fail.

    \b
    Examples:
      python -m spacy pel doctor
      python -m spacy pel doctor training/model-best
      python -m spacy pel doctor training/model-best --kb kb/other --json
    """
    findings = list(diagnosis(pipeline, kb, component))
    if as_json:
        typer.echo(json.dumps([finding._asdict() for finding in findings], indent=2))
    else:
        for finding in findings:
            _print(finding)
    if any(finding.state == BROKEN for finding in findings):
        raise typer.Exit(1)


def diagnosis(
    pipeline: str | None = None, kb: Path | None = None, component: str = "proxy_linker"
) -> Iterator[Finding]:
    """What there is to say of the installation, of a pipeline, and of its KB or another one."""
    yield from installed()
    yield from computing()
    if pipeline is None:
        yield from [] if kb is None else knowledge_base(kb)
        return
    try:
        nlp = load_pipeline(pipeline)
        linker = linker_of(nlp, component)
        path = kb or linker.kb.path
    except PelError as error:
        found, _, remedy = str(error).partition("; ")
        yield Finding(BROKEN, "pipeline", found, remedy)
        return
    of_kb = list(knowledge_base(path))
    yield from of_kb
    if not any(finding.subject == "kb" and finding.state == BROKEN for finding in of_kb):
        linker.set_kb(path)
        yield from pipeline_findings(nlp, linker)


def _print(finding: Finding) -> None:
    """A line, and another for the remedy: wasabi would break paths and commands."""
    mark, colour = _MARKS[finding.state]
    typer.secho(f"{mark} {finding.subject}: {finding.found}", fg=colour)
    if finding.remedy:
        typer.echo(f"    -> {finding.remedy}")
