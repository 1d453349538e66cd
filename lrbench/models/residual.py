"""The residual stack of decoder blocks, whichever norm and second sublayer its blocks have.

    a <- a + mixer_l(norm(a));   a <- a + channel_l(norm(a));   logits = W norm(a_L)

A stack says which norm it has, what its second sublayers are (none: the first line alone), and
which mixers it takes. Where symbols are embedded the first mixer gets the normal table of them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from lrbench.kernels.normalisation import LayerNorm
from lrbench.kernels.normed_head import normed_head
from lrbench.mixers.base import Mixer
from lrbench.models.base import (
    Backbone,
    Carry,
    MakeMixer,
    first_activation,
    input_layer,
    make_mixers,
)
from lrbench.models.randomness import dropout


class ResidualStack(Backbone):
    """Residual mixers, each with a second sublayer or without, norm, linear head.

    Its settings have a `dropout`, of what each sublayer adds.
    """

    def __init__(
        self,
        config: Any,
        symbols: int,
        classes: int,
        width: int,
        layers: int,
        make_mixer: MakeMixer,
        features: int = 0,
    ) -> None:
        super().__init__()
        self.config, self.width = config, width
        self.embedding = input_layer(symbols, features, width)
        self.first_norm = self.norm_of_embedding(symbols, width)
        self.mixers = self.make_mixers(make_mixer, layers)
        self.channels = nn.ModuleList(
            self.channel(mixer, layer, layers) for layer, mixer in enumerate(self.stacked)
        )
        self.mixer_norms = nn.ModuleList(self.make_norm(width) for _ in range(layers))
        self.channel_norms = nn.ModuleList(
            nn.Identity() if isinstance(channel, nn.Identity) else self.make_norm(width)
            for channel in self.channels
        )
        self.norm = self.make_norm(width)
        self.head = nn.Linear(width, classes)

    def norm_of_embedding(self, symbols: int, width: int) -> nn.Module:
        """Return what normalises the embedding before the first block: nothing."""
        return nn.Identity()

    def make_norm(self, width: int) -> nn.Module:
        """Return a norm of `width` features."""
        return LayerNorm(width)

    def make_mixers(self, make_mixer: MakeMixer, layers: int) -> nn.ModuleList:
        """Return the mixers of all blocks, each told its place."""
        return make_mixers(make_mixer, layers)

    def channel(self, mixer: Mixer, layer: int, layers: int) -> nn.Module:
        """Return the second sublayer of a block, (B, T, D) -> (B, T, D); an Identity: none."""
        return nn.Identity()

    @property
    def stacked(self) -> list[Mixer]:
        """The mixers, a block each."""
        return list(self.mixers)  # type: ignore[arg-type]

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
