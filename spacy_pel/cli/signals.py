"""Being told to end, by SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

# Whether SIGTERM has come since the block began.
_told = threading.Event()


@contextmanager
def ending_on_sigterm() -> Iterator[None]:
    """Within the block, SIGTERM raises SystemExit(143), so that what was begun is cleared away."""
    if threading.current_thread() is not threading.main_thread():  # has no signals
        yield
        return
    _told.clear()
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def end_if_told() -> None:
    """Raises SystemExit(143) if SIGTERM came before, within ``ending_on_sigterm``.

    Its error may have been lost: libraries drop errors of all kinds where they try an import, and
    Python itself those of a callback. So what goes on for ever asks before it begins.
    """
    if _told.is_set():
        _end()


def _end(*_: object) -> NoReturn:
    _told.set()
    raise SystemExit(128 + signal.SIGTERM)
