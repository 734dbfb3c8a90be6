"""What commands print has no control characters, whatever names hold."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spacy_pel.cli import pel
from spacy_pel.cli.progress_bar import counted
from spacy_pel.cli.terminal import log_on_stderr, msg, say, say_error
from spacy_pel.kb import KnowledgeBase

EVIL = "\x1b]0;owned\x07\x9b2J\r"


def is_clean(shown: str) -> bool:
    """Whether nothing of EVIL controls a terminal. (Colours of wasabi may.)"""
    return "owned" in shown and not any(part in shown for part in ("\x1b]", "\x07", "\x9b", "\r"))


@pytest.mark.parametrize(
    "show",
    [
        *(say, say_error, msg.good, msg.info, msg.warn, msg.text),
        lambda text: msg.text("title", text),
        lambda text: list(counted([1], text)),
    ],
)
def test_each_way_to_print(show, capsys) -> None:
    show(f"a {EVIL} name")
    shown = "".join(capsys.readouterr())
    assert is_clean(shown)


def test_the_log(capsys) -> None:
    with log_on_stderr():
        logging.getLogger("spacy_pel.any.room").warning("left out %s", EVIL)
    shown = capsys.readouterr().err
    assert shown.startswith("left out \ufffd]0;owned") and is_clean(shown)
    assert not logging.getLogger("spacy_pel").handlers


def test_a_table_of_okb(tmp_path: Path) -> None:
    """The names of types and of files are in its table and its warnings."""
    source = tmp_path / "types.jsonl"
    types = ["Good", f"Evil {EVIL}"]
    lines = [
        {"concept_id": f"C{n}", "canonical_name": f"name {n}", "types": [types[n % 2]]}
        for n in range(6)
    ]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = CliRunner()
    assert run.invoke(pel, ["kb", "build", str(source), str(tmp_path / "kb")]).exit_code == 0
    corpora = []
    for split in ("train", "dev"):
        path = tmp_path / f"{split}.pubtator"
        rows = "".join(f"1\t{7 * n}\t{7 * n + 6}\tname {n}\tE\tC{n}\n" for n in range(6))
        path.write_text(f"1|t|{' '.join(f'name {n}' for n in range(6))}\n{rows}")
        corpora += [f"--{split}", str(path)]
    with KnowledgeBase.open(tmp_path / "kb") as kb:
        (type,) = kb["C1"].types
    out = tmp_path / EVIL
    result = run.invoke(pel, ["okb", str(tmp_path / "kb"), str(out), "--types", type, *corpora])
    assert result.exit_code == 0, result.output
    assert is_clean(result.output)
