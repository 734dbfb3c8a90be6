"""``pel demo`` writes what the quickstart works on."""

from __future__ import annotations

from pathlib import Path


def test_it_writes_the_demo_once(run, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    assert f"Wrote {folder}" in " ".join(run("demo", folder).split())
    assert (folder / "configs" / "demo.cfg").is_file()
    assert "there is something already; give a new folder" in run("demo", folder, code=1)
    run("kb", "build", folder / "assets" / "demo" / "umls", tmp_path / "kb")
