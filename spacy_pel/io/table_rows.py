"""Rows of delimited text: cells separated by commas, semicolons, or tabs."""

import csv
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice

_MAX_CELL = 2**20  # characters that are searched for the end of a quoted cell

NumberedLine = tuple[int, str]  # with its line end
Row = tuple[int, list[str] | csv.Error]  # the number of its first line, and its cells


def table_rows(
    lines: Iterable[NumberedLine], delimiter: str | None, longest: int, *, quoted: bool = True
) -> Iterator[Row]:
    """Yield the rows of a table, starting with the header. Blank lines are left out.

    A malformed row is a csv.Error. In tables with commas or semicolons, cells are quoted as in RFC 4180;
    for tabs see ``_tab_rows``.

    Args:
        lines: The lines of the table.
        delimiter: The character between cells. None: the most frequent one of the first line. Athena's
            ``CONCEPT.csv`` has tabs, and spreadsheets in many countries write semicolons.
        longest: The maximum number of characters of a cell.
        quoted: Whether cells may be quoted in a table with tabs.
    """
    csv.field_size_limit(longest)  # a setting of the whole process
    if delimiter is None:
        lines = iter(lines)
        head = list(islice(lines, 1))
        delimiter = max(",\t;", key=head[0][1].count) if head else ","
        lines = chain(head, lines)
    return _tab_rows(lines, quoted) if delimiter == "\t" else _csv_rows(lines, delimiter)


def _csv_rows(lines: Iterable[NumberedLine], delimiter: str) -> Iterator[Row]:
    first = last = 0

    def texts() -> Iterator[str]:
        nonlocal first, last
        for last, line in lines:
            first = first or last
            yield line

    reader = csv.reader(texts(), delimiter=delimiter, strict=True)
    while True:
        first = 0
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield first or last, error
            continue
        if row:
            yield first, row


def _tab_rows(lines: Iterable[NumberedLine], quoted: bool) -> Iterator[Row]:
    """Yield the rows of a table with tabs.

    pandas, R, and spreadsheets quote cells, which may continue on the next lines. Other programs write
    texts unchanged, even if they begin with a quote. Therefore, quotes count only in rows in which all
    quotes are correct, and a cell continues only on lines that are not rows by themselves.
    """
    source = iter(lines)
    ahead: deque[NumberedLine] = deque()
    width = 0

    def single_line_row(line: str) -> list[str]:
        """Return the cells of a line, unquoted if the quotes are correct."""
        cells = _unquoted([line]) if quoted and '"' in line else None
        if cells and len(cells) == (width or len(cells)):
            return cells
        return line.rstrip("\r\n").split("\t")

    def multi_line_row(line: str) -> list[str] | None:
        """Return the cells of a row that ends in the next line with an odd number of quotes."""
        lines, size = [line], len(line)
        while size < _MAX_CELL:
            if len(lines) > len(ahead):
                ahead.extend(islice(source, 1))
            if len(lines) > len(ahead):
                return None
            lines.append(ahead[len(lines) - 1][1])
            size += len(lines[-1])
            if lines[-1].count('"') % 2:
                cells = _unquoted(lines)
                is_row = cells is not None and len(cells) == width
                if not is_row or all(len(single_line_row(line)) == width for line in lines):
                    return None
                for _ in lines[1:]:
                    ahead.popleft()
                return cells
        return None

    while True:
        number, line = ahead.popleft() if ahead else next(source, (0, ""))
        if not number:
            return
        if line.strip("\r\n"):
            may_continue = quoted and width and line.count('"') % 2 and '\t"' in f"\t{line}"
            cells = (multi_line_row(line) if may_continue else None) or single_line_row(line)
            width = width or len(cells)
            yield number, cells


def _unquoted(lines: list[str]) -> list[str] | None:
    """Return the unquoted cells of a row with tabs, or None if its quotes are incorrect."""
    try:
        rows = list(csv.reader(lines, delimiter="\t", strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None
