"""The delta rule against the plain references of flash-linear-attention, where it is installed.

    make oracles-test

Its files `naive.py` are loaded by path, because the package needs triton even on a CPU, and are
known by their hash: another version may order its arguments otherwise. All but one of them compute
in float32. Their states are (K, V), ours (V, K).
"""

from __future__ import annotations

import importlib.util
from functools import cache
from types import ModuleType

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv1d, normalize, pad, silu

from lrbench.mixers.delta.deltanet import DeltaNetMixer, GatedDeltaProductConfig
from lrbench.scan.matrix.householder import MODES, HouseholderProducts, delta_rule
from tests.oracles.pinned import pinned

FILES = {  # in fla/ops/, of fla-core 0.6.0: the first half of their SHA-256
    "delta_rule": "20ae032f4e08019b4298cc9fcf2c397d",
    "gated_delta_rule": "d1cf17992349fd3e94af999b22e3d3a8",
    "gated_delta_product": "6c9d427379a58c77005e3738c35243cb",
    "kda": "60a32285d4b67068ff633b48bbe8ab31",
    "gdn2": "6a65805401eb300df85b6297611a0dd1",
    "simple_gla": "8377c037efaf774696bd971d396ed8d1",
    "generalized_delta_rule/dplr": "e1f94b49952dc1aab94bf3c7f9fbb4e2",
}
B, H, T, K, V = 2, 3, 64, 8, 6
SINGLE = 1e-5  # absolute, of unit keys in float32


@cache
def naive(name: str) -> ModuleType:
    """Return a file naive.py as a module; skip the test where it is absent or another."""
    pinned("einops", "0.8.2", {})
    inside = f"ops/{name}/naive.py"
    path = pinned("fla-core", "0.6.0", {inside: FILES[name]}, module="fla") / inside
    spec = importlib.util.spec_from_file_location(f"fla_naive_{path.parent.name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def draw(*shape: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=generator).to(dtype)


def problem(count: int = 1, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """Return q, k, v, beta, log decays and a state, as (B, H, T, n, ..) and (B, H, V, K)."""
    return {
        "q": normalize(draw(B, H, T, K, seed=1, dtype=dtype), dim=-1),
        "k": normalize(draw(B, H, T, count, K, seed=2, dtype=dtype), dim=-1),
        "v": draw(B, H, T, count, V, seed=3, dtype=dtype),
        "beta": 2 * draw(B, H, T, count, 1, seed=4, dtype=dtype).sigmoid(),
        "g": -draw(B, H, T, K, seed=5, dtype=dtype).exp(),
        "state": draw(B, H, V, K, seed=6, dtype=dtype),
    }


def ours(
    mode: str, q: Tensor, k: Tensor, e: Tensor, v: Tensor, g: Tensor | None, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Return y (B, H, T, V) and the last state, (B, H, K, V) as theirs."""
    flat = [x.flatten(0, 1) for x in (k, e, v, q * K**-0.5, state)]
    transition = HouseholderProducts(*flat[:2], None if g is None else g.flatten(0, 1))
    y, last = delta_rule(transition, *flat[2:], mode)
    return y.unflatten(0, (B, H)), last.unflatten(0, (B, H)).mT


def by_time(x: Tensor) -> Tensor:
    """Return (B, H, T, ..) as (B, T, H, ..)."""
    return x.transpose(1, 2)


def compare(
    name: str, found: tuple[Tensor, ...], expected: tuple[Tensor, ...], allowed: float = SINGLE
) -> None:
    largest = max(float((f - e).detach().abs().max()) for f, e in zip(found, expected, strict=True))
    print(f"{name}: largest difference {largest:.1e}")
    assert largest <= allowed


@pytest.mark.parametrize("mode", MODES)
def test_deltanet(mode: str) -> None:
    p = problem()
    theirs = naive("delta_rule").delta_rule_recurrence(
        p["q"], p["k"][:, :, :, 0], p["v"][:, :, :, 0], p["beta"][:, :, :, 0, 0],
        initial_state=p["state"].mT,
    )  # fmt: skip
    e, v = p["beta"] * p["k"], p["beta"] * p["v"]
    compare(f"delta_rule, {mode}", ours(mode, p["q"], p["k"], e, v, None, p["state"]), theirs)


@pytest.mark.parametrize("mode", MODES)
def test_deltanet_in_double_with_gradients(mode: str) -> None:
    """Their chunks keep float64, and start from nothing."""
    p = problem(dtype=torch.float64)
    leaves = [p[name].requires_grad_() for name in ("q", "k", "v", "beta")]
    q, k, v, beta = leaves
    theirs = naive("delta_rule").delta_rule_chunkwise(
        q, k[:, :, :, 0], v[:, :, :, 0], beta[:, :, :, 0, 0], chunk_size=32
    )
    found = ours(mode, q, k, beta * k, beta * v, None, torch.zeros_like(p["state"]))
    compare(f"delta_rule in float64, {mode}", found, theirs, 1e-12)
    slopes = [torch.autograd.grad(x[0].cos().sum(), leaves) for x in (found, theirs)]
    compare(f"its gradients, {mode}", slopes[0], slopes[1], 1e-11)


@pytest.mark.parametrize("mode", MODES)
def test_gated_deltanet(mode: str) -> None:
    p = problem()
    e, v, g = p["beta"] * p["k"], p["beta"] * p["v"], p["g"][..., :1]
    found = ours(mode, p["q"], p["k"], e, v, g, p["state"])
    q, k, v, beta, g = (
        by_time(x)
        for x in (p["q"], p["k"][..., 0, :], p["v"][..., 0, :], p["beta"][..., 0, 0], g[..., 0])
    )
    module, words = naive("gated_delta_rule"), {"initial_state": p["state"].mT}
    for name, theirs in (
        ("recurrent", module.naive_recurrent_gated_delta_rule(q, k, v, beta, g, **words)),
        ("chunks", module.naive_chunk_gated_delta_rule(q, k, v, g, beta, **words)),
    ):
        compare(f"gated_delta_rule, {name}, {mode}", found[:1], (by_time(theirs[0]),))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("count", [2, 4])
def test_gated_deltaproduct(mode: str, count: int) -> None:
    p = problem(count)
    e, v, g = p["beta"] * p["k"], p["beta"] * p["v"], p["g"][..., :1]
    found = ours(mode, p["q"], p["k"], e, v, g, p["state"])
    k, v, beta = (by_time(p[name].flatten(2, 3)) for name in ("k", "v", "beta"))
    theirs = naive("gated_delta_product").naive_recurrent_gated_delta_product(
        by_time(p["q"]), k, v, by_time(g[..., 0]), beta[..., 0], K**-0.5,
        initial_state=p["state"].mT, num_householder=count,
    )  # fmt: skip
    compare(f"gated_delta_product n_h={count}, {mode}", found, (by_time(theirs[0]), theirs[1]))


@pytest.mark.parametrize("mode", MODES)
def test_decay_by_channel(mode: str) -> None:
    p = problem()
    e, v = p["beta"] * p["k"], p["beta"] * p["v"]
    found = ours(mode, p["q"], p["k"], e, v, p["g"], p["state"])
    q, k, v, g, beta = (
        by_time(x)
        for x in (p["q"], p["k"][..., 0, :], p["v"][..., 0, :], p["g"], p["beta"][..., 0, 0])
    )
    theirs = naive("kda").naive_recurrent_kda(
        q, k, v, g, beta, initial_state=p["state"].mT, output_final_state=True
    )
    compare(f"kda, {mode}", found, (by_time(theirs[0]), theirs[1]))


@pytest.mark.parametrize("mode", MODES)
def test_erasure_by_channel(mode: str) -> None:
    p = problem()
    b, w = (draw(B, H, T, 1, size, seed=7).sigmoid() for size in (K, V))
    found = ours(mode, p["q"], p["k"], b * p["k"], w * p["v"], p["g"], p["state"])
    q, k, v, g, b, w = (
        by_time(x)
        for x in (
            p["q"],
            *(x[..., 0, :] for x in (p["k"], p["v"])),
            p["g"],
            b[..., 0, :],
            w[..., 0, :],
        )
    )
    theirs = naive("gdn2").naive_recurrent_gdn2(
        q, k, v, g, b, w, initial_state=p["state"].mT, output_final_state=True
    )
    compare(f"gdn2, {mode}", found, (by_time(theirs[0]), theirs[1]))


@pytest.mark.parametrize("mode", MODES)
def test_two_updates_are_the_transition_of_rwkv7(mode: str) -> None:
    """S (diag(w) - kappa (a kappa)^T) + v k^T: an erasure of what has not decayed, and a write."""
    p = problem()
    kappa, k, v = p["k"][..., 0, :], normalize(draw(B, H, T, K, seed=7), dim=-1), p["v"][..., 0, :]
    a = draw(B, H, T, K, seed=8).sigmoid()
    log_decay = -0.6065 * draw(B, H, T, K, seed=9).sigmoid()
    keys = torch.stack([a * kappa, k], -2)
    erased = torch.stack([kappa * (-log_decay).exp(), torch.zeros_like(k)], -2)
    values = torch.stack([torch.zeros_like(v), v], -2)
    found = ours(mode, p["q"], keys, erased, values, log_decay, p["state"])
    theirs = naive("generalized_delta_rule/dplr").dplr_recurrence(
        p["q"], k, v, -kappa, a * kappa, log_decay, initial_state=p["state"].mT
    )
    compare(f"dplr, {mode}", found, theirs)


def test_the_layer_around_it() -> None:
    """Projections, convolution, normalisation, gates and output of our layer, by other means."""
    torch.manual_seed(0)
    config = GatedDeltaProductConfig(heads=H, key_size=K, value_size=V, householders=2)
    mixer, u = DeltaNetMixer(config, 18), torch.randn(B, T, 18)
    made = conv1d(pad(mixer.project(u).mT, (3, 0)), mixer.convolution.weight[:, None],
                  groups=sum(mixer.parts)).mT  # fmt: skip
    q, k, v = silu(made).split(mixer.parts, -1)

    def steps(x: Tensor, size: int) -> Tensor:  # (B, T, H n size) to (B, T n, H, size)
        return x.view(B, T, H, 2, size).transpose(2, 3).flatten(1, 2)

    beta = 2 * steps(mixer.strength(u).sigmoid(), 1)[..., 0]
    g = -mixer.log_rate.exp() * torch.nn.functional.softplus(mixer.decay(u) + mixer.time_bias)
    unit = [x * (x.square().sum(-1, keepdim=True) + 1e-6) ** -0.5
            for x in (q.view(B, T, H, K), steps(k, K))]  # fmt: skip
    s, _ = naive("gated_delta_product").naive_recurrent_gated_delta_product(
        *unit, steps(v, V), g, beta, K**-0.5, num_householder=2
    )
    normal = s * (s.square().mean(-1, keepdim=True) + 1e-5) ** -0.5 * mixer.norm.weight
    y = mixer.out((normal * silu(mixer.gate(u)).view(B, T, H, V)).flatten(2))
    for mode in MODES:
        compare(f"gated_deltaproduct layer, {mode}", (mixer(u, mode=mode)[0],), (y,))
