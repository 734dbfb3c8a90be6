"""``nlp.pipe`` with worker processes that end in order after an error or an interruption.

After an error spaCy waits for its workers, and they wait forever for someone to take their results.
So the stream of docs is ended instead, the results under way are taken from the workers, and only
then is the error raised. Workers whose parent process was killed end by themselves.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.util import register_after_fork
from types import FrameType
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc

from ..errors import PelError


def interruptible_pipe(
    nlp: Language, docs: Iterable[Doc], *, n_process: int, **options: Any
) -> Iterator[Doc]:
    """``nlp.pipe`` that can be interrupted: by an error of the docs, by the caller, or by a signal.

    Args:
        nlp: The pipeline.
        docs: The docs to run through it.
        n_process: The number of processes.
        **options: Further options of ``nlp.pipe``.

    Raises:
        PelError: A worker failed.
    """
    if n_process == 1:
        yield from nlp.pipe(docs, **options)
        return
    source = _DocStream(docs)
    register_after_fork(source, lambda _: end_with_parent())  # for as long as there is the source
    with _interrupting(source), _hearing_of_failures(nlp, source):
        results = nlp.pipe(source, n_process=n_process, **options)
        try:
            for doc in results:
                if source.error is None:
                    yield doc
        except BaseException as error:
            source.error = error
            for _ in results:
                pass
            raise
    if source.error is not None:
        raise source.error


class _DocStream:
    """Docs that end as soon as ``error`` is set, by themselves or by others."""

    def __init__(self, docs: Iterable[Doc]):
        self.docs = iter(docs)
        self.error: BaseException | None = None
        self.is_reading = False

    def __iter__(self) -> Iterator[Doc]:
        return self

    def __next__(self) -> Doc:
        if self.error is not None:
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


def end_with_parent() -> None:
    """In a worker: end it soon after its parent.

    It holds the parent's ends of the pipes as well, and would wait at them forever.
    """
    parent = multiprocessing.parent_process().pid

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextmanager
def _interrupting(source: _DocStream) -> Iterator[None]:
    """Within the block, Ctrl-C and SIGTERM end the source, and nothing else.

    The error is that of the signal's own handler. A signal without a handler keeps its effect.
    Workers ignore both signals.
    """
    if threading.current_thread() is not threading.main_thread():  # has no signals
        yield
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    handlers = {number: handler for number, handler in handlers.items() if callable(handler)}

    def interrupt(number: int, frame: FrameType | None) -> None:
        try:
            handlers[number](number, frame)
        except BaseException as error:
            source.error = error
            if source.is_reading:  # perhaps it waits for input
                raise

    for number in handlers:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def _hearing_of_failures(nlp: Language, source: _DocStream) -> Iterator[None]:
    """Within the block, an error in a worker ends the source."""
    before = nlp.default_error_handler

    def handle(name: str | None, component: Any, docs: Any, error: Exception) -> None:
        if name is not None:  # in the worker: spaCy sends the traceback to this process
            before(name, component, docs, error)
        elif source.error is None:
            source.error = _told(error)

    nlp.default_error_handler = handle
    try:
        yield
    finally:
        nlp.default_error_handler = before


def _told(error: Exception) -> PelError:
    """The error that a worker's traceback, which is text, ends with."""
    last = " ".join(re.split(r"(?m)^  .*\n", str(error))[-1].split())
    name, _, message = last.partition(": ")
    if name == f"{PelError.__module__}.{PelError.__qualname__}":
        # Where it is split does not matter: the error is shown as a whole.
        problem, _, remedy = message.partition("; ")
        return PelError(problem, remedy)
    return PelError(f"a worker failed: {last}", "use one process to see where")
