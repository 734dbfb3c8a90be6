import numpy as np
import pytest
import torch
from thinc.api import Model, PyTorchWrapper_v2
from torch import Tensor, nn

from spacy_pel.errors import PelError
from spacy_pel.training.optimizer import AdamW, apply_gradients

DECAYED = {"0.weight", "2.weight", "4.weight"}
RATES = [0.0, 0.01, 0.02, 0.015, 0.01, 0.005]


def module(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(5, 8), nn.LayerNorm(8), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2, bias=False)
    )


def batches(n: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(6, 5, generator=generator) for _ in range(n)]


def learn(model: Model, optimizer: AdamW, inputs: list[Tensor]) -> None:
    """Make a step for each input. The loss is the sum of squares of the outputs."""
    for x in inputs:
        outputs, backprop = model.begin_update(x.numpy())
        backprop(2 * outputs)
        apply_gradients(model, optimizer)
        optimizer.step_schedules()


def learn_by_torch(plain: nn.Module, inputs: list[Tensor], rates: list[float], clip: float):
    """The same with torch alone; return the norms of the gradients."""
    groups = [
        {"params": [w for n, w in plain.named_parameters() if (n in DECAYED) == (decay > 0)],
         "weight_decay": decay}
        for decay in (0.1, 0.0)
    ]  # fmt: skip
    optimizer, norms = torch.optim.AdamW(groups, betas=(0.8, 0.99), eps=1e-6), []
    for x, rate in zip(inputs, rates):
        outputs = plain(x)
        outputs.backward(2 * outputs.detach())
        norms.append(float(nn.utils.clip_grad_norm_(plain.parameters(), clip)))
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad()
    return norms


def same_weights(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters()))


@pytest.mark.parametrize("clip", [1.0, 100.0, 0.0])
def test_it_is_torchs_bit_for_bit(clip: float) -> None:
    ours, theirs, inputs = module(), module(), batches(6)
    settings = {"weight_decay": 0.1, "beta1": 0.8, "beta2": 0.99, "grad_clip": clip}
    model, optimizer = PyTorchWrapper_v2(ours), AdamW(iter(RATES), **settings)
    learn(model, optimizer, inputs)
    norms = learn_by_torch(theirs, inputs, RATES, clip or float("inf"))
    assert same_weights(ours, theirs) and not same_weights(theirs, module())
    assert 1 < max(norms) < 100


def test_what_has_no_gradient_stays_and_what_is_not_finite_changes_nothing() -> None:
    torch_module = module()
    torch_module[0].requires_grad_(False)
    model, optimizer, frozen = PyTorchWrapper_v2(torch_module), AdamW(0.1), torch_module[0].weight
    learn(model, optimizer, batches(1))
    assert torch.equal(frozen, module()[0].weight) and not same_weights(torch_module, module())
    before = [w.clone() for w in torch_module.parameters()]
    apply_gradients(model, optimizer)  # there are none
    outputs, backprop = model.begin_update(batches(1)[0].numpy())
    backprop(np.full_like(outputs, float("inf")))
    with pytest.raises(PelError, match="norm of the gradients is .*; lower the learning rate"):
        apply_gradients(model, optimizer)
    assert all(torch.equal(a, b) for a, b in zip(before, torch_module.parameters()))


def test_replaced_weights_begin_anew() -> None:
    model, optimizer = PyTorchWrapper_v2(module()), AdamW(0.01)
    learn(model, optimizer, batches(3))
    model.shims[0]._model, other = module(seed=4), PyTorchWrapper_v2(module(seed=4))
    learn(model, optimizer, batches(2))
    learn(other, AdamW(0.01), batches(2))
    assert same_weights(model.shims[0]._model, other.shims[0]._model)
