"""A small encoder that keeps the contract, and others that each break it in one way."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lrbench.encoders.base import Encoder, dropout

SHARP = 8.0


@dataclass
class SmoothConfig:
    """The share of numbers that is dropped."""

    dropout: float = 0.2


class Smooth(Encoder):
    """A smooth maximum over valid positions of tanh(V tanh(W x)): nothing wrong with it."""

    def __init__(self, config: SmoothConfig, width: int) -> None:
        super().__init__(config, width)
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        h = self.between(self.first(self.masked(x, mask)).tanh(), generator)
        return self.pooled(self.second(h).tanh(), mask)

    def masked(self, x: Tensor, mask: Tensor) -> Tensor:
        return x

    def between(self, h: Tensor, generator: torch.Generator | None) -> Tensor:
        return dropout(h, self.config.dropout, generator)

    def pooled(self, y: Tensor, mask: Tensor) -> Tensor:
        return torch.where(mask[..., None], SHARP * y, -torch.inf).logsumexp(1) / SHARP


class CountsPadding(Smooth):
    def pooled(self, y: Tensor, mask: Tensor) -> Tensor:
        return torch.where(mask[..., None], SHARP * y, 0).logsumexp(1) / SHARP


class SaysItCountsPadding(CountsPadding):
    padding = None
    padding_reason = "a maximum over all positions"


class LooksAtPadding(Smooth):
    def pooled(self, y: Tensor, mask: Tensor) -> Tensor:
        return (SHARP * y).logsumexp(1) / SHARP


class MixesStrings(Smooth):
    def pooled(self, y: Tensor, mask: Tensor) -> Tensor:
        vectors = super().pooled(y, mask)
        return vectors - 0.1 * vectors.mean(0)


class DropsByTheGlobalGenerator(Smooth):
    def between(self, h: Tensor, generator: torch.Generator | None) -> Tensor:
        return h if generator is None else nn.functional.dropout(h, self.config.dropout)


class DropsInEvaluation(Smooth):
    def between(self, h: Tensor, generator: torch.Generator | None) -> Tensor:
        return nn.functional.dropout(h, self.config.dropout)


class DrawsForNothing(Smooth):
    def between(self, h: Tensor, generator: torch.Generator | None) -> Tensor:
        if generator is not None:
            torch.rand(1, generator=generator)
        return h


class HasASpareParameter(Smooth):
    def __init__(self, config: SmoothConfig, width: int) -> None:
        super().__init__(config, width)
        self.spare = nn.Parameter(torch.ones(width))


class StopsTheGradient(Smooth):
    def masked(self, x: Tensor, mask: Tensor) -> Tensor:
        return x + 0.5 * x.detach()


class SaysItStopsTheGradient(StopsTheGradient):
    exact_gradient = False


class Unseeded(Smooth):
    def __init__(self, config: SmoothConfig, width: int) -> None:
        super().__init__(config, width)
        with torch.no_grad():
            self.first.bias.fill_(random.random())


class HidesATensor(Smooth):
    def __init__(self, config: SmoothConfig, width: int) -> None:
        super().__init__(config, width)
        self.hidden = torch.randn(width)

    def masked(self, x: Tensor, mask: Tensor) -> Tensor:
        return x + self.hidden.to(x)


class CoarseInSingle(Smooth):
    def between(self, h: Tensor, generator: torch.Generator | None) -> Tensor:
        h = super().between(h, generator)
        return h + (h.half().float() - h).detach() if h.dtype == torch.float32 else h


class SaysNothing(Smooth):
    """Cannot tell one string from another of its length."""

    def masked(self, x: Tensor, mask: Tensor) -> Tensor:
        return 1e-4 * x


class WrongShape(Smooth):
    @property
    def out_width(self) -> int:
        return self.width + 1


class Raises(Smooth):
    def forward(self, *inputs: Any) -> Tensor:
        raise RuntimeError("no such luck\nand more about it")


class NoEncoder(nn.Linear):
    def __init__(self, config: SmoothConfig, width: int) -> None:
        super().__init__(width, width)
