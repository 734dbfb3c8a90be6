"""Whether an installation, a pipeline and its knowledge base work together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..errors import PelError
from ..pipeline.pipelines import linker_of, load_pipeline
from .checks import (
    BROKEN,
    Finding,
    computing_findings,
    installation_findings,
    kb_findings,
    pipeline_findings,
)


def diagnose(
    pipeline: str | Path | None = None,
    kb: Path | None = None,
    component: str = "proxy_linker",
) -> Iterator[Finding]:
    """Check the installation, and a pipeline with its KB.

    Args:
        pipeline: The folder or name of a pipeline. None: the installation alone is checked, and the
            KB if one is given.
        kb: The folder of a KB to check instead of the pipeline's own.
        component: The name of the linker in the pipeline.

    Returns:
        The findings, one after another. What is broken is a finding, not an error.
    """
    yield from installation_findings()
    yield from computing_findings()
    if pipeline is None:
        yield from [] if kb is None else kb_findings(kb)
        return
    try:
        nlp = load_pipeline(pipeline)
        linker = linker_of(nlp, component)
        path = kb or linker.kb.path
    except PelError as error:
        yield Finding(BROKEN, "pipeline", error.problem, error.remedy)
        return
    of_kb = list(kb_findings(path))
    yield from of_kb
    if not any(finding.subject == "kb" and finding.state == BROKEN for finding in of_kb):
        linker.set_kb(path)
        yield from pipeline_findings(nlp, linker)
