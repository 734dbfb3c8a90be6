"""Rows of tables in text, whose cells have commas, semicolons or tabs between them."""

import csv
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice

_MAX_CELL = 2**20  # characters in which the end of a quoted cell is looked for

NumberedLine = tuple[int, str]  # with its end
Row = tuple[int, list[str] | csv.Error]  # the number of its first line, and its cells


def table_rows(
    lines: Iterable[NumberedLine], delimiter: str | None, longest: int, *, quoted: bool = True
) -> Iterator[Row]:
    """The rows of numbered lines, the names of the columns first. Blank lines go.

    A row that cannot be read is a csv.Error. Cells with commas or semicolons between them are quoted as
    in RFC 4180. For tabs see ``_tab_rows``.

    Args:
        delimiter: What is between two cells. None: what the first line has most of. Athena's
            ``CONCEPT.csv`` has tabs, and spreadsheets in many countries write semicolons.
        longest: The characters that a cell may have.
        quoted: Whether cells with tabs between them may be quoted.
    """
    csv.field_size_limit(longest)  # of the whole process, so it is set by each reader
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
    """The rows of a table with tabs.

    pandas, R and spreadsheets quote cells, which may go on in the next lines. Other programs write a
    text as it is, also if it begins with a quote. So quotes count only where all of a row is quoted as
    it should be, and a cell goes on only in lines that are no rows by themselves.
    """
    source = iter(lines)
    ahead: deque[NumberedLine] = deque()
    width = 0

    def alone(line: str) -> list[str]:
        """The cells of a line that is a row: without their quotes, or else as they are."""
        cells = _unquoted([line]) if quoted and '"' in line else None
        fits = cells and (not width or len(cells) == width)
        return cells if cells and fits else line.rstrip("\r\n").split("\t")

    def with_next(line: str) -> list[str] | None:
        """The cells of a row whose last line is the next one with an odd number of quotes."""
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
                if not is_row or all(len(alone(each)) == width for each in lines):
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
            may_go_on = quoted and width and line.count('"') % 2 and f"\t{line}".count('\t"')
            cells = (with_next(line) if may_go_on else None) or alone(line)
            width = width or len(cells)
            yield number, cells


def _unquoted(lines: list[str]) -> list[str] | None:
    """The cells of a row with tabs, without their quotes; None if it is not quoted as it should be."""
    try:
        rows = list(csv.reader(lines, delimiter="\t", strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None
