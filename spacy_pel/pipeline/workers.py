"""What the processes of ``nlp.pipe(n_process=2)`` need."""

import multiprocessing
import os


def use_one_thread_in_a_worker() -> None:
    """Let a worker of ``nlp.pipe(n_process=2)`` compute with one thread.

    A forked process inherits the thread pools of torch and FAISS without their threads, and would
    wait for them for ever; besides, the workers would fight for the cores.
    """
    if multiprocessing.parent_process() is None:
        return
    import faiss
    import torch

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
