"""What is printed cannot control a terminal."""

from __future__ import annotations

import pytest

from spacy_pel.system.printable import printable


@pytest.mark.parametrize("control", ["\x1b", "\x07", "\x9b", "\r", "\x00", "\x7f"])
def test_what_begins_an_escape_sequence_is_replaced(control: str) -> None:
    assert printable(f"a{control}b") == "a\ufffdb"


def test_all_else_is_kept() -> None:
    assert printable("é 🧠\t\n~") == "é 🧠\t\n~"
