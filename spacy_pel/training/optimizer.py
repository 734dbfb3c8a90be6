"""AdamW for the torch modules inside thinc models."""

import math
from collections.abc import Iterator

import torch
from thinc.api import Optimizer
from thinc.optimizers import FloatOrSeq
from torch import nn

from ..errors import PelError
from ..models.architectures.towers import AnyModel


class AdamW(Optimizer):
    """torch's AdamW with global gradient clipping, as an optimizer of thinc (PEL, table 6).

    ``apply_gradients`` updates torch modules with it. For the weights of thinc's own layers it is thinc's
    Adam with the same settings.

    Args:
        learn_rate: A number or a schedule.
        weight_decay: The decoupled weight decay. Biases and LayerNorm do not decay.
        beta1: The decay of the mean of the gradients.
        beta2: The decay of the mean of the squared gradients.
        eps: Added to the denominator.
        grad_clip: The maximum norm of all gradients of a model; 0: no clipping.
    """

    def __init__(
        self,
        learn_rate: FloatOrSeq,
        *,
        weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-6,
        grad_clip: float = 1.0,
    ):
        super().__init__(
            learn_rate,
            L2=weight_decay,
            L2_is_weight_decay=True,
            beta1=beta1,
            beta2=beta2,
            eps=eps,
            grad_clip=grad_clip,
            use_averages=False,
        )
        self.last_norm = 0.0  # of the gradients of the last update, before clipping
        self._of_weights: dict[tuple[int, ...], torch.optim.AdamW] = {}

    def update(self, model: AnyModel) -> None:
        """Update the torch modules of a model, and reset their gradients.

        Raises:
            PelError: A gradient is not finite. The weights have not changed.
        """
        parameters = [weight for _, weight in torch_parameters(model) if weight.grad is not None]
        if not parameters:
            return
        norm = float(nn.utils.clip_grad_norm_(parameters, self.grad_clip or math.inf))
        if not math.isfinite(norm):
            raise PelError(f"the norm of the gradients is {norm}", "lower the learning rate")
        self.last_norm = norm
        inner = self._inner(model)
        for group in inner.param_groups:
            group["lr"] = self.learn_rate
        inner.step()
        inner.zero_grad()

    def _inner(self, model: AnyModel) -> torch.optim.AdamW:
        """Return torch's optimizer of a model; a new one if its weights were replaced."""
        undecayed = {
            id(weight)
            for module in torch_modules(model)
            for layer in module.modules()
            for name, weight in layer.named_parameters(recurse=False)
            if isinstance(layer, nn.LayerNorm) or name.endswith("bias")
        }
        weights = [weight for _, weight in torch_parameters(model)]
        decay = [weight for weight in weights if id(weight) not in undecayed]
        others = [weight for weight in weights if id(weight) in undecayed]
        key = tuple(map(id, [*decay, *others]))
        if key not in self._of_weights:
            groups = [
                {"params": decay, "weight_decay": self.L2},
                {"params": others, "weight_decay": 0.0},
            ]
            self._of_weights[key] = torch.optim.AdamW(
                groups, lr=self.learn_rate, betas=(self.b1, self.b2), eps=self.eps
            )
        return self._of_weights[key]


def apply_gradients(model: AnyModel, optimizer: Optimizer) -> None:
    """Update a model by its accumulated gradients, and reset them."""
    if isinstance(optimizer, AdamW):
        optimizer.update(model)
    else:
        model.finish_update(optimizer)


def torch_modules(model: AnyModel) -> Iterator[nn.Module]:
    """Yield the torch modules inside a thinc model."""
    for node in model.walk():
        for shim in node.shims:
            if isinstance(shim._model, nn.Module):
                yield shim._model


def torch_parameters(model: AnyModel) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield the trainable weights of the torch modules with unique names."""
    for number, module in enumerate(torch_modules(model)):
        for name, weight in module.named_parameters():
            if weight.requires_grad:
                yield f"{number}.{name}", weight
