"""The stack of Beck et al. 2024 (arXiv:2405.04517): residual blocks, mLSTM and sLSTM.

    a <- a + mixer_l(norm(a));   sLSTM alone:  a <- a + W_2 (gelu(g) v), (g, v) = W_1 norm(a)

with a norm behind the last block. `slstm_at` makes some blocks sLSTM, counted from 0, whatever the
model. The paper's xLSTM[a:b] has a mLSTM for b sLSTM: xLSTM[1:0] is `model=mlstm`, xLSTM[0:1]
`model=slstm`, xLSTM[1:1] of two layers `model=mlstm model.backbone.slstm_at=[1]`. Weights of the
embedding, of the head and of W_1 are drawn from N(0, 2 / (5 D)), of W_2 from N(0, 4 / (L^2 D)).

Differences from the released code: norms and the head have a bias. There only matrices decay, and
embeddings do not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from torch import Tensor, nn
from torch.nn.functional import gelu

from lrbench.checks import at_least, fraction, named_as_typed, only_with
from lrbench.mixers.base import Mixer
from lrbench.mixers.xlstm.slstm import SlstmConfig, SlstmMixer, small
from lrbench.models.base import MakeMixer, make_mixers
from lrbench.models.residual import ResidualStack
from lrbench.registry import register_backbone

FACTOR, MULTIPLE = 1.3, 64  # the perceptron is so many times D wide, rounded up to a multiple


@dataclass
class XlstmConfig:
    """Settings of the backbone `xlstm`.

    slstm_at: numbers, from 0, of the blocks that are sLSTM.

    slstm_heads: heads of those blocks. slstm_conv_size: positions of their convolution; 0: none.
    dropout: the probability of dropout on each output that is added to the residual.
    """

    name: str = "xlstm"
    slstm_at: list[int] = field(default_factory=list)
    slstm_heads: int = 4
    slstm_conv_size: int = 0
    dropout: float = 0.0

    def __post_init__(self) -> None:
        at_least("model.backbone.slstm_heads", self.slstm_heads, 1)
        at_least("model.backbone.slstm_conv_size", self.slstm_conv_size, 0)
        fraction("model.backbone.dropout", self.dropout)
        for key in ("slstm_heads", "slstm_conv_size"):
            value, default = getattr(self, key), getattr(type(self), key)
            there, other = bool(self.slstm_at), "blocks named in model.backbone.slstm_at"
            only_with(f"model.backbone.{key}", value, default, there, other)

    @property
    def blocks_alike(self) -> bool:
        """Whether every block has as many parameters as the first."""
        return not self.slstm_at


class GatedPerceptron(nn.Module):
    """W_2 (gelu(g) v) with (g, v) = W_1 x, without biases."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        inner = -(-int(FACTOR * width) // MULTIPLE) * MULTIPLE
        self.up = nn.Linear(width, 2 * inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)
        small(self.up.weight, width)
        nn.init.normal_(self.down.weight, std=2 / layers / width**0.5)

    def forward(self, x: Tensor) -> Tensor:
        gate, value = self.up(x).chunk(2, -1)
        y: Tensor = self.down(gelu(gate) * value)
        return y


@register_backbone("xlstm", XlstmConfig, "residual blocks, mLSTM and sLSTM (Beck et al. 2024)")
class Xlstm(ResidualStack):
    """Residual mixers, a gated perceptron behind each sLSTM, norm, linear head."""

    def __init__(
        self,
        config: XlstmConfig,
        symbols: int,
        classes: int,
        width: int,
        layers: int,
        make_mixer: MakeMixer,
        features: int = 0,
    ) -> None:
        wrong = [block for block in config.slstm_at if not 0 <= block < layers]
        if wrong:
            raise ValueError(
                f"model.backbone.slstm_at={config.slstm_at} of {layers} blocks, counted from 0:"
                f" there is no block {wrong[0]}; raise model.layers or name another"
            )
        super().__init__(config, symbols, classes, width, layers, make_mixer, features)
        for layer in (self.embedding, self.head):
            small(layer.weight, width)  # type: ignore[arg-type]
        nn.init.zeros_(self.head.bias)

    def make_mixers(self, make_mixer: MakeMixer, layers: int) -> nn.ModuleList:
        config, width = self.config, self.width
        settings = SlstmConfig(heads=config.slstm_heads, conv_size=config.slstm_conv_size)
        at, block = set(config.slstm_at), count()

        def make() -> Mixer:
            if next(block) not in at:
                return make_mixer()
            with named_as_typed({"model.mixer.heads": "model.backbone.slstm_heads"}):
                return SlstmMixer(settings, width)

        return make_mixers(make, layers)

    def channel(self, mixer: Mixer, layer: int, layers: int) -> nn.Module:
        if isinstance(mixer, SlstmMixer):
            return GatedPerceptron(mixer.width, layers)
        return super().channel(mixer, layer, layers)
