"""The tables of the experiments: means over seeds with their spread, beside the paper's figures."""

from __future__ import annotations

from typing import Any

from papers.confidence_interval import confidence_interval
from papers.spread import Spread, spread, spread_text

from spacy_pel.evaluation.markdown_table import markdown_table

from .registry import Column, Experiment
from .results import Results, figure


def table_cells(
    results: Results, experiment: Experiment, corpus: str, dev: str
) -> dict[str, dict[str, Spread | None]]:
    """Give the cells of a table by variant and column; variants without a run are left out."""
    runs = {v.name: results.by_seed(corpus, v.name) for v in experiment.variants}
    return {
        name: {
            column.label: spread(figure(line, dev, column.path) for line in lines.values())
            for column in experiment.columns
        }
        for name, lines in runs.items()
        if lines
    }


def table_markdown(experiment: Experiment, cells: dict[str, dict[str, Spread | None]]) -> str:
    """Write the cells as Markdown, with the number of seeds and the paper's figures."""
    published = [
        (heading, column, place, figures)
        for heading, figures in experiment.paper.items()
        for place, column in enumerate(experiment.columns)
        if any(len(values) > place for values in figures.values())
    ]
    header = ["", *(column.label for column in experiment.columns), "seeds"]
    header += [f"{column.label}, paper's {heading}" for heading, column, *_ in published]
    rows = []
    for name, row in cells.items():
        cell = _cell_with_interval if experiment.intervals else _cell
        found = [cell(row[column.label], column) for column in experiment.columns]
        seeds = max((each.runs for each in row.values() if each), default=0)
        theirs = [
            _published(figures.get(name, ()), place, column)
            for _, column, place, figures in published
        ]
        rows.append([name, *found, str(seeds), *theirs])
    return markdown_table(header, rows)


def table_json(cells: dict[str, dict[str, Spread | None]]) -> dict[str, Any]:
    """Give the cells as plain data: mean, deviation and number of runs, or None."""
    return {
        name: {label: cell and cell._asdict() for label, cell in row.items()}
        for name, row in cells.items()
    }


def _cell(value: Spread | None, column: Column) -> str:
    return spread_text(value, column.decimals, column.scale)


def _cell_with_interval(value: Spread | None, column: Column) -> str:
    ends = confidence_interval(value) if value else None
    if ends is None:
        return _cell(value, column)
    low, high = (f"{column.scale * end:,.{column.decimals}f}" for end in ends)
    return f"{column.scale * value.mean:,.{column.decimals}f} [{low} to {high}]"


def _published(values: tuple[float, ...], place: int, column: Column) -> str:
    return f"{values[place]:.{column.decimals}f}" if len(values) > place else ""
