"""Figures: what is drawn is what was given, and the same bytes each time."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("matplotlib", reason='needs the extra "project"')

from papers.plots import Line, lines_figure, save_figure

PANELS = {
    "random": {"Pb": Line([1, 2, 3], [3.0, 2.0, 1.0]), "CE": Line([1, 2, 3], [9.0, 1.0, 4.0])},
    "mixed": {"CE": Line([1, 2], [5.0, 6.0], [1.0, 2.0])},
}


def test_panels_and_lines_are_those_given() -> None:
    random, mixed = lines_figure(PANELS, "step", "norm", y_range=(0, 10)).axes
    assert (random.get_title(), mixed.get_title()) == ("random", "mixed")
    assert [line.get_label() for line in random.lines] == ["Pb", "CE"]
    assert random.lines[1].get_ydata().tolist() == [9.0, 1.0, 4.0]
    assert random.lines[1].get_color() == mixed.lines[0].get_color() != random.lines[0].get_color()
    band = mixed.collections[0].get_paths()[0].vertices
    assert (band[:, 1].min(), band[:, 1].max()) == (4.0, 8.0)
    assert random.get_ylim() == mixed.get_ylim() == (0, 10)
    assert (mixed.get_xlabel(), random.get_ylabel()) == ("step", "norm")


def test_a_line_of_one_point_is_a_mark_of_its_own() -> None:
    points = {name: Line([n], [2.0 * n]) for n, name in enumerate("abcdefghi")}
    (axis,) = lines_figure({"": points}, "x", "y").axes
    looks = {(line.get_color(), line.get_marker()) for line in axis.lines}
    assert len(looks) == 9 and all(line.get_linestyle() == "None" for line in axis.lines)
    assert axis.lines[3].get_xydata().tolist() == [[3.0, 6.0]]


def test_the_same_figure_gives_the_same_files(tmp_path: Path) -> None:
    first, second = (
        save_figure(lines_figure(PANELS, "step", "norm", log_y=True), tmp_path / name / "figure3.1")
        for name in "ab"
    )
    assert [path.name for path in first] == ["figure3.1.png", "figure3.1.svg"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert first[0].read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in first[1].read_bytes()
