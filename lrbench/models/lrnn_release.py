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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lrbench.checks import at_least
from lrbench.mixers.base import Mixer
from lrbench.mixers.perceptron import perceptron
from lrbench.registry import register_backbone


@dataclass
class LrnnReleaseConfig:
    """Settings of `lrnn_release`."""

    name: str = "lrnn_release"
    noise: float = 0.0

    def __post_init__(self) -> None:
        at_least("model.backbone.noise", self.noise, 0)


@register_backbone("lrnn_release", LrnnReleaseConfig, "released code of Fan et al. 2024")
class LrnnRelease(nn.Module):
    """Embedding, pre-normalised residual mixers, two-layer head: tokens (B, T) -> logits."""

    version: ClassVar[int] = 1

    def __init__(
        self,
        config: LrnnReleaseConfig,
        symbols: int,
        classes: int,
        width: int,
        layers: int,
        make_mixer: Callable[[], Mixer],
    ) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(symbols, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.mixers = nn.ModuleList(make_mixer() for _ in range(layers))
        self.head = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, classes)
        )

    @property
    def state_size(self) -> int:
        """Real numbers kept per string between positions."""
        return sum(mixer.state_size for mixer in self.mixers)  # type: ignore[misc]

    @property
    def mode(self) -> str:
        """How the recurrences are evaluated where nobody asks for another way."""
        return str(self.mixers[0].default_mode)

    def forward(
        self,
        tokens: Tensor,
        state: list[Any] | None = None,
        read: str = "all",
        mode: str | None = None,
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor | None, list[Any]]:
        """Map tokens (B, T) to (logits, state).

        Args:
            tokens: int64 symbols.
            state: what an earlier call returned for the strings so far; None at their start.
            read: "all" gives logits (B, T, C), "last" (B, C) at the last position, "none" None.
            mode: how mixers evaluate their recurrence; None leaves it to each of them.
            generator: where training takes its noise from; without it there is none.
        """
        before = state or [None] * len(self.mixers)
        after, activation = [], None
        for layer, (norm, mixer) in enumerate(zip(self.norms, self.mixers, strict=True)):
            mixed, new = self._mix(layer, norm, mixer, tokens, activation, before[layer], mode)
            after.append(new)
            if layer + 1 < len(self.mixers):
                residual = self.embedding(tokens) if activation is None else activation
                mixed = residual + mixed
            activation = mixed
        assert activation is not None
        if read == "none":
            return None, after
        final = self.head[0](activation[:, -1] if read == "last" else activation)
        if generator is not None and self.config.noise > 0:
            add_noise(final, self.config.noise, generator)
        return perceptron(self.head, final, start=1), after

    def _mix(
        self,
        layer: int,
        norm: nn.Module,
        mixer: nn.Module,
        tokens: Tensor,
        activation: Tensor | None,
        state: Any,
        mode: str | None,
    ) -> tuple[Tensor, Any]:
        assert isinstance(mixer, Mixer)
        if layer == 0 and mixer.takes_symbols:
            result = mixer(norm(self.embedding.weight), state, mode, index=tokens)
        else:
            inputs = self.embedding(tokens) if activation is None else activation
            result = mixer(norm(inputs), state, mode)
        mixed, new = result
        return mixed, new


@torch.no_grad()
def add_noise(values: Tensor, scale: float, generator: torch.Generator) -> None:
    """Add Gaussian noise to `values` (B, ...) in place, the second half of it minus the first.

    Each number added is Gaussian and independent of all others of its string, and half of them need
    not be drawn: drawing is a tenth of an update of a small model on CPU. Hidden from autograd, for
    a constant changes no gradient.
    """
    half = (len(values) + 1) // 2
    noise = torch.empty_like(values[:half], memory_format=torch.contiguous_format)
    noise.normal_(0, scale, generator=generator)
    values[:half].add_(noise)
    values[half:].sub_(noise[: len(values) - half])
