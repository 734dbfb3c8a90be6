"""``pel doctor``: whether what is installed, a pipeline and its KB work together."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from .apps import Component, OtherKB, command, pel
from .terminal import say

if TYPE_CHECKING:
    from ..packaging.checks import Finding

# By the state of a finding.
_MARKS = {
    "ok": ("ok    ", typer.colors.GREEN),
    "note": ("note  ", typer.colors.YELLOW),
    "broken": ("BROKEN", typer.colors.RED),
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
    """Check the installation, a pipeline and its KB.

    Prints what was found, and what to do about it. The exit code is 1 if something is broken, that
    is, if linking would fail.

    \b
    Examples:
      python -m spacy pel doctor
      python -m spacy pel doctor training/model-best
      python -m spacy pel doctor training/model-best --kb kb/other --json
    """
    from ..packaging.checks import BROKEN
    from ..packaging.diagnose import diagnose

    findings = list(diagnose(pipeline, kb, component))
    if as_json:
        say(json.dumps([finding._asdict() for finding in findings], indent=2))
    else:
        for finding in findings:
            _print(finding)
    if any(finding.state == BROKEN for finding in findings):
        raise typer.Exit(1)


def _print(finding: Finding) -> None:
    """A line, and another for the remedy: wasabi would break paths and commands."""
    mark, colour = _MARKS[finding.state]
    say(f"{mark} {finding.subject}: {finding.found}", fg=colour)
    if finding.remedy:
        say(f"    -> {finding.remedy}")
