"""What the worker processes of ``nlp.pipe(n_process=2)`` need."""

import multiprocessing
import os

_TOKENIZERS = "TOKENIZERS_PARALLELISM"
_set_here: list[str] = []  # the variables that are set while the process is forked


def use_one_thread_in_a_worker() -> None:
    """In a worker process, set torch and FAISS to one thread. Elsewhere, do nothing.

    A forked process inherits the thread pools of torch, FAISS and tokenizers without their threads,
    and would wait for them for ever. More threads would also make the workers compete for cores.
    """
    if multiprocessing.parent_process() is None:
        return
    import faiss
    import torch

    os.environ[_TOKENIZERS] = "false"  # whatever the user set: that is for the parent
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)


def _quiet_tokenizers() -> None:
    """Turn off the threads of tokenizers before a fork. After it, tokenizers would warn."""
    if _TOKENIZERS not in os.environ:
        os.environ[_TOKENIZERS] = "false"
        _set_here.append(_TOKENIZERS)


def _restore_tokenizers() -> None:
    while _set_here:
        del os.environ[_set_here.pop()]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_quiet_tokenizers, after_in_parent=_restore_tokenizers)
