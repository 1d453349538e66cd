"""The decoder block of GPT-2 (Radford et al. 2019), around any mixer.

    a <- a + mixer_l(norm(a));   a <- a + channel_l(norm(a));   logits = W norm(a_L)

The second sublayer is a two-layer perceptron of `expansion` D units, or what the mixer brings
(`Mixer.channel_mixer`, such as RWKV's). With `embedding_norm` the embedding starts tiny and is
normalised once more, as in RWKV-4: updates of a rate fit for weights then move symbols apart fast.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lrbench.checks import at_least, fraction
from lrbench.mixers.base import Mixer
from lrbench.mixers.normalisation import LayerNorm
from lrbench.mixers.normed_head import normed_head
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

TINY = 1e-4  # gain of the orthogonal embedding that is normalised, over the root of its longer side


@dataclass
class GptConfig:
    """Settings of the backbone `gpt`; `expansion` 0 leaves out the perceptrons."""

    name: str = "gpt"
    expansion: int = 4
    embedding_norm: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        at_least("model.backbone.expansion", self.expansion, 0)
        fraction("model.backbone.dropout", self.dropout)


@register_backbone("gpt", GptConfig, "pre-normalised decoder blocks, as GPT-2's")
class Gpt(Backbone):
    """Residual mixers and perceptrons in turn, norm, linear head."""

    def __init__(
        self,
        config: GptConfig,
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
        self.first_norm = LayerNorm(width) if config.embedding_norm else nn.Identity()
        if config.embedding_norm and isinstance(self.embedding, nn.Embedding):
            nn.init.orthogonal_(self.embedding.weight, TINY * max(symbols, width) ** 0.5)
        self.mixers = make_mixers(make_mixer, layers)
        self.channels = nn.ModuleList(
            self._channel(mixer, layer, layers) for layer, mixer in enumerate(self.mixers)
        )
        self.mixer_norms = nn.ModuleList(LayerNorm(width) for _ in range(layers))
        self.channel_norms = nn.ModuleList(
            nn.Identity() if isinstance(channel, nn.Identity) else LayerNorm(width)
            for channel in self.channels
        )
        self.norm = LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def _channel(self, mixer: nn.Module, layer: int, layers: int) -> nn.Module:
        assert isinstance(mixer, Mixer)
        brought = mixer.channel_mixer()
        if brought is not None:
            brought.place(layer, layers)
            return brought
        inner = self.config.expansion * mixer.width
        if inner == 0:
            return nn.Identity()
        return nn.Sequential(
            nn.Linear(mixer.width, inner), nn.GELU(), nn.Linear(inner, mixer.width)
        )

    @property
    def stateful(self) -> list[Mixer]:
        pairs = zip(self.mixers, self.channels, strict=True)
        return [layer for pair in pairs for layer in pair if isinstance(layer, Mixer)]

    def activations(
        self, tokens: Tensor, carry: Carry, last: bool, generator: torch.Generator | None
    ) -> Tensor:
        a = first_activation(self.embedding, self.first_norm, tokens)
        for layer, mixer in enumerate(self.mixers):
            mixed = self._mix(layer, mixer, a, tokens, carry)
            a = a + dropout(mixed, self.config.dropout, generator)
            channel, norm = self.channels[layer], self.channel_norms[layer]
            if isinstance(channel, nn.Identity):
                continue
            between = carry(channel, norm(a)) if isinstance(channel, Mixer) else channel(norm(a))
            a = a + dropout(between, self.config.dropout, generator)
        return a[:, -1] if last else a

    def logits(self, activation: Tensor, generator: torch.Generator | None) -> Tensor:
        return normed_head(self.norm, self.head, activation)

    def _mix(self, layer: int, mixer: nn.Module, a: Tensor, tokens: Tensor, carry: Carry) -> Tensor:
        norm = self.mixer_norms[layer]
        if layer == 0 and mixer.takes_symbols and isinstance(self.embedding, nn.Embedding):
            return carry(mixer, norm(self.first_norm(self.embedding.weight)), tokens)
        return carry(mixer, norm(a))
