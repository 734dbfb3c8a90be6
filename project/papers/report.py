"""Fill the tables of EXPERIMENTS.md from results.jsonl.

    python papers/report.py

A table stands between ``<!-- table NAME -->`` and ``<!-- end -->``. Each cell is the mean over seeds. A
variant is compared with another by paired bootstrap over the documents of dev, with ``NAME against VARIANT``:
each cell then has the difference and its 95 % interval.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import reduce
from typing import Any

import numpy as np
import srsly
from run import HERE, RESULTS, read_table, variants_of

from spacy_pel.metrics.linking import average_precision

COLUMNS = {
    "@1": ("recall@1",),
    "@64": ("recall@64",),
    "unseen @1": ("unseen", "recall@1"),
    "NIL": ("nil",),
}
SAMPLES = 2000
# The lines keep the names of their runs; the page has the terms of the docs.
TERMS = {
    "one row an entity": "by entity",
    "entities as rows": "by entity",
    "names as rows": "by name",
    " as rows": " in the index",
}

# The result lines of a table by variant and seed.
Lines = dict[str, dict[int, dict[str, Any]]]


def lines_of(table: str) -> Lines:
    """Return the lines of a table, the last one for each variant and seed."""
    lines: Lines = defaultdict(dict)
    for line in srsly.read_jsonl(RESULTS):
        if line["table"] == table:
            lines[line["variant"]][line["seed"]] = line
    return dict(lines)


def label(variant: str) -> str:
    """Return the name of a variant, or of a part of it, in the terms of the page."""
    return reduce(lambda name, term: name.replace(*term), TERMS.items(), variant)


def spread(values: Iterable[float | None]) -> str:
    """Return mean and sample standard deviation of the known values in percent, or "" if there are none."""
    known = [100 * value for value in values if value is not None]
    deviation = f"±{np.std(known, ddof=1):.1f}" if len(known) > 1 else ""
    return f"{np.mean(known):.1f}{deviation}" if known else ""


def table_of(lines: Lines, order: list[str]) -> str:
    """Return a Markdown table in percent, with a row per variant and a star for uncommitted changes."""
    devs = list(next(iter(next(iter(lines.values())).values()))["figures"])
    columns = {f"{dev} {name}": (dev, *path) for dev in devs for name, path in COLUMNS.items()}
    rows = []
    for variant in sorted(lines, key=lambda v: order.index(v) if v in order else len(order)):
        runs = lines[variant].values()
        row = {"": label(variant) + " *" * any("+" in (line["commit"] or "+") for line in runs)}
        for name, path in columns.items():
            values = (
                reduce(lambda part, key: part and part.get(key), path, r["figures"]) for r in runs
            )
            row[name] = spread(values)
        if len(devs) > 2:  # ZESHEL's worlds
            figures = (line["figures"].values() for line in runs)
            row["mean @1"] = spread(np.mean([dev["recall@1"] for dev in devs]) for devs in figures)
        rows.append({**row, "seeds": str(len(runs))})
    head = [n for n in ("", *columns, "mean @1", "seeds") if any(row.get(n) for row in rows)]
    shown = [name.removeprefix(f"{devs[0]} ") if len(devs) == 1 else name for name in head]
    return markdown(shown, [[row[name] or "-" for name in head] for row in rows])


def markdown(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table without padding, so that a new row changes no other line."""
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"|{'|'.join(cells)}|" for cells in (head, rule, *rows))


def difference(
    ours: dict[int, dict], theirs: dict[int, dict], dev: str, what: str
) -> tuple[float, float, float, int]:
    """Return the paired difference of two variants, its 95 % interval, and the number of seeds.

    Of the lines by seed those count that both have. The documents of dev are drawn again with
    replacement, the same for all runs. Within each draw "@1" or "NIL" is computed anew and averaged.
    """
    seeds = sorted(set(ours) & set(theirs))
    pairs = [(ours[s]["figures"][dev], theirs[s]["figures"][dev]) for s in seeds]
    sizes = pairs[0][0]["documents"]
    ends = np.cumsum(sizes)
    places = [np.arange(end - size, end) for end, size in zip(ends, sizes)]
    rng = np.random.default_rng(0)

    def value(figures: dict[str, Any], drawn: np.ndarray) -> float:
        if what == "@1":
            hits = np.array(list(figures["hits"]))[drawn]
            return float((hits == "1").sum() / (hits != "-").sum())
        is_nil = np.array(list(figures["is_nil"]))[drawn] == "1"
        return average_precision(np.array(figures["scores"])[drawn], is_nil) or 0.0

    def mean(drawn: np.ndarray) -> float:
        return float(np.mean([value(a, drawn) - value(b, drawn) for a, b in pairs]))

    samples = [
        mean(np.concatenate([places[n] for n in rng.integers(len(places), size=len(places))]))
        for _ in range(SAMPLES)
    ]
    low, high = np.percentile(samples, [2.5, 97.5])
    return mean(np.arange(ends[-1])), float(low), float(high), len(seeds)


def comparison_of(lines: Lines, first: str) -> str:
    """Return a Markdown table that compares variants whose first choice is ``first`` with the others."""
    rows = []
    for variant in (v for v in lines if v.split("; ")[0] == first):
        rest = variant.split("; ")[1:]
        for other in (v for v in lines if v.split("; ")[1:] == rest and v != variant):
            for dev in next(iter(lines[variant].values()))["figures"]:
                cells, seeds = [], 0
                for what in ("@1", "NIL"):
                    value, low, high, seeds = difference(lines[variant], lines[other], dev, what)
                    bold = "" if low <= 0 <= high else "**"
                    numbers = f"{100 * value:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"
                    cells.append(f"{bold}{numbers}{bold}")
                rows.append([label("; ".join(rest)), other.split("; ")[0], *cells, str(seeds)])
    return markdown(["", f"{first}, against", "@1", "NIL", "seeds"], rows)


def main() -> None:
    """Update the tables of EXPERIMENTS.md."""
    page = HERE.parent / "EXPERIMENTS.md"

    def filled(match: re.Match) -> str:
        name, _, first = match[1].partition(" against ")
        lines = lines_of(name)
        known = (HERE / "tables" / f"{name}.yml").exists()
        order = [v.name for v in variants_of(read_table(name))] if known else []
        table = "No run yet."
        if lines:
            table = comparison_of(lines, first) if first else table_of(lines, order)
        return f"<!-- table {match[1]} -->\n\n{table}\n\n<!-- end -->"

    text = page.read_text(encoding="utf8")
    text = re.sub(r"<!-- table (.+?) -->.*?<!-- end -->", filled, text, flags=re.DOTALL)
    page.write_text(text, encoding="utf8")
    print(page)


if __name__ == "__main__":
    main()
