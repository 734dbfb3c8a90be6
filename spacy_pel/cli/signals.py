"""SIGTERM, which tells a command to end."""

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
    """Within the block SIGTERM raises SystemExit(143), so that half-done work is cleared away."""
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
    """Raise SystemExit(143) if SIGTERM has come since ``ending_on_sigterm`` began.

    The error that SIGTERM raised may have been lost: some libraries drop all errors when they try an
    import, and Python drops those of callbacks. So a command that runs forever calls this first.
    """
    if _told.is_set():
        _end()


def _end(*_: object) -> NoReturn:
    _told.set()
    raise SystemExit(128 + signal.SIGTERM)
