from __future__ import annotations

import json
from pathlib import Path

from spacy_pel.kb import KnowledgeBase

CORPUS = "1|t|Aspirin for headache\n1\t0\t7\tAspirin\tT\tC05\n1\t12\t20\theadache\tT\tC06\n"


def test_the_command(run, tiny_kb: Path, tmp_path: Path) -> None:
    for name in ("train", "dev"):
        (tmp_path / f"{name}.pubtator").write_text(CORPUS, encoding="utf8")
    out = tmp_path / "okb"
    arguments = ("okb", tiny_kb, out, "--train", tmp_path / "train.pubtator", "--types", "Chemical")
    output = run(*arguments, "--dev", tmp_path / "dev.pubtator")
    assert "| % Entities seen | 100.0 | 100.0 |" in output
    assert "Took 1 of 7 entities out" in output and "pel kb embed" in output
    assert "C05" not in KnowledgeBase.open(out / "kb")
    assert json.loads((out / "report.json").read_text("utf8"))["types"] == ["Chemical"]
    assert "needed" in run(*arguments, code=1)
