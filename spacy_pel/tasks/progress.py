"""How far a stream of documents has come, on stderr: rate and time left."""

from __future__ import annotations

import sys
import time

from ..documents import Source

_FORMAT = "Linking: {percentage:3.0f}% |{bar}|{postfix} [{elapsed}<{remaining}]"
_FORMAT_WITHOUT_TOTAL = "Linking:{postfix} [{elapsed}]"


class Progress:
    """A bar in bytes of the input, as nobody knows the number of documents before the end."""

    def __init__(self, source: Source) -> None:
        from tqdm import tqdm

        self.source = source
        self.documents = self._linked = 0
        self._seen = 0  # bytes
        self._started = time.monotonic()
        form = _FORMAT_WITHOUT_TOTAL if source.total is None else _FORMAT
        self.bar = tqdm(total=source.total, bar_format=form, dynamic_ncols=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.close()

    def passed_over(self, documents: int) -> None:
        """So many have been read since the last call, and were done before."""
        passed = self.bytes_read()
        self.documents += documents
        self.bar.initial += passed  # takes no part in the rate
        self.bar.update(passed)

    def linked(self, share: float) -> None:
        """One more is linked, a share of ``bytes_read``."""
        self.documents += 1
        self._linked += 1
        seconds = max(time.monotonic() - self._started, 1e-9)
        rate = f"{self.documents:,} documents, {self._linked / seconds:.1f}/s"
        self.bar.set_postfix_str(rate, refresh=False)
        if self.bar.total is not None:  # rounded shares may add up to a hair more
            share = min(share, self.bar.total - self.bar.n)
        self.bar.update(share)

    def taken_back(self, documents: int, share: float) -> None:
        """So many, of a share each, are linked again."""
        self.documents -= documents
        self._linked -= documents
        self.bar.update(-documents * share)

    def bytes_read(self) -> int:
        """Bytes that the source has read since the last call."""
        before, self._seen = self._seen, self.source.position
        return self._seen - before

    def say(self, message: str) -> None:
        """A line on stderr, above the bar."""
        self.bar.write(message, file=sys.stderr)
