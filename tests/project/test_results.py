"""Results, what is read from a log, tables and directions, by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from experiments.claims import CLAIMS, Finding, finding
from experiments.figures import few_shot_curves
from experiments.page import write_page
from experiments.registry import EXPERIMENTS, FEW_SHOT, SHARES, WHOLE
from experiments.results import Results, figure
from experiments.tables import table_cells, table_json, table_markdown
from experiments.training_log import recall_curve, training_summary

from .conftest import result


def results_of(folder: Path, *lines: dict) -> Results:
    results = Results(folder / "demo" / "results.jsonl")
    for line in lines:
        results.append(line)
    return results


def step(number: int, epoch: int, index: int, norm: float) -> dict:
    counts = {"mentions": 9, "mention_inputs": 3 * number, "entity_inputs": 7 * number}
    return {
        **{"step": number, "epoch": epoch, "loss": 1.0, "gradient_norm": norm},
        **{"seconds": 2.0 * number, "memory_mb": 100.0 + number},
        "counts": {**counts, "index_inputs": index, "pair_inputs": 0},
    }


def test_results_are_kept_and_the_last_of_a_seed_counts(tmp_path: Path) -> None:
    lines = [result("CE", 1, 0.5), result("CE", 0, 0.4), result("Pb", 0, 0.7)]
    results = results_of(tmp_path, *lines, result("CE", 1, 0.6, digest="new"))
    assert list(results.by_seed("demo", "CE")) == [0, 1]
    assert figure(results.by_seed("demo", "CE")[1], "demo", ("recall@1", "in_kb")) == 0.6
    assert "new" in results and "Pb0" in results and "Pb1" not in results
    assert results.by_seed("mesh", "CE") == {}


def test_a_writer_that_fails_leaves_the_lines(tmp_path: Path) -> None:
    results = results_of(tmp_path, result("CE", 0, 0.5))
    with pytest.raises(TypeError):
        results.append(result("Pb", 0, 0.5, commit=object()))
    assert [line["variant"] for line in results] == ["CE"]


def test_a_log_is_summed_up_without_what_evaluations_encode(tmp_path: Path) -> None:
    evaluation = {"step": 0, "scores": {}}
    lines = [step(1, 0, 50, 9.0), evaluation, step(2, 0, 150, 2.0), step(3, 1, 200, 4.0)]
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    summary = training_summary(log, warmup_steps=1, alpha=2)
    assert summary["passes"] == {"mentions": 9, "proxies": 21, "pairs": 0, "index": 100}
    assert summary["epochs"] == 1.5 and summary["seconds_per_epoch"] == 4.0
    assert summary["passes_per_epoch"]["proxies"] == 14.0
    assert summary["gradient_norm"] == {
        **{"mean": 3.0, "variance": 2.0, "variance_over_alpha": 0.5},
        "relative_variance": pytest.approx(2 / 9),
    }
    assert summary["gradient_norms"] == {"step": [1, 2, 3], "norm": [9.0, 2.0, 4.0]}
    assert summary["memory_mb"] == 103.0


def test_a_curve_over_steps_begins_at_step_0(tmp_path: Path) -> None:
    lines = [step(0, 0, 0, 1.0)]
    for number, recall in ((0, 0.4), (200, 0.6), (400, 0.7)):
        lines.append({"step": number, "score": 0.5, "scores": {"nel_recall_at_1": recall}})
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert recall_curve(log) == {"step": [0, 200, 400], "recall@1": [0.4, 0.6, 0.7]}


def test_the_table_and_the_figure_of_the_arms(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason='needs the extra "project"')
    lines = []
    for number, variant in enumerate(EXPERIMENTS["claim"].variants):
        for seed in range(3):
            line = result(variant.name, seed, 0.4 + number / 10 + seed / 100, "claim-mesh")
            line["metrics"] = dict.fromkeys(
                ("BC5CDR", "NCBI disease"), line["metrics"]["claim-mesh"]
            )
            curve = {"step": [0, 200, 400], "recall@1": [0.4, 0.5, 0.6 + seed / 100]}
            line["training"] |= {"curve": curve} if variant.trained else {"steps": 0}
            lines.append(line | {"fitted": "on the other half of the documents"})
    results = Results(tmp_path / "open" / "results.jsonl")
    for line in lines:
        results.append(line)
    write_page(tmp_path, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    rows = [
        ln for ln in text.splitlines() if ln.startswith("| untrained, cosine; entities as rows")
    ]
    assert "41.0 [38.5 to 43.5]" in rows[0]
    assert (tmp_path / "open" / "claim-mesh" / "claim-over-steps.svg").is_file()
    assert "-10.0 (entities) [-10.0 to -10.0]: reversed" in text
    assert "were fitted on the other half of the documents" in text


def test_samples_of_one_dev_set_share_a_column(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason='needs the extra "project"')
    results = Results(tmp_path / "open" / "results.jsonl")
    for corpus, upper, lower in (
        ("coreference-mesh", "1-Rand arborescence", "in-batch negatives"),
        ("krissbert-mesh", WHOLE.name, "self-supervised: without masking"),
    ):
        for name, value in ((upper, 0.6), (lower, 0.5)):
            line = result(name, 0, value, corpus)
            line["metrics"] = dict.fromkeys(("BC5CDR", "NCBI disease"), line["metrics"][corpus])
            results.append(line)
    write_page(tmp_path, tmp_path / "page.md")
    lines = [[cell.strip() for cell in ln.split("|")] for ln in (tmp_path / "page.md").open()]
    (header,) = (line for line in lines if "the paper's claim" in line)
    assert header[3:5] == ["BC5CDR", "NCBI disease"]
    for claim in (
        "Arborescences (all; 1-NN; 1-Rand) are above in-batch",
        "KRISSBERT gains from masking",
    ):
        (row, *_) = (line for line in lines if line[1:2] and line[1].startswith(claim))
        assert all(cell.startswith("+10.0") for cell in row[3:5])


def test_the_table_and_the_curves_of_few_documents(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason='needs the extra "project"')
    results = Results(tmp_path / "open" / "results.jsonl")
    for number, variant in enumerate(EXPERIMENTS["krissbert"].variants):
        line = result(variant.name, 0, 0.4 + number / 100, "krissbert-mesh")
        line["metrics"] = dict.fromkeys(
            ("BC5CDR", "NCBI disease"), line["metrics"]["krissbert-mesh"]
        )
        if variant not in FEW_SHOT["as rows"][2:4]:
            results.append(line)
    write_page(tmp_path, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    (row, _) = [ln for ln in text.splitlines() if "| self-supervised: without references" in ln]
    assert [cell.strip() for cell in row.split("|")][2:4] == ["43.0", "-"] and "82.7" in row
    assert "KRISSBERT gains from mention pairs, recall@1" in text
    folder = tmp_path / "open" / "krissbert-mesh"
    assert (folder / "krissbert-few-shot.svg").is_file()
    path = few_shot_curves(results, "krissbert-mesh", ["BC5CDR"], folder / "again")
    assert path == folder / "again.png"
    labels = {label: len(variants) for label, variants in FEW_SHOT.items()}
    assert labels == {"as rows": 5, "as training": 5} and len(SHARES) == 5


def of_mentions(value: float) -> dict:
    """What is added to the metrics of a variant that is linked jointly."""
    ways = ("best", "one by one", "undirected", "directed")
    recall = dict.fromkeys(("in_kb", "seen", "unseen"), value)
    return {
        "jointly": {
            "recall@1": dict.fromkeys(ways, recall),
            "ari": {"all": value, "all_unseen": None, "unseen": value},
            "coreference_recall@64": value / 2,
        },
        "discovery": {"ari_all": 0.9, "ari_lacking": 0.8, "precision": 0.25, "proposals": 40.0},
        "oracle": {"self": value, "union": value / 2},
    }


def test_the_tables_of_mentions_that_are_linked_together(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason='needs the extra "project"')
    corpus, dev = "coreference-medmentions", "MedMentions"
    names = ("arborescence", "arborescence-reranking")
    variants = [v for name in names for v in EXPERIMENTS[name].variants]
    results = Results(tmp_path / "open" / "results.jsonl")
    for number, variant in enumerate(variants):
        line = result(variant.name, 0, 0.5, corpus)
        metrics = {**line["metrics"][corpus], **of_mentions(0.5 + number / 100)}
        results.append(line | {"metrics": {dev: metrics}})
    write_page(tmp_path, tmp_path / "page.md")
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in (tmp_path / "page.md").read_text().splitlines()
        if line.startswith("| arborescence")
    ]
    _, jointly, clusters, reranked = rows
    assert jointly[1:7] == ["53.0"] * 6 and jointly[-3:] == ["72.2", "77.5", "53.8"]
    assert clusters[1:5] == ["0.53", "-", "0.53", "26.5"] and clusters[-3:] == [
        "0.51",
        "0.83",
        "0.85",
    ]
    assert clusters[5:9] == ["0.90", "0.80", "25.0", "40"]
    assert reranked[0] == "arborescence + reranker"
    assert reranked[4:6] == ["61.0", "30.5"] and reranked[-2:] == ["76.1", "75.6"]
    assert (tmp_path / "open" / corpus / "arboel-figure3.svg").is_file()


def test_a_long_curve_is_thinned_to_means(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(json.dumps(step(n, 0, 0, n % 2)) + "\n" for n in range(1000)))
    summary = training_summary(log, warmup_steps=0, alpha=1)
    curve = summary["gradient_norms"]
    assert len(curve["norm"]) == 200 and curve["step"][-1] == 1000
    assert curve["norm"][0] == pytest.approx(0.4)  # 0, 1, 0, 1, 0
    assert summary["epochs"] is None and summary["passes_per_epoch"] is None


def test_a_table_has_means_spreads_and_the_papers_figures(tmp_path: Path) -> None:
    results = results_of(
        tmp_path, *(result("Pb, random 32", seed, at_1) for seed, at_1 in enumerate((0.4, 0.6)))
    )
    cells = table_cells(results, EXPERIMENTS["retrieval"], "demo", "demo")
    assert list(cells) == ["Pb, random 32"]
    found = table_json(cells)["Pb, random 32"]["recall@1"]
    assert found == {"mean": 0.5, "deviation": pytest.approx(0.1414, abs=1e-4), "runs": 2}
    row = [c.strip() for c in table_markdown(EXPERIMENTS["retrieval"], cells).split("|")]
    assert "50.0 ± 14.1" in row and "48.9" in row and "85.2" in row


def found(results: Results, beginning: str) -> Finding:
    (claim,) = (claim for claim in CLAIMS if claim.text.startswith(beginning))
    return finding(results, "demo", "demo", claim)


AT_RANDOM = "Pb is above CE at random negatives"


def seeds_of(variant: str, *at_1: float) -> list[dict]:
    return [result(variant, seed, value) for seed, value in enumerate(at_1)]


@pytest.mark.parametrize(
    ("pb", "verdict"),
    [
        ((0.50, 0.51, 0.52), "held"),  # 0.10, 0.11, 0.12 above
        ((0.30, 0.29, 0.28), "reversed"),
        ((0.50, 0.41, 0.49), "not decided"),  # 0.10, 0.01, 0.09: a mean above its spread
        ((0.41, 0.39, 0.41), "not decided"),
        ((0.90,), "not decided"),
    ],
)
def test_the_interval_decides(tmp_path: Path, pb: tuple[float, ...], verdict: str) -> None:
    results = results_of(tmp_path, *seeds_of("CE, random 32", 0.4, 0.4, 0.4))
    assert found(results, AT_RANDOM).verdict == "not run"
    for line in seeds_of("Pb, random 32", *pb):
        results.append(line)
    assert found(results, AT_RANDOM).verdict == verdict


def test_differences_are_within_seeds(tmp_path: Path) -> None:
    pb, ce = seeds_of("Pb, random 32", 0.2, 0.9, 0.5), seeds_of("CE, random 32", 0.1, 0.81, 0.39)
    each = found(results_of(tmp_path, *pb, *ce), AT_RANDOM)
    assert each.difference.mean == pytest.approx(0.1)
    assert each.interval == (
        pytest.approx(0.1 - 0.02484, abs=1e-4),
        pytest.approx(0.12484, abs=1e-4),
    )
    assert each.summary == "+10.0 (32) [+7.5 to +12.5]: held"
    noted = results_of(tmp_path, result("Pb, random 32", 2, 0.5, note="a fault"))
    assert found(noted, AT_RANDOM).summary.endswith(": held *")


def test_a_claim_is_one_line_for_all_its_settings(tmp_path: Path) -> None:
    assert len({claim.text for claim in CLAIMS}) == len(CLAIMS) == 31
    lines = [*seeds_of("Pb, random 32", 0.5, 0.5), *seeds_of("CE, random 32", 0.4, 0.4)]
    lines += [*seeds_of("Pb, random 64", 0.8, 0.8), *seeds_of("CE, random 64", 0.5)]
    each = found(results_of(tmp_path, *lines), AT_RANDOM)
    assert each.summary == "+20.0 [one seed]: not decided"  # the seed that has both settings


def test_arborescences_are_compared_with_each_baseline(tmp_path: Path) -> None:
    at_1 = {"in-batch negatives": 0.3, "k-NN negatives": 0.6, "1-Rand arborescence": 0.5}
    results = results_of(tmp_path, *(result(name, 0, value) for name, value in at_1.items()))
    beginning = "Arborescences (all; 1-NN; 1-Rand) are above "
    for baseline, difference in (("in-batch", 0.2), ("k-NN", -0.1)):
        each = found(results, f"{beginning}{baseline} negatives, recall@1")
        assert each.cases == ["1-Rand"]
        assert each.difference.mean == pytest.approx(difference)


def test_what_mixed_negatives_give_is_compared(tmp_path: Path) -> None:
    figures = {"CE, random 32": 0.3, "CE, mixed 32": 0.6, "Pb, random 32": 0.5, "Pb, mixed 32": 0.6}
    results = results_of(tmp_path, *(result(name, 0, at_1) for name, at_1 in figures.items()))
    gain = found(results, "CE gains more than Pb from mixed negatives")
    assert gain.difference.mean == pytest.approx(0.2)
    norms = found(results, "The norm of Pb's gradients varies less")
    assert norms.cases == ["random", "mixed"]
    assert norms.difference.mean == pytest.approx((0.3 / 4 - 0.5 / 4 + 0) / 2)


def test_the_page_has_all_that_was_run(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason='needs the extra "project"')
    lines = [
        result(variant.name, seed, 0.5 + seed / 10, corpus)
        for name, corpus in (("gradient-norms", "demo"), ("nil", "demo-okb"))
        for variant in EXPERIMENTS[name].variants
        for seed in (0, 1)
    ]
    results_of(tmp_path / "results", *lines)
    page = tmp_path / "EXPERIMENTS.md"
    write_page(tmp_path / "results", page)
    text = page.read_text()
    (nil_line,) = [ln for ln in text.splitlines() if ln.startswith("| Pb tells NIL better")]
    assert "+51.4 (MedMentions)" in nil_line and ": not decided" in nil_line
    assert "## demo (profile demo)" in text and "## mesh" not in text
    assert "| 55.0 ± 7.1" in text
    folder = tmp_path / "results" / "demo"
    for name in ("demo-okb/figure2-nil", "demo/figure3-gradient-norms"):
        assert f"(results/demo/{name}.png)" in text
        assert (folder / f"{name}.svg").is_file()
    tables = json.loads((folder / "demo-okb" / "tables.json").read_text())
    assert tables["nil"]["demo-okb"]["Pb, mixed 32"]["auPR"]["mean"] == pytest.approx(0.275)
    tables = json.loads((folder / "demo" / "tables.json").read_text())
    assert list(tables) == ["retrieval", "gradient-norms", "cost"]  # more than one variant was run
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    write_page(tmp_path / "results", page)
    assert before == {path: path.read_bytes() for path in before}
