"""The stack of Walker et al. 2025 (arXiv:2505.17761): blocks that are normalised at their end.

    y = mixer_l(a) + a;   y <- y + f(W_l y + c_l);   a <- dropout(norm(y));   logits = W a_L

f is tanh, or a gated linear unit v sigmoid(g) of (v, g) = W_l y + c_l (`channel`). With
channel=none the middle step is left out: what stands around the other models of that paper. With
residual=false too, y = mixer_l(a): what stands around PD-SSM (Terzic et al. 2025,
arXiv:2509.22284).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lrbench.checks import fraction, one_of
from lrbench.kernels.normalisation import LayerNorm
from lrbench.models.base import (
    Backbone,
    Carry,
    MakeMixer,
    first_activation,
    input_layer,
    make_mixers,
)
from lrbench.models.randomness import dropout
from lrbench.registry import register_backbone

CHANNELS = {"tanh": nn.Tanh, "glu": nn.GLU, "none": nn.Identity}


@dataclass
class SliceStackConfig:
    """Settings of the backbone `slice`.

    channel: f, between a mixer and its norm. residual: whether a block's input is added to its
    output. dropout: behind each block.
    """

    name: str = "slice"
    channel: str = "tanh"
    residual: bool = True
    dropout: float = 0.01

    def __post_init__(self) -> None:
        one_of("model.backbone.channel", self.channel, tuple(CHANNELS))
        fraction("model.backbone.dropout", self.dropout)


@register_backbone("slice", SliceStackConfig, "post-normalised blocks (Walker et al. 2025)")
class SliceStack(Backbone):
    """Residual mixers, a linear map with tanh or gates, norm behind; linear head."""

    def __init__(
        self,
        config: SliceStackConfig,
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
        self.mixers = make_mixers(make_mixer, layers)
        inner = 2 * width if config.channel == "glu" else width
        self.channels = nn.ModuleList(
            nn.Sequential(nn.Linear(width, inner), CHANNELS[config.channel]())
            for _ in range(layers if config.channel != "none" else 0)
        )
        self.norms = nn.ModuleList(LayerNorm(width) for _ in range(layers))
        self.head = nn.Linear(width, classes)

    def activations(
        self, tokens: Tensor, carry: Carry, last: bool, generator: torch.Generator | None
    ) -> Tensor:
        a = first_activation(self.embedding, nn.Identity(), tokens)
        for layer, mixer in enumerate(self.stateful):
            if layer == 0 and mixer.takes_symbols and isinstance(self.embedding, nn.Embedding):
                y = carry(mixer, self.embedding.weight, tokens)
            else:
                y = carry(mixer, a)
            if self.config.residual:
                y = y + a
            if self.channels:
                y = y + self.channels[layer](y)
            a = dropout(self.norms[layer](y), self.config.dropout, generator)
        return a[:, -1] if last else a

    def logits(self, activation: Tensor, generator: torch.Generator | None) -> Tensor:
        logits: Tensor = self.head(activation)
        return logits
