"""The bare stack: mixers and a head, without norms, residuals or perceptrons between them.

    a_0 = embedding(s), or one-hot(s), or the signal itself
    a_l = mixer_l(a_{l-1})                              no norm, no residual between
    logits = W norm(a_L), or W relu(V norm(a_L) + c)    norm optional; V (hidden, D) if hidden > 0

Theory is about this stack (SD-SSM, Terzic et al. 2025, uses it with one-hot symbols), and so are
the models of the LMU papers (Chilkuri & Eliasmith 2021, arXiv:2102.11417; Voelker et al. 2019),
whose input is a raw signal. A mixer may be wider at its output than at its input here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from lrbench.checks import at_least, one_of
from lrbench.mixers.base import Mixer
from lrbench.models.base import Backbone, Carry, MakeMixer, input_layer
from lrbench.registry import register_backbone

EMBEDS = ("embedding", "one_hot", "none")


@dataclass
class BareConfig:
    """Settings of the backbone `bare`.

    embed: a learnt vector per symbol (of a signal: a linear map) of model.width; `one_hot` symbols;
    `none` for a signal as it is. With the last two the first mixer is as wide as its input.

    norm: whether a norm stands before the head. hidden: units of a second layer of the head; 0:
    none.
    """

    name: str = "bare"
    embed: str = "embedding"
    norm: bool = True
    hidden: int = 0

    def __post_init__(self) -> None:
        one_of("model.backbone.embed", self.embed, EMBEDS)
        at_least("model.backbone.hidden", self.hidden, 0)


@register_backbone("bare", BareConfig, "mixers alone, with a linear or two-layer head")
class Bare(Backbone):
    """Input, mixers, optional norm, head."""

    def __init__(
        self,
        config: BareConfig,
        symbols: int,
        classes: int,
        width: int,
        layers: int,
        make_mixer: MakeMixer,
        features: int = 0,
    ) -> None:
        super().__init__()
        self.config, self.symbols = config, symbols
        first = _first_width(config.embed, symbols, features, width)
        self.embedding = (
            input_layer(symbols, features, width) if config.embed == "embedding" else nn.Identity()
        )
        self.mixers = nn.ModuleList()
        for layer in range(layers):
            mixer = _made(make_mixer, first, layer, config.embed)
            mixer.place(layer, layers)
            self.mixers.append(mixer)
            first = mixer.out_width
        self.norm = nn.LayerNorm(first) if config.norm else nn.Identity()
        hidden = [nn.Linear(first, config.hidden), nn.ReLU()] if config.hidden else []
        self.head = nn.Sequential(*hidden, nn.Linear(config.hidden or first, classes))

    def activations(
        self, tokens: Tensor, carry: Carry, last: bool, generator: torch.Generator | None
    ) -> Tensor:
        first, *above = self.stateful
        if self.symbols and first.takes_symbols:
            a = carry(first, self._table(), tokens)
        else:
            above = [first, *above]
            a = self._inputs(tokens)
        for mixer in above[:-1]:
            a = carry(mixer, a)
        if above:
            a = carry.last(above[-1], a) if last else carry(above[-1], a)
        elif last:
            a = a[:, -1]
        normal: Tensor = self.norm(a)
        return normal

    def logits(self, activation: Tensor, generator: torch.Generator | None) -> Tensor:
        logits: Tensor = self.head(activation)
        return logits

    def _inputs(self, tokens: Tensor) -> Tensor:
        """Return what the first mixer reads at each position, (B, T, D)."""
        if self.config.embed == "one_hot":
            return one_hot(tokens, self.symbols).to(next(self.parameters()).dtype)
        inputs: Tensor = self.embedding(tokens)
        return inputs

    def _table(self) -> Tensor:
        """Return what stands for each symbol, (S, D)."""
        if isinstance(self.embedding, nn.Embedding):
            return self.embedding.weight
        weight = next(self.parameters())
        return torch.eye(self.symbols, dtype=weight.dtype, device=weight.device)


def _made(make_mixer: MakeMixer, width: int, layer: int, embed: str) -> Mixer:
    """Return a mixer of this width; a ValueError says where a width that does not fit is from."""
    try:
        return make_mixer(width)
    except ValueError as error:
        if layer == 0 and embed == "embedding":
            raise
        source = "the layer before it" if layer else f"the task, with model.backbone.embed={embed}"
        raise ValueError(
            f"{error}\nmixer {layer + 1} is {width} wide because of {source}"
        ) from error


def _first_width(embed: str, symbols: int, features: int, width: int) -> int:
    """Return the width of the first mixer; ValueError for an input that the task does not have."""
    if embed == "embedding":
        return width
    if embed == "one_hot" and not symbols:
        raise ValueError(
            "model.backbone.embed=one_hot needs a task of symbols; this one is a signal:"
            " choose none or embedding"
        )
    if embed == "none" and not features:
        raise ValueError(
            "model.backbone.embed=none needs a task that is a signal; this one has symbols:"
            " choose one_hot or embedding"
        )
    return symbols or features
