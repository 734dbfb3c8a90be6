"""Markdown tables."""

from __future__ import annotations

from collections.abc import Sequence


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a Markdown table: the first column aligned to the left, the others to the right.

    Args:
        header: The titles of the columns.
        rows: The cells of each row.

    Returns:
        The table, without a newline at its end.

    Raises:
        ValueError: A row is not as long as the header.
    """
    if any(len(row) != len(header) for row in rows):
        raise ValueError(f"a row of a table with {len(header)} columns has another number of cells")
    columns = zip(header, *rows)
    widths = [max(2, *(len(cell) for cell in column)) for column in columns]
    rules = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [
        [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]
        for row in (header, *rows)
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in [lines[0], rules, *lines[1:]])
