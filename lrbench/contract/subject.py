"""What a contract examines: mixers of one configuration, and the inputs they are given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from lrbench.errors import UserError
from lrbench.mixers.base import Mixer
from lrbench.registry import MIXERS

# For dtypes other than float64, for which a mixer declares its own.
TOLERANCES = {torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}

Factory = Callable[..., Mixer]


def factory_of(model: Any) -> Factory:
    """Return make(seed=0, dtype=float64): the mixer a `model` node describes, in eval mode."""
    cls = MIXERS.get(model.name).cls
    settings = _checked(cls, model.mixer)

    def make(seed: int = 0, dtype: torch.dtype = torch.float64) -> Mixer:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            mixer: Mixer = cls(settings, model.width)
        _refuse_complex(model.name, mixer)
        return mixer.to(dtype).eval()

    return make


def _checked(cls: type, settings: Any) -> Any:
    """Return a mixer's settings with those it is to be checked with, unless the user set them."""
    wanted = getattr(cls, "checked_with", {})
    unset = {name: value for name, value in wanted.items() if getattr(settings, name) is None}
    return replace(settings, **unset) if unset else settings


def _refuse_complex(name: str, mixer: Mixer) -> None:
    for key, tensor in mixer.state_dict().items():
        if tensor.is_complex():
            raise UserError(
                f"model '{name}': '{key}' is complex; .to(float64) would drop its imaginary part\n"
                "keep it as real numbers (..., 2) and use torch.view_as_complex in the forward"
            )


@dataclass(frozen=True)
class Context:
    """Sizes of what the checks feed a mixer: `width` D, `batch` B strings, S `symbols`."""

    width: int
    batch: int = 3
    symbols: int = 5

    def inputs(self, length: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
        """Return u (B, T, D), standard normal: the same numbers in every dtype."""
        return self._draw((self.batch, length, self.width), dtype, seed)

    def table(self, dtype: torch.dtype) -> Tensor:
        """Return one input per symbol, (S, D)."""
        return self._draw((self.symbols, self.width), dtype, 0)

    def index(self, length: int, seed: int = 0) -> Tensor:
        """Return the symbol at each position, (B, T)."""
        generator = torch.Generator().manual_seed(seed)
        return torch.randint(self.symbols, (self.batch, length), generator=generator)

    def _draw(self, shape: tuple[int, ...], dtype: torch.dtype, seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def finest(make: Factory) -> torch.dtype:
    """Return float64 if the mixer declares it, else the first dtype it does."""
    dtypes = make(dtype=torch.float32).dtypes
    return torch.float64 if torch.float64 in dtypes else dtypes[0]


def tolerance(mixer: Mixer, dtype: torch.dtype) -> float:
    """Return how far two ways to compute the same may differ in `dtype`."""
    return mixer.tolerance if dtype == torch.float64 else TOLERANCES.get(dtype, 1e-2)


def whole(length: int, mixer: Mixer) -> int:
    """Return the smallest length >= `length` that the mixer accepts."""
    multiple = mixer.length_multiple
    return -(-length // multiple) * multiple


def ways(mixer: Mixer) -> tuple[str | None, ...]:
    """Return every mode, and None for the one used where none is asked for."""
    return (None, *mixer.modes)


def shown(dtype: torch.dtype) -> str:
    """Return 'float64' for torch.float64."""
    return str(dtype).removeprefix("torch.")
