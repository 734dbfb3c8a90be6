import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from papers import report, run
from spacy.lang.en import English
from spacy.schemas import ConfigSchemaTraining
from spacy.util import registry

from spacy_pel.errors import PelError

TABLES = [run.read_table(path.stem) for path in sorted((run.HERE / "tables").glob("*.yml"))]
PLACES = {"data": "DATA", "encoder": "ENCODER", "work": "WORK", "kb": "KB", "retriever": "R"}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table["name"])
def test_each_variant_makes_a_valid_config(table: dict[str, Any], project: Path) -> None:
    variants = run.variants_of(table)
    assert len({variant.name for variant in variants}) == len(variants) > 0
    for variant in variants:
        config = run.make_config(table, variant, 3, PLACES)
        filled_in = English.default_config.merge(config).interpolate()
        assert "{" not in config.to_str().replace("${", "")
        registry.resolve(filled_in["training"], schema=ConfigSchemaTraining)
        registry.resolve(filled_in["corpora"])
        registry.resolve({"it": filled_in["components"]["proxy_linker"]})
        assert filled_in["training"]["seed"] == 3
        if "reranks" in variant.options:
            assert filled_in["paths"]["retriever"] == "R"  # the one that was trained before
        steps = table["rerank_steps" if "reranks" in variant.options else "steps"]
        assert not steps or filled_in["training"]["max_steps"] == steps


def test_axes_are_crossed_and_settings_are_laid_over() -> None:
    table = {
        "axes": {
            "loss": {"A": {"loss": 1}, "B": {"loss": 2}},
            "rows": {"r": {"index_unit": "name"}},
        },
        "variants": {"C": {"trained": False}},
    }
    found = run.variants_of(table)
    assert [variant.name for variant in found] == ["A; r", "B; r", "C"]
    assert found[1].settings == {"loss": 2, "index_unit": "name"}
    assert found[2].options == {"trained": False}
    base, other = run.read_table("claim-mesh"), run.read_table("claim-medmentions")
    assert other["steps"] == base["steps"] and other["hidden"] == 0 != base["hidden"]
    assert "model.mention_length" not in run.read_table("pel-umls")["settings"]  # cleared
    with pytest.raises(PelError, match='no table "x"; choose one of'):
        run.read_table("x")


DEMO = {
    "name": "demo",
    "config": "configs/demo.cfg",
    "prepare": ["kb build assets/demo/umls {work}/kb"],
    "dev": {"demo": "assets/demo/corpus/dev.pubtator"},
    **{"mentions": 40, "hidden": 0.3, "steps": 3},
    "settings": {
        **{".corpora.dev.limit": 1, ".corpora.train.limit": 20},
        **{f"model.encoder.{name}": n for name, n in (("width", 16), ("heads", 2), ("layers", 1))},
    },
    "axes": {"loss": {"Pb": {"loss": {"@losses": "spacy-pel.ProxyLoss.v2"}}}},
    "variants": {"untrained": {"trained": False}},
}


def test_a_run_from_beginning_to_end(project: Path, tmp_path: Path) -> None:
    runner = run.Runner(DEMO, {}, tmp_path)
    runner.prepare()
    lines = [runner.run(runner.variants[name], 0) for name in ("Pb", "untrained")]
    first = lines[0]["figures"]["demo"]
    assert lines[0]["bias"] and lines[0]["norms"]["mean"] > 0 and lines[1]["steps"] == 0
    assert 40 <= first["mentions"] == sum(first["documents"]) == len(first["hits"]) < 60
    assert first["hits"].count("1") / first["in_kb"] == pytest.approx(first["recall@1"], abs=1e-4)
    assert first["is_nil"].count("1") > first["mentions"] - first["in_kb"]  # some are hidden
    assert 0 < first["nil"] <= 1 and len(first["scores"]) == first["mentions"]
    again = runner.run(runner.variants["Pb"], 0)  # what is there is used
    assert again["figures"] == lines[0]["figures"]
    json.dumps(lines)  # they are written so
    worlds = run.Runner({**DEMO, "kbs": {"demo": "{work}/kb"}}, {}, tmp_path)
    of_world = worlds.run(worlds.variants["Pb"], 0)["figures"]
    assert of_world == lines[0]["figures"]  # with the same entities


def test_a_sample_has_what_corpora_mention(tmp_path: Path) -> None:
    entities = [{"concept_id": f"C{n}", "canonical_name": str(n), "alt_ids": []} for n in range(50)]
    entities[7]["alt_ids"] = ["OLD"]
    with gzip.open(tmp_path / "kb.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(entity) + "\n" for entity in entities)
    (tmp_path / "a.pubtator").write_text("1|t|x y\n1|a|\n1\t0\t1\tx\tT\tC3\n1\t2\t3\ty\tT\tOLD\n\n")
    for out in ("a", "b"):
        args = [tmp_path / "kb.jsonl.gz", [str(tmp_path / "a.pubtator")], 0, 5, tmp_path / out]
        run.write_sample(*args)
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text()
    ids = [int(json.loads(line)["concept_id"][1:]) for line in (tmp_path / "a").open()]
    assert len(ids) == 7 and {3, 7} < set(ids) and ids == sorted(ids)


def line(hits: str, scores: list[int], is_nil: str) -> dict[str, Any]:
    figures = {"documents": [4] * 10, "hits": hits, "scores": scores, "is_nil": is_nil}
    return {"figures": {"dev": figures}}


def test_intervals_are_paired_by_document() -> None:
    nil = "0001" * 10
    good = line("110-" * 10, [3, 3, 3, 1] * 10, nil)
    bad = line("010-" * 10, [3, 3, 1, 3] * 10, nil)
    same = report.difference({0: good, 1: good}, {0: good, 2: bad}, "dev", "@1")
    assert same == (0, 0, 0, 1)  # of the seed that both have
    value, low, high, _ = report.difference({0: good}, {0: bad}, "dev", "@1")
    assert value == pytest.approx(1 / 3) and low == high == pytest.approx(1 / 3)
    value, low, _, _ = report.difference({0: good}, {0: bad}, "dev", "NIL")
    assert value > 0.5 and low > 0
    mixed = line("110-" * 5 + "010-" * 3 + "000-" * 2, [3, 3, 3, 1] * 10, nil)
    value, low, high, _ = report.difference({0: mixed}, {0: bad}, "dev", "@1")
    assert low < 0 < value < high
