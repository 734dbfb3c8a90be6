"""What commands print has no control characters, whatever names hold."""

from __future__ import annotations

import logging

import pytest

from spacy_pel.cli.progress_bar import counted
from spacy_pel.cli.terminal import log_on_stderr, msg, say, say_error

EVIL = "\x1b]0;owned\x07\x9b2J\r"


def is_clean(shown: str) -> bool:
    """Whether nothing of EVIL controls a terminal. (Colours of wasabi may.)"""
    return "owned" in shown and not any(part in shown for part in ("\x1b]", "\x07", "\x9b", "\r"))


@pytest.mark.parametrize(
    "show",
    [
        *(say, say_error, msg.good, msg.info, msg.warn, msg.text),
        lambda text: msg.text("title", text),
        lambda text: list(counted([1], text)),
    ],
)
def test_each_way_to_print(show, capsys) -> None:
    show(f"a {EVIL} name")
    shown = "".join(capsys.readouterr())
    assert is_clean(shown)


def test_the_log(capsys) -> None:
    with log_on_stderr():
        logging.getLogger("spacy_pel.any.room").warning("left out %s", EVIL)
    shown = capsys.readouterr().err
    assert shown.startswith("left out \ufffd]0;owned") and is_clean(shown)
    assert not logging.getLogger("spacy_pel").handlers
