"""The residual stack of the S4 family (Gu, Goel & Re 2022, arXiv:2111.00396; released code).

    a_0 = embedding(s)
    z   = dropout(GELU(mixer_l(norm(a_{l-1}))))           norm before the mixer by default
    a_l = a_{l-1} + dropout(GLU(W_l z))                   W_l (2D, D); GLU(x, y) = x sigmoid(y)
    logits = W norm(a_L)                                  W (C, D)

With `prenorm` false the norm follows the sum instead, and there is none before the head. S4, S4D,
Liquid-S4, LRU and S5 are all published in this block; what differs between them is the mixer (and
the form of the gate, `glu` here for all). Dropout is off by default: the tasks here have no noise
and as many strings as are asked for.

The first norm sees a symbol's embedding alone, so the table of symbols is normalised and not each
position, and a first mixer that takes a table is given it (not with batch normalisation, whose
statistics are those of the strings). GELU, gate and residual are in `gate.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, gelu, glu

from lrbench.checks import fraction, one_of, only_with
from lrbench.kernels.gate import gated
from lrbench.kernels.normalisation import LayerNorm
from lrbench.kernels.normed_head import normed_head
from lrbench.kernels.rows import rows
from lrbench.models.base import Backbone, Carry, MakeMixer, input_layer, make_mixers
from lrbench.models.randomness import dropout
from lrbench.registry import register_backbone

NORMS = ("layer", "batch", "none")


@dataclass
class S4StackConfig:
    """Settings of the backbone `s4`.

    norm: of layers, of batches, or none. prenorm: whether the norm stands before the mixer, not
    behind the sum. dropout: behind GELU and behind the gate.
    """

    name: str = "s4"
    norm: str = "layer"
    prenorm: bool = True
    dropout: float = 0.0

    def __post_init__(self) -> None:
        one_of("model.backbone.norm", self.norm, NORMS)
        fraction("model.backbone.dropout", self.dropout)
        own, normed = type(self).prenorm, self.norm != "none"
        other = "model.backbone.norm=layer or batch"
        only_with("model.backbone.prenorm", self.prenorm, own, normed, other)


@register_backbone("s4", S4StackConfig, "residual blocks with a gate, as S4's (Gu et al. 2022)")
class S4Stack(Backbone):
    """Norm, mixer, GELU, gated linear map, residual; linear head."""

    def __init__(
        self,
        config: S4StackConfig,
        symbols: int,
        classes: int,
        width: int,
        layers: int,
        make_mixer: MakeMixer,
        features: int = 0,
    ) -> None:
        super().__init__()
        self.config = config
        self.embedding = input_layer(symbols, features, width)
        norms = layers + 1 if config.prenorm else layers
        self.norms = nn.ModuleList(make_norm(config.norm, width) for _ in range(norms))
        self.mixers = make_mixers(make_mixer, layers)
        self.gates = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(layers))
        self.head = nn.Linear(width, classes)

    def activations(
        self, tokens: Tensor, carry: Carry, last: bool, generator: torch.Generator | None
    ) -> Tensor:
        training, share = generator is not None, self.config.dropout
        by_symbol = isinstance(self.embedding, nn.Embedding)
        a: Tensor = self.embedding.weight if by_symbol else self.embedding(tokens)  # type: ignore
        for layer, (mixer, gate) in enumerate(zip(self.mixers, self.gates, strict=True)):
            assert isinstance(gate, nn.Linear)
            index = tokens if by_symbol and layer == 0 else None
            mixed = self._mix(layer, mixer, a, index, carry, training)
            if last and layer + 1 == len(self.mixers):
                mixed = mixed[:, -1]
                a, index = (a[:, -1], None) if index is None else (a, index[:, -1])
            if training and share > 0:
                beside = a if index is None else rows(a, index)
                z = dropout(gelu(mixed), share, generator)
                a = beside + dropout(glu(gate(z), -1), share, generator)
            else:
                a = gated(gate, mixed, a, index)
            if not self.config.prenorm:
                a = normalise(self.norms[layer], a, training)
        return a

    def logits(self, activation: Tensor, generator: torch.Generator | None) -> Tensor:
        norm = self.norms[-1] if self.config.prenorm else nn.Identity()
        if isinstance(norm, nn.BatchNorm1d):
            activation, norm = normalise(norm, activation, generator is not None), nn.Identity()
        return normed_head(norm, self.head, activation)

    def _mix(
        self,
        layer: int,
        mixer: nn.Module,
        a: Tensor,
        index: Tensor | None,
        carry: Carry,
        training: bool,
    ) -> Tensor:
        """Return what the mixer makes of a (B, T, D), or of a table a (S, D) and `index`."""
        norm = self.norms[layer] if self.config.prenorm else nn.Identity()
        if index is None:
            return carry(mixer, normalise(norm, a, training))
        if isinstance(norm, nn.BatchNorm1d):
            return carry(mixer, normalise(norm, rows(a, index), training))
        if mixer.takes_symbols:
            return carry(mixer, norm(a), index)
        return carry(mixer, rows(norm(a), index))


def make_norm(kind: str, width: int) -> nn.Module:
    """Return a normalisation over D: of each position (layer), or over all positions (batch)."""
    if kind == "none":
        return nn.Identity()
    return nn.BatchNorm1d(width) if kind == "batch" else LayerNorm(width)


def normalise(norm: nn.Module, a: Tensor, training: bool) -> Tensor:
    """Normalise a (..., D); batch statistics only in training, running ones in examinations.

    Whether a model trains is said by the caller and not by `model.training`, which nobody sets.
    """
    if not isinstance(norm, nn.BatchNorm1d):
        result: Tensor = norm(a)
        return result
    flat = a.flatten(0, -2)
    statistics = norm.running_mean, norm.running_var
    momentum = 0.1 if norm.momentum is None else norm.momentum
    normal = batch_norm(flat, *statistics, norm.weight, norm.bias, training, momentum, norm.eps)
    return normal.view_as(a)
