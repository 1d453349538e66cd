"""The decoder block of GPT-2 (Radford et al. 2019), around any mixer.

    a <- a + mixer_l(norm(a));   a <- a + channel_l(norm(a));   logits = W norm(a_L)

The second sublayer is a two-layer perceptron of `expansion` D units, or what the mixer brings
(`Mixer.channel_mixer`, such as RWKV's). With `embedding_norm` the embedding starts tiny and is
normalised once more, as in RWKV-4: updates of a rate fit for weights then move symbols apart fast.

`gpt_rms` is the same with RMSNorm (Zhang & Sennrich 2019, arXiv:1910.07467) and the perceptron of
LLaMA, W_3 (silu(W_1 z) * W_2 z) with 2/3 of the units and no biases (SwiGLU, Shazeer 2020,
arXiv:2002.05202): what stands around DeltaNet and its relatives in flash-linear-attention. Units
are rounded up to a multiple of 8; there, of 256.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from lrbench.checks import at_least, fraction, one_of
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
from lrbench.records import added
from lrbench.registry import register_backbone

TINY = 1e-4  # gain of the orthogonal embedding that is normalised, over the root of its longer side


NORMS = ("layer", "rms")
CHANNELS = ("gelu", "swiglu")
EPSILON = 1e-5  # of RMSNorm


@dataclass
class GptConfig:
    """Settings of the backbone `gpt`; `expansion` 0 leaves out the perceptrons."""

    name: str = "gpt"
    expansion: int = 4
    embedding_norm: bool = False
    dropout: float = 0.0
    norm: str = added("layer")
    channel: str = added("gelu")

    def __post_init__(self) -> None:
        at_least("model.backbone.expansion", self.expansion, 0)
        fraction("model.backbone.dropout", self.dropout)
        one_of("model.backbone.norm", self.norm, NORMS)
        one_of("model.backbone.channel", self.channel, CHANNELS)


@dataclass
class GptRmsConfig(GptConfig):
    """Settings of the backbone `gpt_rms`: those of `gpt`."""

    name: str = "gpt_rms"
    norm: str = added("rms")
    channel: str = added("swiglu")


class SwiGlu(nn.Module):
    """W_3 (silu(W_1 z) * W_2 z): (..., D) to (..., D)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, 2 * inner, bias=False)  # W_1, W_2
        self.last = nn.Linear(inner, width, bias=False)

    def forward(self, z: Tensor) -> Tensor:
        gate, value = self.first(z).chunk(2, -1)
        mixed: Tensor = self.last(silu(gate) * value)
        return mixed


@register_backbone("gpt", GptConfig, "pre-normalised decoder blocks, as GPT-2's")
@register_backbone("gpt_rms", GptRmsConfig, "the same with RMSNorm and SwiGLU, as LLaMA's")
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
        self.first_norm = self._norm(width) if config.embedding_norm else nn.Identity()
        if config.embedding_norm and isinstance(self.embedding, nn.Embedding):
            nn.init.orthogonal_(self.embedding.weight, TINY * max(symbols, width) ** 0.5)
        self.mixers = make_mixers(make_mixer, layers)
        self.channels = nn.ModuleList(
            self._channel(mixer, layer, layers) for layer, mixer in enumerate(self.mixers)
        )
        self.mixer_norms = nn.ModuleList(self._norm(width) for _ in range(layers))
        self.channel_norms = nn.ModuleList(
            nn.Identity() if isinstance(channel, nn.Identity) else self._norm(width)
            for channel in self.channels
        )
        self.norm = self._norm(width)
        self.head = nn.Linear(width, classes)

    def _norm(self, width: int) -> nn.Module:
        return LayerNorm(width) if self.config.norm == "layer" else nn.RMSNorm(width, EPSILON)

    def _channel(self, mixer: nn.Module, layer: int, layers: int) -> nn.Module:
        assert isinstance(mixer, Mixer)
        brought = mixer.channel_mixer()
        if brought is not None:
            brought.place(layer, layers)
            return brought
        inner = self.config.expansion * mixer.width
        if inner == 0:
            return nn.Identity()
        if self.config.channel == "swiglu":
            return SwiGlu(mixer.width, -(-2 * inner // 24) * 8)
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
