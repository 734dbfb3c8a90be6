"""Training in several processes, which stand for several GPUs."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
import torch
from torch import multiprocessing, nn

from spacy_pel.kb import build_kb
from spacy_pel.training import distributed

from ..pipeline.conftest import PROBLEM
from .problem import training_run, write_config


def test_one_process_has_it_all() -> None:
    distributed.join()
    layer = nn.Linear(2, 2)
    distributed.average_gradients(layer.parameters())
    assert layer.weight.grad is None
    assert distributed.share([1, 2, 3]) == [1, 2, 3] and distributed.is_first()
    distributed.leave()


def work(rank: int, config: Path, folder: Path, port: int) -> None:
    """One process of two."""
    torch.set_num_threads(1)
    os.environ.update(
        RANK=str(rank),
        LOCAL_RANK=str(rank),
        WORLD_SIZE="2",
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    distributed.join()
    weight = nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([2.0, 4.0]) if rank else None
    distributed.average_gradients([weight])
    assert weight.grad.tolist() == [1.0, 2.0]

    run = training_run(config, folder / f"output{rank}")
    lines = list(run.run())
    weights = run.nlp.get_pipe("proxy_linker").model.to_bytes()
    (folder / f"weights{rank}").write_bytes(weights)
    mentions = sum(line.get("mentions", 0) for line in lines)
    (folder / f"mentions{rank}").write_text(str(mentions))
    distributed.leave()


@pytest.mark.slow
def test_two_processes_train_the_same_weights_and_the_first_saves_them(tmp_path: Path) -> None:
    kb = build_kb(PROBLEM, tmp_path / "kb").path
    config = write_config(tmp_path, kb, **{"training.max_steps": 3})
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    multiprocessing.spawn(work, (config, tmp_path, port), nprocs=2)
    weights = [(tmp_path / f"weights{rank}").read_bytes() for rank in range(2)]
    mentions = [int((tmp_path / f"mentions{rank}").read_text()) for rank in range(2)]
    alone = training_run(config, tmp_path / "alone")
    assert weights[0] == weights[1] != alone.nlp.get_pipe("proxy_linker").model.to_bytes()
    assert sum(mentions) == sum(line.get("mentions", 0) for line in alone.run())
    assert min(mentions) > 0
    assert not list((tmp_path / "output1").iterdir())
    assert (tmp_path / "output0" / "model-last" / "proxy_linker" / "model").exists()
