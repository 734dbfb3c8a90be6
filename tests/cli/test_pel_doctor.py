"""What the doctor finds, of healthy and of broken installations, pipelines and KBs."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from spacy_pel.cli import pel
from spacy_pel.kb import KnowledgeBase


def test_it_prints_what_to_do_and_fails_if_something_is_broken(
    run, tiny_folder: Path, bare_kb: KnowledgeBase
) -> None:
    arguments = ["doctor", str(tiny_folder), "--kb", str(bare_kb.path)]
    result = CliRunner().invoke(pel, arguments)
    assert result.exit_code == 1
    output = " ".join(result.output.split())
    assert "vectors: none: nothing can be linked to the KB" in output
    assert "-> python -m spacy pel kb embed" in output
    result = CliRunner().invoke(pel, [*arguments, "--json"])
    assert result.exit_code == 1
    assert {"broken", "ok"} <= {finding["state"] for finding in json.loads(result.stdout)}
    assert "spacy: " in run("doctor")
