"""The page of all tables and figures, made from the results alone."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spacy_pel.evaluation.markdown_table import markdown_table
from spacy_pel.system.whole_files import whole_file

from .claims import CLAIMS, Claim, finding
from .corpora import Corpus
from .figures import (
    few_shot_curves,
    gradient_norms,
    nil_curves,
    recall_of_both_kinds,
    recall_over_steps,
)
from .profiles import PROFILES
from .registry import EXPERIMENTS, Experiment
from .results import Results
from .tables import table_cells, table_json, table_markdown

HEAD = """# Experiments

`python scripts/experiment.py report` makes this page from the lines in `{results}/*/results.jsonl`; do not
edit it. To make such lines: `python scripts/experiment.py run NAME --profile demo --seeds 0,1,2`.

Pb is the proxy-based loss with the cosine. CE is cross-entropy with the dot product. "mixed 32" means 32
negatives, half of them hard. Figures are of dev sets: the mean over seeds ± the sample standard
deviation, in percent unless the column has another unit. The paper's figures are of test sets, with UMLS
and SapBERT (MedMentions) or with BERT (ZESHEL).
"""
CLAIMS_HEAD = """## The paper's claims

One line for each claim. "Paper" has the size of the paper's effect, in points. A cell has the difference
found here, in points (of the variance: as it is), then its 95 % confidence interval in brackets. The
difference is taken within each seed, and is the mean over the settings in the claim's brackets; if not
all of them were run, the cell names those that were. The interval is Student's t over the seeds: with
three seeds it is the mean ± 2.48 standard deviations. It knows only the seeds' chance, not that of the
documents, and it is not corrected for the number of claims. "held": the interval is above 0. "reversed":
it is below 0. "not decided": 0 is in it, or there is one seed. A star: some of the runs have a fault,
which the section of the corpus names.
"""


def write_page(results: Path, page: Path) -> None:
    """Write the tables (JSON), the figures (PNG, SVG) and the page of both (Markdown)."""
    parts = [HEAD.format(results=results), *_claims_part(results)]
    for profile in PROFILES:
        found = Results(results / profile / "results.jsonl")
        for corpus in PROFILES[profile].corpora:
            parts += _corpus_part(found, corpus, profile, page.parent)
    with whole_file(page) as file:
        file.write("\n".join(parts))


def _claims_part(results: Path) -> Iterator[str]:
    """The table of the claims: a line for each, a column for each dev set with results.

    Experiments of one profile run on different samples of a dev set, which share its column: a claim
    is about one experiment.
    """
    columns: dict[tuple[str, str], dict[str, str]] = {}
    for profile in PROFILES:
        found = Results(results / profile / "results.jsonl")
        for corpus in PROFILES[profile].corpora:
            for dev in corpus.shown:
                cells = {c.text: _claim_cell(found, profile, corpus, dev, c) for c in CLAIMS}
                if any(cells.values()):
                    column = columns.setdefault((dev, profile), {})
                    column.update({text: cell for text, cell in cells.items() if cell})
    rows = [[c.text, c.paper, *(each.get(c.text, "") for each in columns.values())] for c in CLAIMS]
    rows = [row for row in rows if any(row[2:])]
    if rows:
        devs = [dev for dev, _ in columns]
        names = [f"{d} ({profile})" if devs.count(d) > 1 else d for d, profile in columns]
        yield CLAIMS_HEAD
        yield markdown_table(["the paper's claim", "paper", *names], rows) + "\n"


def _claim_cell(results: Results, profile: str, corpus: Corpus, dev: str, claim: Claim) -> str:
    experiment = EXPERIMENTS[claim.experiment]
    elsewhere = corpus not in getattr(PROFILES[profile], experiment.corpora)
    if elsewhere or (experiment.of_training and dev != corpus.shown[0]):
        return ""
    return finding(results, corpus.name, dev, claim).summary


def _corpus_part(results: Results, corpus: Corpus, profile: str, base: Path) -> Iterator[str]:
    """The section of a corpus; nothing if it has no results."""
    lines = [line for line in results if line["corpus"] == corpus.name]
    if not lines:
        return
    folder = results.path.parent / corpus.name
    yield f"## {corpus.name} (profile {profile})\n"
    yield _settings(lines)
    yield from _notes(lines)
    experiments = {
        name: experiment
        for name, experiment in EXPERIMENTS.items()
        if corpus in getattr(PROFILES[profile], experiment.corpora)
    }
    tables: dict[str, Any] = {}
    for name, experiment in experiments.items():
        cells = {
            dev: table_cells(results, experiment, corpus.name, dev)
            for dev in (corpus.shown[:1] if experiment.of_training else corpus.shown)
        }
        if max(map(len, cells.values())) < 2:  # a single variant, of another experiment
            continue
        tables[name] = {dev: table_json(each) for dev, each in cells.items()}
        yield _experiment_part(experiment, cells)
        if name in FIGURES:
            yield _figure_part(name, results, corpus, folder, base)
    with whole_file(folder / "tables.json") as file:
        json.dump(tables, file, indent=2)


def _settings(lines: list[dict[str, Any]]) -> str:
    """A line about the runs: their number, steps, documents, minutes and commits."""
    steps = sorted({line["training"]["steps"] for line in lines})
    limits = sorted({line["limit"] for line in lines})
    commits = sorted({line["commit"] or "unknown" for line in lines})
    minutes = sum(line["minutes"] for line in lines)
    limited = [f"{limit} documents" if limit else "all documents" for limit in limits]
    fitted = sorted({line.get("fitted", "on the same documents") or "nothing" for line in lines})
    return (
        f"{len(lines)} runs of {' or '.join(map(str, steps))} steps on {' or '.join(limited)}, "
        f"{minutes:.0f} minutes in all; commit {', '.join(commits)}. Thresholds and weights were fitted "
        f"{' or '.join(fitted)}.\n"
    )


def _notes(lines: list[dict[str, Any]]) -> Iterator[str]:
    """What is to be known of some of the runs, with their variants."""
    notes: dict[str, set[str]] = {}
    for line in lines:
        if "note" in line:
            notes.setdefault(line["note"], set()).add(line["variant"])
    for note, variants in notes.items():
        yield f"{'; '.join(sorted(variants))}: {note}.\n"


def _experiment_part(experiment: Experiment, cells: dict[str, dict]) -> str:
    parts = [f"### {experiment.title}\n\n{experiment.question}\n"]
    for dev, rows in cells.items():
        if len(cells) > 1:
            parts.append(f"{dev}:\n")
        parts.append(table_markdown(experiment, rows) + "\n")
    return "\n".join(parts)


def _figure_part(name: str, results: Results, corpus: Corpus, folder: Path, base: Path) -> str:
    draw, file, caption = FIGURES[name]
    picture = draw(results, corpus, folder / file)
    return f"![{caption}]({os.path.relpath(picture, base)})\n"


def _figure_2(results: Results, corpus: Corpus, path: Path):
    return nil_curves(results, corpus.name, corpus.shown, path)


def _figure_3(results: Results, corpus: Corpus, path: Path):
    return gradient_norms(results, corpus.name, path)


def _few_shot(results: Results, corpus: Corpus, path: Path):
    return few_shot_curves(results, corpus.name, corpus.shown, path)


def _curves(name: str):
    def draw(results: Results, corpus: Corpus, path: Path):
        return recall_over_steps(results, EXPERIMENTS[name], corpus.name, path)

    return draw, f"{name}-over-steps", "Recall@1 over steps, on a sample of dev and KB"


def _figure_3_of_arboel(results: Results, corpus: Corpus, path: Path):
    experiment = EXPERIMENTS["arborescence-clusters"]
    return recall_of_both_kinds(results, experiment, corpus.name, corpus.shown, path)


FIGURES = {
    **{name: _curves(name) for name in ("claim", "claim-names", "claim-focus", "claim-negatives")},
    "nil": (_figure_2, "figure2-nil", "Precision and recall of NIL"),
    "krissbert": (_few_shot, "krissbert-few-shot", "Annotated documents, as rows and as training"),
    "arborescence-clusters": (
        _figure_3_of_arboel,
        "arboel-figure3",
        "Linking recall over coreference recall",
    ),
    "gradient-norms": (_figure_3, "figure3-gradient-norms", "Gradient norms over steps"),
}
