"""The backbone of the block-diagonal LRNN's released code (Fan, Chi & Rudnicky 2024).

    a_0 = embedding(s)                               one vector per symbol, N(0, 1) at first
    a_l = a_{l-1} + mixer_l(LN(a_{l-1}))             layers 1 .. L-1
    a_L = mixer_L(LN(a_{L-1}))                       the last layer has no residual connection
    logits = W_2 relu(W_1 LN(a_L))                   W_1 (D, D), W_2 (C, D)

With `noise` > 0, training adds Gaussian noise of that standard deviation to LN(a_L), which is what
the head reads. This is ours, not the paper's. Without it the loss is flat long before the answer
is exact: a rotation may be ten degrees off at 40 symbols and cost nothing, and more than a hundred
off at 500. Noise of the size of the distance between answers makes every such error cost
something, while strings are still short.

The first mixer sees nothing but the symbol, so where it can it is given the table of the S
normalised embeddings and the symbols, and computes its coefficients S times, not B T times.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lrbench.checks import at_least
from lrbench.kernels.normalisation import LayerNorm
from lrbench.kernels.perceptron import perceptron
from lrbench.mixers.base import Mixer
from lrbench.models.base import Backbone, Carry, MakeMixer, input_layer, make_mixers
from lrbench.models.randomness import add_noise
from lrbench.registry import register_backbone


@dataclass
class LrnnReleaseConfig:
    """Settings of `lrnn_release`.

    noise: s.d. of Gaussian noise on what the head reads, in training alone.
    """

    name: str = "lrnn_release"
    noise: float = 0.0

    def __post_init__(self) -> None:
        at_least("model.backbone.noise", self.noise, 0)


@register_backbone("lrnn_release", LrnnReleaseConfig, "released code of Fan et al. 2024")
class LrnnRelease(Backbone):
    """Input layer, pre-normalised residual mixers, two-layer head."""

    def __init__(
        self,
        config: LrnnReleaseConfig,
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
        self.norms = nn.ModuleList(LayerNorm(width) for _ in range(layers))
        self.mixers = make_mixers(make_mixer, layers)
        self.head = nn.Sequential(
            LayerNorm(width), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, classes)
        )

    def activations(
        self, tokens: Tensor, carry: Carry, last: bool, generator: torch.Generator | None
    ) -> Tensor:
        activation = None
        for layer, (norm, mixer) in enumerate(zip(self.norms, self.mixers, strict=True)):
            mixed = self._mix(layer, norm, mixer, tokens, activation, carry)
            if layer + 1 < len(self.mixers):
                residual = self.embedding(tokens) if activation is None else activation
                mixed = residual + mixed
            activation = mixed
        assert activation is not None
        return activation[:, -1] if last else activation

    def logits(self, activation: Tensor, generator: torch.Generator | None) -> Tensor:
        final = self.head[0](activation)
        if generator is not None and self.config.noise > 0:
            final = add_noise(final, self.config.noise, generator)
        return perceptron(self.head, final, start=1)

    def _mix(
        self,
        layer: int,
        norm: nn.Module,
        mixer: nn.Module,
        tokens: Tensor,
        activation: Tensor | None,
        carry: Carry,
    ) -> Tensor:
        assert isinstance(mixer, Mixer)
        by_symbol = mixer.takes_symbols and isinstance(self.embedding, nn.Embedding)
        if layer == 0 and by_symbol:
            return carry(mixer, norm(self.embedding.weight), tokens)
        return carry(mixer, norm(self.embedding(tokens) if activation is None else activation))
