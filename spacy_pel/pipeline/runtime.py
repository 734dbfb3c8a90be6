"""The runtime of encoders in inference: torch or ONNX Runtime.

This module also prepares the processes of ``nlp.pipe(n_process=2)``.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING

from spacy.tokens import Doc
from srsly.msgpack import msgpack_decoders, msgpack_encoders

from ..errors import PelError
from ..models.architectures import Tower, check_choice, encoder_of
from ..models.encoders import BertEncoder, SpanEncoder

if TYPE_CHECKING:
    from ..models.onnx_states import OnnxStates

logger = logging.getLogger(__name__)

MAX_TOKENS = 8192  # of a batch, unless one doc has more
_TOKENIZERS = "TOKENIZERS_PARALLELISM"
_set_here: list[str] = []  # the variables that are set only during a fork


class Runtime:
    """Computes encoders.

    ONNX Runtime needs a session for each encoder. A session is made at first use in each process, and again
    when the weights change. It is not copied or pickled.

    Args:
        name: "torch", "exact", "onnx", "onnx-int8" or "auto". "exact" is torch with one document at a
            time. "auto" is "onnx-int8" on a CPU where ONNX Runtime is installed, otherwise "torch".

    Raises:
        PelError: The name is unknown.
    """

    def __init__(self, name: str):
        check_choice("runtime", name, "torch", "exact", "onnx", "onnx-int8", "auto")
        self.name = name
        # By process and encoder. A forked process must neither use nor free the sessions of its
        # parent: they wait for threads that the fork does not have.
        self._sessions: dict[tuple[int, int], OnnxStates] = {}
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[Runtime], tuple[str]]:
        return Runtime, (self.name,)

    def batches(self, docs: Iterable[Doc], size: int) -> Iterator[list[Doc]]:
        """Yield batches of ``size`` docs, or with "exact" of one.

        The last digits of a vector depend on the other inputs of its pass. A batch also ends before
        MAX_TOKENS, so that the states of many whole articles are not in memory at once.
        """
        batch: list[Doc] = []
        for doc in docs:
            if batch and sum(map(len, batch), len(doc)) > MAX_TOKENS:
                yield batch
                batch = []
            batch.append(doc)
            if len(batch) == size or self.name == "exact":
                yield batch
                batch = []
        if batch:
            yield batch

    @contextmanager
    def use(self, towers: Iterable[Tower]) -> Iterator[None]:
        """Compute the states of the towers that have a BERT with this runtime, within the block."""
        if multiprocessing.parent_process() is not None:
            _limit_to_one_thread()
        encoders = [
            encoder
            for encoder in map(encoder_of, towers)
            if isinstance(encoder, (BertEncoder, SpanEncoder)) and encoder.transformer is not None
        ]
        name = self.name
        if name == "auto":
            can_use_onnx = all(
                (bert := encoder.transformer) is not None
                and bert.config.hidden_act == "gelu"
                and next(bert.parameters()).device.type == "cpu"
                for encoder in encoders
            )
            name = _fastest_on_cpu() if can_use_onnx else "torch"
        if name in ("torch", "exact") or not encoders:
            yield
            return
        try:
            from ..models.onnx_states import OnnxStates
        except ImportError as error:
            raise PelError(
                "the runtime needs ONNX Runtime",
                'run: pip install "spacy-pel[onnx]", or set runtime = "torch"',
            ) from error
        with self._lock:  # otherwise a thread would restore torch while another one computes
            try:
                for encoder in encoders:
                    place, transformer = (os.getpid(), id(encoder)), encoder.transformer
                    assert transformer is not None
                    if (
                        place not in self._sessions
                        or self._sessions[place].transformer is not transformer
                    ):
                        self._sessions[place] = OnnxStates(transformer, int8=name == "onnx-int8")
                    encoder.computed_by = self._sessions[place]
                yield
            finally:
                for encoder in encoders:
                    encoder.computed_by = None

    def forget(self) -> None:
        """Drop the sessions of this process after the weights have changed in place."""
        self._sessions = {k: s for k, s in self._sessions.items() if k[0] != os.getpid()}


@cache
def _fastest_on_cpu() -> str:
    name = "onnx-int8" if find_spec("onnxruntime") and find_spec("onnx") else "torch"
    logger.info('runtime "auto" computes with "%s"', name)
    return name


def _limit_to_one_thread() -> None:
    """Set torch and FAISS to one thread, in a worker process.

    A forked process inherits the thread pools of torch, FAISS and tokenizers without their threads,
    and would wait for them forever. More threads would also make the workers compete for cores.
    """
    import faiss
    import torch

    os.environ[_TOKENIZERS] = "false"  # the user's value is for the parent
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)


def _quiet_tokenizers() -> None:
    """Turn off the threads of tokenizers before a fork; otherwise tokenizers warn after it."""
    if _TOKENIZERS not in os.environ:
        os.environ[_TOKENIZERS] = "false"
        _set_here.append(_TOKENIZERS)


def _restore_tokenizers() -> None:
    while _set_here:
        del os.environ[_set_here.pop()]


def _search_coders_once() -> None:
    """Keep srsly from searching all installed packages for its coders at each message.

    A doc that a process sends or receives is three messages, and the searches took a third to a half of that.
    """
    for coders in (msgpack_encoders, msgpack_decoders):
        for name, function in coders.get_entry_points().items():
            coders.register(name, func=function)
        coders.entry_points = False


_search_coders_once()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_quiet_tokenizers, after_in_parent=_restore_tokenizers)
