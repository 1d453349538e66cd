"""What the contract of encoders examines: encoders of one configuration, and their strings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lrbench.contract.subject import TOLERANCES
from lrbench.encoders.base import Encoder
from lrbench.registry import ENCODERS

# Of one computation beside itself with other strings in the batch: products of other sizes round
# differently.
SAME = {torch.float64: 1e-12, torch.float32: 1e-5}

Factory = Callable[..., Encoder]


def factory_of(model: Any) -> Factory:
    """Return make(seed=0, dtype=float64): the encoder a `model` node describes."""
    cls = ENCODERS.get(model.name).cls

    def make(seed: int = 0, dtype: torch.dtype = torch.float64) -> Encoder:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            encoder: Encoder = cls(model.encoder, model.width)
        return encoder.to(dtype)

    return make


@dataclass(frozen=True)
class Strings:
    """What the checks feed an encoder: strings of `lengths` and d = `width` features."""

    width: int
    lengths: tuple[int, ...] = (7, 1, 12, 2, 5)
    more: int = 0  # padding beyond the longest

    def mask(self) -> Tensor:
        """Return the mask (N, S)."""
        return torch.arange(max(self.lengths) + self.more) < torch.tensor(self.lengths)[:, None]

    def inputs(self, dtype: torch.dtype, seed: int = 0) -> Tensor:
        """Return x (N, S, d), standard normal, zero at padded positions."""
        generator = torch.Generator().manual_seed(seed)
        shape = len(self.lengths), max(self.lengths), self.width
        x = torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
        x = torch.cat([x, x.new_zeros(len(x), self.more, self.width)], 1)
        return x * self.mask()[..., None]


def finest(make: Factory) -> torch.dtype:
    """Return float64 if the encoder declares it, else the first dtype it does."""
    dtypes = make(dtype=torch.float32).dtypes
    return torch.float64 if torch.float64 in dtypes else dtypes[0]


def tolerance(encoder: Encoder, dtype: torch.dtype) -> float:
    """Return how far two ways to compute the same may differ in `dtype`."""
    return encoder.tolerance if dtype == torch.float64 else TOLERANCES.get(dtype, 1e-2)


def seeded(seed: int = 7, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a generator, as a run has one for its noise."""
    return torch.Generator(device).manual_seed(seed)
