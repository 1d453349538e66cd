"""Mamba against mambapy with copied weights, outputs and gradients, and its scan in [-1, 1].

Mamba-2's scan is linear attention with one decay a head ("simple GLA"): against the plain
references of flash-linear-attention, which compute in float32 from logarithms of decays.
"""

from __future__ import annotations

from importlib import import_module

import pytest
import torch
from torch import Tensor

from benchmarks.mamba_speed import copied, their_layer
from lrbench.mixers.mamba.mamba import MambaConfig
from lrbench.scan.diagonal.selective import MODES, selective_scan
from lrbench.scan.matrix.duality import MODES as DUAL_MODES
from lrbench.scan.matrix.duality import Writes, dual_scan
from tests.oracles.pinned import pinned
from tests.oracles.test_delta import naive

FILES = {
    "mamba.py": "a57947b3c555bbcce3c8c294e74e29f7",
    "pscan.py": "51cd34493a95aa08cdfa5d25465edda7",
}
WIDTH, BATCH = 12, 3


@pytest.fixture(autouse=True)
def installed() -> None:
    pinned("mambapy", "1.2.0", FILES)


def draw(*shape: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def compare(name: str, found: list[Tensor], expected: list[Tensor], allowed: float) -> None:
    pairs = [(f.detach(), e.detach()) for f, e in zip(found, expected, strict=True)]
    largest = max(float((f - e).abs().max() / (1 + e.abs().max())) for f, e in pairs)
    print(f"{name}: largest difference {largest:.1e}")
    assert largest <= allowed


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("length", "conv"), [(1, 4), (37, 4), (128, 1)])
def test_the_layer(length: int, conv: int, mode: str) -> None:
    theirs = their_layer(WIDTH, conv)
    ours = copied(theirs, MambaConfig(conv_size=conv), WIDTH)
    u, upstream = draw(BATCH, length, WIDTH, seed=1), draw(BATCH, length, WIDTH, seed=2)
    mine, other = u.clone().requires_grad_(), u.clone().requires_grad_()
    y, expected = ours(mine, mode=mode)[0], theirs(other)
    compare(f"outputs, {length}", [y], [expected], 1e-5)
    found = torch.autograd.grad(y, [mine, ours.log_rate, ours.project.weight], upstream)
    leaves = [other, theirs.A_log, theirs.in_proj.weight]
    slopes = list(torch.autograd.grad(expected, leaves, upstream))
    slopes[1] = slopes[1].T
    compare(f"gradients, {length}", list(found), slopes, 1e-4)


def test_a_layer_step_by_step() -> None:
    theirs = their_layer(WIDTH)
    ours, u = copied(theirs, MambaConfig(), WIDTH), draw(BATCH, 9, WIDTH, seed=1)
    cache = None, torch.zeros(BATCH, 2 * WIDTH, 3)
    state = ours.initial_state(BATCH)
    for position in u.unbind(1):
        expected, cache = theirs.step(position, cache)
        y, state = ours.step(position, state)
        compare("a step", [y, state[0].mT], [expected, cache[0]], 1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_the_scan_in_both_directions_of_sign(mode: str) -> None:
    """Grazzi et al.: mambapy's scan over 2 exp(d a) - 1; in float64."""
    pscan = import_module("mambapy.pscan").pscan
    double = torch.float64
    shape = BATCH, 33, 8
    rates = -draw(4, 8, seed=0, dtype=double).exp().requires_grad_()
    steps = draw(*shape, seed=1, dtype=double).exp().requires_grad_()
    x, b, c = (
        draw(*shape[:2], size, seed=2 + k, dtype=double).requires_grad_()
        for k, size in enumerate((8, 4, 4))
    )
    skip, start = draw(8, seed=5, dtype=double), torch.zeros(BATCH, 4, 8, dtype=double)
    y, last = selective_scan(rates, skip, steps, x, b, c, start, 2.0, mode)
    decays = 2 * (steps[..., None] * rates.T).exp() - 1  # (B, T, E, N)
    states = pscan(decays, (steps * x)[..., None] * b[:, :, None])
    expected = (states * c[:, :, None]).sum(-1) + skip * x
    compare("outputs and state", [y, last.mT], [expected, states[:, -1]], 1e-10)
    leaves = [rates, steps, x, b, c]
    found, slopes = (torch.autograd.grad(out.cos().sum(), leaves) for out in (y, expected))
    compare("gradients", list(found), list(slopes), 1e-10)


@pytest.mark.parametrize("mode", DUAL_MODES)
def test_the_scan_of_mamba2(mode: str) -> None:
    module, length, heads = naive("simple_gla"), 61, 3
    q, k = (draw(BATCH, length, 1, 8, seed=seed).requires_grad_() for seed in (0, 1))
    v = draw(BATCH, length, heads, 5, seed=2).requires_grad_()
    g = -draw(BATCH, length, heads, seed=3).exp().requires_grad_()
    start = draw(BATCH, heads, 5, 8, seed=4)
    writes = Writes(k, v, torch.ones(BATCH, length, heads))
    y, last = dual_scan(g.exp(), writes, q, start, mode)
    whole = q.expand(-1, -1, heads, -1), k.expand(-1, -1, heads, -1), v, g
    expected, state = module.naive_recurrent_simple_gla(*whole, 1.0, start.mT, True)
    compare(f"outputs and state, {mode}", [y, last.mT], [expected, state], 1e-5)
    leaves = [q, k, v, g]
    found, slopes = (torch.autograd.grad(out.cos().sum(), leaves) for out in (y, expected))
    compare(f"gradients, {mode}", list(found), list(slopes), 1e-5)
    chunks, _ = module.naive_chunk_simple_gla(*whole, start.mT, chunk_size=16, scale=1.0)
    compare(f"their chunks, {mode}", [y], [chunks], 1e-5)
