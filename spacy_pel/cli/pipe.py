"""``nlp.pipe`` with worker processes that come to an orderly end, whatever happens.

After an error spaCy waits for its workers, while these wait for ever to hand over what they have
done. So the stream of docs is made to end instead, what is under way is taken from the workers, and
only then is the error raised.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Optional

from spacy.language import Language
from spacy.tokens import Doc


def pipe(nlp: Language, docs: Iterable[Doc], *, n_process: int, **options: Any) -> Iterator[Doc]:
    """``nlp.pipe`` that can be broken off: by the docs, by who takes the results, or by Ctrl-C."""
    if n_process == 1:
        yield from nlp.pipe(docs, **options)
        return
    source = _Source(docs)
    with _interrupting(source):
        results = nlp.pipe(source, n_process=n_process, **options)
        try:
            for doc in results:
                yield doc
        except BaseException as error:
            source.error = error
            for _ in results:
                pass
            raise
    if source.error:
        raise source.error


class _Source:
    """Docs that end where an error stands, be it one of their own."""

    def __init__(self, docs: Iterable[Doc]):
        self.docs = iter(docs)
        self.error: Optional[BaseException] = None
        self.is_reading = False

    def __iter__(self) -> Iterator[Doc]:
        return self

    def __next__(self) -> Doc:
        if self.error:
            raise StopIteration
        self.is_reading = True
        try:
            return next(self.docs)
        except StopIteration:
            raise
        except BaseException as error:
            self.error = error
            raise StopIteration from error
        finally:
            self.is_reading = False


@contextmanager
def _interrupting(source: _Source) -> Iterator[None]:
    """Within the block, Ctrl-C ends the source, and nothing else; workers take no notice of it."""
    if threading.current_thread() is not threading.main_thread():  # has no signals
        yield
        return

    def interrupt(*_: object) -> None:
        source.error = KeyboardInterrupt()
        if source.is_reading:  # perhaps it waits for input
            raise source.error

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
