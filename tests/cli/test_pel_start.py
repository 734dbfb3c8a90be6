"""``pel start``, from files to a pipeline."""

from __future__ import annotations

from pathlib import Path


def test_it_makes_a_pipeline_and_names_the_next_command(
    run, tiny_folder: Path, tmp_path: Path
) -> None:
    table = tmp_path / "terms.csv"
    table.write_text("concept_id,canonical_name,aliases\nT1,headache,cephalgia\n")
    out = tmp_path / "linker"
    said = run("start", table, out, "--encoder", tiny_folder)
    assert "1 entities with 2 vectors" in said
    assert f"python -m spacy pel link {out} texts.txt --output linked.jsonl" in said
    assert (out / "config.cfg").is_file()


def test_one_path_is_not_enough(run, tmp_path: Path) -> None:
    assert "the last path is the folder to make" in run("start", tmp_path / "a.obo", code=1)
