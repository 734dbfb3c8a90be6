import logging

import pytest

from spacy_pel.cli.terminal import counted, log_on_stderr, msg, progress_bar, say, say_error

EVIL = "\x1b]0;owned\x07\x9b2J\r\x00\x7f"


def is_clean(shown: str) -> bool:
    """Whether nothing of EVIL controls a terminal. (Colours of wasabi may.)"""
    return "owned" in shown and not any(part in shown for part in ("\x1b]", *"\x07\x9b\r\x00\x7f"))


WAYS = [say, say_error, msg.good, msg.info, msg.warn, msg.text, lambda x: msg.text("title", x)]


@pytest.mark.parametrize("show", [*WAYS, lambda text: list(counted([1], text))])
def test_each_way_to_print(show, capsys) -> None:
    show(f"a {EVIL} name é 🧠")
    shown = "".join(capsys.readouterr())
    assert is_clean(shown) and "é 🧠" in shown


def test_the_log(capsys) -> None:
    with log_on_stderr():
        logging.getLogger("spacy_pel.any.room").warning("left out %s", EVIL)
    shown = capsys.readouterr().err
    assert shown.startswith("left out \ufffd]0;owned") and is_clean(shown)
    assert not logging.getLogger("spacy_pel").handlers


def test_a_log_gets_lines_now_and_then_and_the_last(capsys, monkeypatch) -> None:
    import tqdm.std

    clock = iter(range(10**6))
    monkeypatch.setattr(tqdm.std, "time", lambda: next(clock))  # a second a look
    with progress_bar(desc="Encoding", unit=" entities", total=1_000) as bar:
        bar._time = lambda: next(clock)
        for _ in range(1_000):
            bar.update()
    log = capsys.readouterr().err
    lines = log.splitlines()
    assert 20 < len(lines) < 40 and "\r" not in log
    assert all(line.startswith("Encoding: ") for line in lines) and "1000/1000" in lines[-1]
