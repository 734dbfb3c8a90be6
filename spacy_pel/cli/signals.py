"""Being told to end, by SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn


@contextmanager
def ending_on_sigterm() -> Iterator[None]:
    """Within the block, SIGTERM raises SystemExit(143), so that what was begun is cleared away."""
    if threading.current_thread() is not threading.main_thread():  # has no signals
        yield
        return
    before = signal.signal(signal.SIGTERM, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(*_: object) -> NoReturn:
    raise SystemExit(128 + signal.SIGTERM)
