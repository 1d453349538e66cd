"""The compiled pieces of RWKV-4 equal torch's, gradients and carried states included."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lrbench.mixers.rwkv.rwkv4 import Rwkv4Config, Rwkv4Mixer
from lrbench.mixers.rwkv.rwkv4_channel import RwkvChannelMixer
from tests.both_ways import both_ways, needs_numba

pytestmark = needs_numba

TOLERANCE = {torch.float64: 1e-11, torch.float32: 1e-4}


def draw(*shape: int, dtype: torch.dtype, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def weights_of(mixer: torch.nn.Module, dtype: torch.dtype) -> dict[str, Tensor]:
    return {
        name: draw(*p.shape, dtype=dtype, seed=seed) / p.shape[-1] ** 0.5
        for seed, (name, p) in enumerate(mixer.named_parameters())
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("how", ["positions", "carried", "symbols"])
@pytest.mark.parametrize("length", [1, 13])
def test_time_mix(how: str, length: int, dtype: torch.dtype) -> None:
    mixer = Rwkv4Mixer(Rwkv4Config(), 32).to(dtype)
    weights = weights_of(mixer, dtype)
    shape = (5, 32) if how == "symbols" else (3, length, 32)
    state = [draw(3, 32, dtype=dtype, seed=20 + i) for i in range(3)] if how == "carried" else []
    index = None
    if how == "symbols":  # enough positions for a table of pairs
        index = torch.randint(5, (30, length), generator=torch.Generator().manual_seed(2))

    def run(u: Tensor, *leaves: Tensor) -> Tensor:
        named = dict(zip(weights, leaves, strict=False))
        before = tuple(leaves[len(weights) :]) or None
        y, after = torch.func.functional_call(mixer, named, (u, before, "sequential", index))
        return torch.cat([y.flatten(), *(part.flatten() for part in after)])

    leaves = draw(*shape, dtype=dtype, seed=9), *weights.values(), *state
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(*both_ways(run, leaves), rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("strings", "length"), [(3, 1), (2, 13), (5, 300)])
def test_channel_mix(strings: int, length: int, dtype: torch.dtype) -> None:
    mixer = RwkvChannelMixer(Rwkv4Config(expansion=3), 16).to(dtype)
    weights = weights_of(mixer, dtype)

    def run(u: Tensor, first: Tensor, *leaves: Tensor) -> Tensor:
        named = dict(zip(weights, leaves, strict=True))
        y, last = torch.func.functional_call(mixer, named, (u, first))
        return torch.cat([y.flatten(), last.flatten()])

    leaves = draw(strings, length, 16, dtype=dtype), draw(strings, 16, dtype=dtype, seed=1)
    found = both_ways(run, (*leaves, *weights.values()))
    tolerance = TOLERANCE[dtype]
    torch.testing.assert_close(*found, rtol=tolerance, atol=50 * tolerance)


def test_large_keys_do_not_overflow() -> None:
    from lrbench.mixers.rwkv.rwkv4 import gated_averages
    from lrbench.scan.diagonal.triples import EMPTY

    k = 300 * draw(12, 16, dtype=torch.float32)
    v, r = draw(12, 16, dtype=torch.float32, seed=1), torch.full((12, 16), 40.0)
    zeros = torch.zeros(1, 16)
    rates = torch.full((16,), 0.5), torch.zeros(16)
    index = torch.arange(12)[None]
    y, (m, s) = gated_averages(k, v, r, index, *rates, zeros, torch.full_like(zeros, EMPTY))
    assert torch.equal(y[0, 0], v[0])  # the average of one value
    assert bool(torch.isfinite(torch.cat([y.flatten(), m.flatten(), s.flatten()])).all())
    assert float(y.abs().max()) <= float(v.abs().max()) * (1 + 1e-6)
