"""A bar on stderr that shows how far a run over documents has come: rate and time left."""

from __future__ import annotations

import sys
import time

from ..jobs.document_blocks import LinkProgress
from .progress_bar import progress_bar
from .terminal import printable

_FORMAT = "{desc}: {percentage:3.0f}% |{bar}|{postfix} [{elapsed}<{remaining}]"
_FORMAT_WITHOUT_TOTAL = "{desc}:{postfix} [{elapsed}]"


class LinkBar(LinkProgress):
    """A bar in bytes of the input, as the number of documents is not known before the end.

    Args:
        what: What is done to the documents.
    """

    def __init__(self, what: str = "Linking") -> None:
        self.what = what
        self.documents = self._linked = 0
        self._started = time.monotonic()
        self.bar = progress_bar(disable=True)

    def __enter__(self) -> LinkBar:
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.close()

    def started(self, n_bytes: int | None) -> None:
        """Show the bar."""
        self._started = time.monotonic()
        shown_as = _FORMAT_WITHOUT_TOTAL if n_bytes is None else _FORMAT
        self.bar = progress_bar(total=n_bytes, desc=self.what, bar_format=shown_as)

    def passed_over(self, documents: int, n_bytes: int) -> None:
        """Count documents that were linked before; they have no part in the rate."""
        self.documents += documents
        self.bar.initial += n_bytes
        self.bar.update(n_bytes)

    def linked(self, n_bytes: float) -> None:
        """Count one document that was linked now."""
        self.documents += 1
        self._linked += 1
        seconds = max(time.monotonic() - self._started, 1e-9)
        rate = f"{self.documents:,} documents, {self._linked / seconds:.1f}/s"
        self.bar.set_postfix_str(rate, refresh=False)
        if self.bar.total is not None:  # rounded shares may add up to a hair more
            n_bytes = min(n_bytes, self.bar.total - self.bar.n)
        self.bar.update(n_bytes)

    def taken_back(self, documents: int, n_bytes: float) -> None:
        """Uncount documents that are linked a second time."""
        self.documents -= documents
        self._linked -= documents
        self.bar.update(-n_bytes)

    def say(self, message: str) -> None:
        """Write a line on stderr, above the bar."""
        self.bar.write(printable(message), file=sys.stderr)
