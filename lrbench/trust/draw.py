"""Numbers for the small cases of self-checks: the same at each check, on any machine."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Draw:
    """Numbers of a dtype on a device, the same each time."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.dtype, self.device = dtype, device
        self.generator = torch.Generator().manual_seed(0)

    def normal(self, *shape: int, scale: float = 1.0, dtype: torch.dtype | None = None) -> Tensor:
        """Draw a leaf, normal with standard deviation `scale`."""
        dtype = dtype or self.dtype
        wide = torch.complex128 if dtype.is_complex else torch.float64
        drawn = torch.randn(shape, generator=self.generator, dtype=wide) * scale
        return drawn.to(self.device, dtype).requires_grad_()

    def plain(self, *shape: int, scale: float = 1.0) -> Tensor:
        """Draw such numbers that nobody asks a gradient of."""
        return self.normal(*shape, scale=scale).detach()

    def numbers(self, below: int, *shape: int) -> Tensor:
        """Draw whole numbers from 0 to below - 1."""
        return torch.randint(below, shape, generator=self.generator).to(self.device)

    def module(self, made: nn.Module) -> nn.Module:
        """Give a module such numbers, of a size that keeps its results of order 1."""
        made = made.to(self.device, self.dtype)
        with torch.no_grad():
            for parameter in made.parameters():
                parameter.copy_(self.plain(*parameter.shape, scale=0.3))
        return made


def by_parameters(module: nn.Module, *more: Tensor) -> list[Tensor]:
    """Return the parameters of a module as leaves, and more."""
    return [*module.parameters(), *more]
