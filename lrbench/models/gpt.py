"""The decoder block of GPT-2 (Radford et al. 2019), around any mixer.

    a <- a + mixer_l(norm(a));   a <- a + channel_l(norm(a));   logits = W norm(a_L)

The second sublayer is a two-layer perceptron of `expansion` D units, or what the mixer brings
(`Mixer.channel_mixer`, such as RWKV's). With `embedding_norm` the embedding starts tiny and is
normalised once more, as in RWKV-4: updates of a rate fit for weights then move symbols apart fast.

`gpt_rms` is the same with RMSNorm (Zhang & Sennrich 2019, arXiv:1910.07467) and the perceptron of
LLaMA, W_3 (silu(W_1 z) * W_2 z) with 2/3 of the units and no biases (SwiGLU, Shazeer 2020,
arXiv:2002.05202): what stands around DeltaNet and its relatives in flash-linear-attention. Units
are rounded up to a multiple of 8; there, of 256.

`mamba` is the same with RMSNorm and the first line alone: Mamba's mixer has its own gate and its
own inner width (Gu & Dao 2023, arXiv:2312.00752). The model of Grazzi et al. 2025
(arXiv:2411.12537) has no norm before its head.

Differences: without `embedding_norm` embeddings are drawn from N(0, 1), where the released code of
GPT-2, of Mamba and of flash-linear-attention has a deviation of 0.02; heads have a bias.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.functional import silu

from lrbench.checks import at_least, fraction, one_of, only_with
from lrbench.kernels.normalisation import LayerNorm
from lrbench.mixers.base import Mixer
from lrbench.models.residual import ResidualStack
from lrbench.records import added
from lrbench.registry import register_backbone

TINY = 1e-4  # gain of the orthogonal embedding that is normalised, over the root of its longer side


NORMS = ("layer", "rms")
CHANNELS = ("gelu", "swiglu")
EPSILON = 1e-5  # of RMSNorm


@dataclass
class GptConfig:
    """Settings of the backbone `gpt`.

    expansion: units of the perceptron over the width; 0: no perceptron. A mixer's own second
    sublayer stands in its place. embedding_norm: whether the embedding starts tiny and is
    normalised once more. dropout: of what both sublayers return. norm: LayerNorm (layer) or RMSNorm
    (rms). channel: the perceptron, with GELU or gated (swiglu).
    """

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
        own, other = type(self).channel, "perceptrons, and model.backbone.expansion=0 has none"
        only_with("model.backbone.channel", self.channel, own, self.expansion != 0, other)


@dataclass
class GptRmsConfig(GptConfig):
    """Settings of the backbone `gpt_rms`: those of `gpt`."""

    name: str = "gpt_rms"
    norm: str = added("rms")
    channel: str = added("swiglu")


@dataclass
class MambaStackConfig(GptConfig):
    """Settings of the backbone `mamba`: those of `gpt`."""

    name: str = "mamba"
    expansion: int = 0
    norm: str = added("rms")


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
@register_backbone("mamba", MambaStackConfig, "the same with RMSNorm and mixers alone, as Mamba's")
class Gpt(ResidualStack):
    """Residual mixers and perceptrons in turn, norm, linear head."""

    def norm_of_embedding(self, symbols: int, width: int) -> nn.Module:
        if self.config.embedding_norm and isinstance(self.embedding, nn.Embedding):
            nn.init.orthogonal_(self.embedding.weight, TINY * max(symbols, width) ** 0.5)
        return self.make_norm(width) if self.config.embedding_norm else nn.Identity()

    def make_norm(self, width: int) -> nn.Module:
        return LayerNorm(width) if self.config.norm == "layer" else nn.RMSNorm(width, EPSILON)

    def channel(self, mixer: Mixer, layer: int, layers: int) -> nn.Module:
        brought = mixer.channel_mixer()
        if brought is not None:
            other = f"other mixers: {type(mixer).__name__} has a second sublayer of its own"
            for key in ("expansion", "channel"):
                value, default = getattr(self.config, key), getattr(type(self.config), key)
                only_with(f"model.backbone.{key}", value, default, False, other)
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
