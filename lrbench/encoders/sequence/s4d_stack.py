"""A stack of bidirectional S4D layers (`s4d_stack`).

Gu, Gupta, Goel & Ré 2022 (arXiv:2206.11893), as a baseline of Ray Chowdhury & Caragea 2023
(arXiv:2311.04449):

    z = gelu(S4D(m x)),    x <- BN(x + GLU(W z + c)),    GLU(a, b) = a sigmoid(b)

eight times, with S4D of two sides (`two_sided.py`), m zero at padded positions, and the mean over
valid positions at the end. The published classifier on it is one linear layer.

Batch statistics are those of all positions of the batch, padded ones included, as released
(`statistics=all`), or of the valid ones only (`statistics=valid`). Either way training depends on
the other strings of the batch; the running statistics used outside of training do not. Dropout,
after GELU and after the gate, is 0 in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, glu

from lrbench.checks import at_least, fraction, one_of
from lrbench.encoders.base import Encoder, dropout
from lrbench.encoders.sequence.s4d_layer import normalise
from lrbench.encoders.sequence.two_sided import StateSpaces
from lrbench.mixers.base import ParameterRule
from lrbench.registry import register_encoder

STATISTICS = ("all", "valid")


@dataclass
class S4dStackConfig:
    """Settings of `s4d_stack`.

    state_size: N, real numbers of state per channel. statistics: the positions that batch
    normalisation counts, `all` or `valid`.

    layers: how many there are, one above another. dropout: behind GELU and behind the gate.
    """

    layers: int = 8
    state_size: int = 64
    dropout: float = 0.0
    statistics: str = "all"

    def __post_init__(self) -> None:
        at_least("model.encoder.layers", self.layers, 1)
        at_least("model.encoder.state_size", self.state_size, 2)
        fraction("model.encoder.dropout", self.dropout)
        one_of("model.encoder.statistics", self.statistics, STATISTICS)
        if isinstance(self.state_size, int) and self.state_size % 2:
            raise ValueError(f"model.encoder.state_size must be even, not {self.state_size}")


@register_encoder("s4d_stack", S4dStackConfig, "bidirectional S4D layers (Gu et al. 2022)")
class S4dStack(Encoder):
    """Bidirectional S4D layers with batch normalisation, averaged over positions."""

    config: S4dStackConfig
    head = "linear"
    tolerance = 1e-8
    padding = 1e-8
    padding_reason = "convolutions of another length round differently"

    def __init__(self, config: S4dStackConfig, width: int) -> None:
        super().__init__(config, width)
        layers = range(config.layers)
        self.spaces = nn.ModuleList(StateSpaces(width, config.state_size, 2) for _ in layers)
        self.gates = nn.ModuleList(nn.Linear(width, 2 * width) for _ in layers)
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for _ in layers)

    def parameter_rules(self) -> dict[str, ParameterRule]:
        return {
            f"spaces.{layer}.{name}": rule
            for layer, spaces in enumerate(self.spaces)
            if isinstance(spaces, StateSpaces)
            for name, rule in spaces.rules().items()
        }

    def forward(self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        valid, share = mask[..., None], self.config.dropout
        x = torch.where(valid, x, 0)
        counted = mask if self.config.statistics == "valid" else None
        for spaces, gate, norm in zip(self.spaces, self.gates, self.norms, strict=True):
            assert isinstance(norm, nn.BatchNorm1d)
            z = dropout(gelu(spaces(x * valid)), share, generator)
            x = x + dropout(glu(gate(z), -1), share, generator)
            x = normalise(norm, x, counted, generator is not None)
        return (x * valid).sum(1) / valid.sum(1)
