"""AdamW for the torch modules inside thinc models."""

import math
from collections.abc import Sequence

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
        self._of_weights: dict[tuple[int, ...], torch.optim.AdamW] = {}
        self.last_norm = 0.0  # of the gradients of the last update, before clipping

    def update(self, model: AnyModel) -> None:
        """Update the torch modules of a model, and reset their gradients.

        Raises:
            PelError: A gradient is not finite. The weights have not changed.
        """
        shims = (shim for node in model.walk() for shim in node.shims)
        modules = [shim._model for shim in shims if isinstance(shim._model, nn.Module)]
        weights = [w for module in modules for w in module.parameters() if w.requires_grad]
        with_gradients = [weight for weight in weights if weight.grad is not None]
        if not with_gradients:
            return
        norm = float(nn.utils.clip_grad_norm_(with_gradients, self.grad_clip or math.inf))
        if not math.isfinite(norm):
            raise PelError(f"the norm of the gradients is {norm}", "lower the learning rate")
        self.last_norm = norm
        key = tuple(map(id, weights))  # weights that are replaced get a new optimizer
        if key not in self._of_weights:
            self._of_weights[key] = self._optimizer(modules, weights)
        optimizer = self._of_weights[key]
        for group in optimizer.param_groups:
            group["lr"] = self.learn_rate
        optimizer.step()
        optimizer.zero_grad()

    def _optimizer(
        self, modules: Sequence[nn.Module], weights: Sequence[nn.Parameter]
    ) -> torch.optim.AdamW:
        """Return torch's optimizer of the weights of modules."""
        undecayed = {
            id(weight)
            for module in modules
            for layer in module.modules()
            for name, weight in layer.named_parameters(recurse=False)
            if isinstance(layer, nn.LayerNorm) or name.endswith("bias")
        }
        decay = [weight for weight in weights if id(weight) not in undecayed]
        others = [weight for weight in weights if id(weight) in undecayed]
        groups = [
            {"params": decay, "weight_decay": self.L2},
            {"params": others, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=self.learn_rate, betas=(self.b1, self.b2), eps=self.eps)


def apply_gradients(model: AnyModel, optimizer: Optimizer) -> None:
    """Update a model by its accumulated gradients, and reset them."""
    if isinstance(optimizer, AdamW):
        optimizer.update(model)
    else:
        model.finish_update(optimizer)
