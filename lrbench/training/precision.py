"""Training with weights of lower precision: rounding, emulated in float32 on any device.

`float32` changes nothing. `bfloat16` is a model whose weights are bfloat16, as papers train with
fused kernels:

- weights are rounded to bfloat16 as they are drawn and after each update, so that a change of less
  than 2^-9 of a weight is lost;
- what linear maps (nn.Linear) return (keys, values, gates) is rounded; its gradient passes as if it
  were not. So they are called, where else a kernel would read their weights. What torch's own LSTM
  and GRU multiply inside is not rounded.

States, sums and the optimiser's moments stay float32, as those kernels keep them. What a kernel
does beyond this is not here: it is a model of a precision, not a copy of a GPU's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from lrbench.config import Config

FLOAT32, BFLOAT16 = "float32", "bfloat16"


def precision_of(config: Config) -> str:
    """Return the precision that a configuration asks for; of most protocols there is one."""
    return str(getattr(config.protocol, "precision", FLOAT32))


def rounded(x: Tensor) -> Tensor:
    """Return float32 numbers at the nearest bfloat16; the gradient is that of the identity."""
    return x + (x.detach().bfloat16().to(x.dtype) - x.detach())


def round_outputs(model: nn.Module) -> None:
    """Round what every linear map of a model returns from now on, in training and after it."""
    for module in model.modules():
        if isinstance(module, nn.Linear):
            module.register_forward_hook(_round)


@torch.no_grad()
def round_weights(model: nn.Module) -> None:
    """Round every weight of a model to bfloat16, in place."""
    for weight in model.parameters():
        weight.copy_(weight.bfloat16())


def _round(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
    return rounded(output)
