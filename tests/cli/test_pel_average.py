"""``pel average``, from two pipelines to a third."""

from __future__ import annotations

from pathlib import Path

import spacy


def test_it_writes_a_pipeline_and_names_the_next_command(
    run, tiny_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "averaged"
    said = run("average", tiny_folder, tiny_folder, out)
    assert "python -m spacy pel kb embed KB" in said
    averaged, before = (spacy.load(f).get_pipe("proxy_linker") for f in (out, tiny_folder))
    assert averaged.retriever.fingerprint() == before.retriever.fingerprint()
    assert "exists" in run("average", tiny_folder, tiny_folder, out, code=1)
    run("average", tiny_folder, tiny_folder, out, "--force")


def test_a_share_is_between_0_and_1(run, tiny_folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "less than or equal to 1" in run(
        "average", tiny_folder, tiny_folder, out, "--share", 1.5, code=2
    )
    assert not out.exists()
