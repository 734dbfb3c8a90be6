from __future__ import annotations

import json
from pathlib import Path

from spacy_pel.evaluation.linking_metrics import linking_metrics


def test_averages_of_files(run, tmp_path: Path) -> None:
    paths = [tmp_path / "lego.json", tmp_path / "yugioh.json"]
    for path, ranks in zip(paths, ([1, 0, 0, 0], [1])):
        metrics = linking_metrics(ranks, [True] * len(ranks))
        path.write_text(json.dumps({**metrics, "pipeline": "p"}), encoding="utf8")
    output = run("macro", *paths, "-o", tmp_path / "zeshel.json")
    assert "Macro average of 2" in output and "| recall@1 | 62.5 | 62.5 | - | - |" in output
    assert "Micro average of 2" in output and "| recall@1 | 40.0 | 40.0 | - | - |" in output
    written = json.loads((tmp_path / "zeshel.json").read_text("utf8"))
    assert written["of"] == [str(path) for path in paths]
    assert written["macro"]["recall@1"]["all"] == 0.625


def test_other_files_are_refused(run, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    for text, message in [
        ("{", "bad.json: is not JSON"),
        ('{"recall@1": 1}', "no metrics of linking"),
    ]:
        bad.write_text(text, encoding="utf8")
        assert message in run("macro", bad, "-o", tmp_path / "out.json", code=1)
    assert not (tmp_path / "out.json").exists()
