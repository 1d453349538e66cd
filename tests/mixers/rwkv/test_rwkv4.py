"""rwkv4 against its definition as a sum, with weights that do something."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.contract import CHECKS, run_contract
from lrbench.contract.subject import Context
from lrbench.mixers.base import Mixer
from lrbench.mixers.rwkv.rwkv4 import Rwkv4Config, Rwkv4Mixer
from lrbench.registry import MIXERS
from lrbench.scan.diagonal.triples import EMPTY, weighted_averages

WIDTH, BATCH = 6, 3
MODES = ("sequential", "scan")


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_mixer(seed: int = 0, dtype: torch.dtype = torch.float64, part: str = "time") -> Mixer:
    """Return a sublayer whose zero matrices are replaced, as training would."""
    torch.manual_seed(seed)
    time = Rwkv4Mixer(Rwkv4Config(), WIDTH)
    mixer = time if part == "time" else time.channel_mixer()
    for parameter in mixer.parameters():
        if parameter.dim() == 2:
            torch.nn.init.normal_(parameter, std=0.5)
    return mixer.to(dtype).eval()


def by_sums(
    k: Tensor, v: Tensor, w: Tensor, u: Tensor, m: Tensor, s: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Weigh all of the past anew at each position: softmax over log weights."""
    logs, values, outputs = [s], [m], []
    for key, value in zip(k.unbind(1), v.unbind(1), strict=True):
        share = torch.stack([*logs, key + u]).softmax(0)
        outputs.append((share * torch.stack([*values, value])).sum(0))
        logs, values = [log - w for log in logs] + [key], [*values, value]
    share = torch.stack(logs).softmax(0)
    average = (share * torch.stack(values)).sum(0)
    return torch.stack(outputs, 1), average, torch.stack(logs).logsumexp(0)


def problem(length: int, scale: float, started: bool) -> list[Tensor]:
    """Return k, v, w, u and a state."""
    k, v = draw(BATCH, length, WIDTH) * scale, draw(BATCH, length, WIDTH, seed=1)
    w, u = draw(WIDTH, seed=2).exp(), draw(WIDTH, seed=3)
    m, s = draw(BATCH, WIDTH, seed=4), draw(BATCH, WIDTH, seed=5)
    if not started:
        m, s = torch.zeros_like(m), torch.full_like(s, EMPTY)
    return [x.requires_grad_() for x in (k, v, w, u, m, s)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("scale", [1.0, 1000.0])
@pytest.mark.parametrize("length", [1, 2, 3, 8, 21])
def test_averages_and_gradients_are_those_of_the_sums(
    length: int, scale: float, started: bool, mode: str
) -> None:
    leaves = problem(length, scale, started)
    wanted = by_sums(*leaves)
    weights = [draw(*part.shape, seed=7 + i) for i, part in enumerate(wanted)]
    y, state = weighted_averages(*leaves[:4], (leaves[4], leaves[5]), mode)
    for ours, theirs in zip((y, *state), wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    slopes, expected = (
        torch.autograd.grad(sum((p * w).sum() for p, w in zip(parts, weights, strict=True)), leaves)
        for parts in ((y, *state), wanted)
    )
    torch.testing.assert_close(slopes, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mode", MODES)
def test_gradcheck(mode: str) -> None:
    def call(*leaves: Tensor) -> tuple[Tensor, ...]:
        y, state = weighted_averages(*leaves[:4], (leaves[4], leaves[5]), mode)
        return y, *state

    assert torch.autograd.gradcheck(call, problem(5, 1.0, True))


@pytest.mark.parametrize("mode", MODES)
def test_the_definition_with_exponentials_written_out(mode: str) -> None:
    k, v, w, u = (x.detach() for x in problem(9, 1.0, False)[:4])
    a = b = torch.zeros(BATCH, WIDTH, dtype=torch.float64)
    y, _ = weighted_averages(k, v, w, u, (a, torch.full_like(a, EMPTY)), mode)
    for t in range(9):
        new = (u + k[:, t]).exp()
        torch.testing.assert_close(y[:, t], (a + new * v[:, t]) / (b + new))
        a, b = (-w).exp() * a + k[:, t].exp() * v[:, t], (-w).exp() * b + k[:, t].exp()


@pytest.mark.parametrize("mode", MODES)
def test_one_large_key_does_not_hide_what_comes_before_it_or_long_after(mode: str) -> None:
    """The maximum of a string is no common scale: e^(k - max) of other positions underflows."""
    k = torch.zeros(1, 60, 1)
    k[0, 30] = 500.0
    v = torch.arange(60.0)[None, :, None]
    empty = torch.zeros(1, 1), torch.full((1, 1), EMPTY)
    y, _ = weighted_averages(k, v, torch.full((1,), 50.0), torch.zeros(1), empty, mode)
    assert y[0, 0, 0] == 0.0
    assert y[0, 1:30, 0].tolist() == pytest.approx([t - 0.5 for t in range(1, 30)])
    assert y[0, 30:40, 0].tolist() == [30.0] * 10
    assert y[0, 50:, 0].tolist() == pytest.approx([t - 0.5 for t in range(50, 60)])


@pytest.mark.parametrize("mode", MODES)
def test_the_time_mix_is_its_equations(mode: str) -> None:
    mixer = random_mixer()
    z = draw(BATCH, 7, WIDTH)
    before = torch.cat([torch.zeros(BATCH, 1, WIDTH, dtype=z.dtype), z[:, :-1]], 1)
    k, v, r = (
        (mu * z + (1 - mu) * before) @ layer.weight.T
        for mu, layer in zip(mixer.shares, (mixer.key, mixer.value, mixer.receptance), strict=True)
    )
    _, m, s = mixer.initial_state(BATCH)
    wkv = by_sums(k, v, mixer.decay.exp(), mixer.bonus, m, s)[0]
    wanted = (torch.sigmoid(r) * wkv) @ mixer.out.weight.T
    torch.testing.assert_close(mixer(z, None, mode)[0], wanted)


def test_the_channel_mix_is_its_equations_and_has_their_gradients() -> None:
    mixer = random_mixer(part="channel")
    z, first = draw(BATCH, 7, WIDTH).requires_grad_(), draw(BATCH, WIDTH, seed=1).requires_grad_()
    before = torch.cat([first[:, None], z[:, :-1]], 1)
    for_key, for_gate = (mu * z + (1 - mu) * before for mu in mixer.shares)
    squared = torch.relu(for_key @ mixer.key.weight.T) ** 2
    wanted = torch.sigmoid(for_gate @ mixer.receptance.weight.T) * (squared @ mixer.value.weight.T)
    y, last = mixer(z, first)
    torch.testing.assert_close(y, wanted)
    assert torch.equal(last, z[:, -1])
    leaves, weight = [z, first, *mixer.parameters()], draw(*y.shape, seed=2)
    slopes, expected = (torch.autograd.grad((p * weight).sum(), leaves) for p in (y, wanted))
    torch.testing.assert_close(slopes, expected)


@pytest.mark.slow
@pytest.mark.parametrize("part", ["time", "channel"])
@pytest.mark.parametrize("check", [name for name in CHECKS if name != "cuda"])
def test_the_contract_is_kept_with_weights_that_do_something(check: str, part: str) -> None:
    make: Callable[..., Any] = partial(random_mixer, part=part)
    finding = CHECKS[check](make, Context(WIDTH))
    assert finding.passed or (check, part) == ("symbols", "channel"), str(finding)


def test_the_contract_is_kept_as_initialised() -> None:
    assert [str(f) for f in run_contract("rwkv4", ["model.width=6"]) if f.passed is False] == []


def test_a_large_table_of_symbols_is_looked_up_too() -> None:
    mixer, table = random_mixer(), draw(40, WIDTH)
    index = torch.arange(12).view(2, 6)
    torch.testing.assert_close(mixer(table, index=index), mixer(table[index]))


@pytest.mark.parametrize(("layer", "layers"), [(0, 1), (0, 3), (2, 3)])
def test_initial_values_depend_on_depth_as_in_the_public_code(layer: int, layers: int) -> None:
    mixer = Rwkv4Mixer(Rwkv4Config(), WIDTH)
    mixer.place(layer, layers)
    found = torch.stack([mixer.decay, mixer.bonus, *mixer.shares]).T.tolist()
    depth = layer / (layers - 1) if layers > 1 else 0.0
    up = 1 - layer / layers
    for h in range(WIDTH):
        decay = -5 + 8 * (h / (WIDTH - 1)) ** (0.7 + 1.3 * depth)
        now = (h / WIDTH) ** up
        bonus = math.log(0.3) + 0.5 * ((h + 1) % 3 - 1)
        wanted = [decay, bonus, now, now + 0.3 * depth, (h / WIDTH) ** (0.5 * up)]
        assert found[h] == pytest.approx(wanted, rel=1e-5)


def test_an_untrained_block_adds_nothing_and_one_channel_is_possible() -> None:
    for width in (1, WIDTH):
        mixer = Rwkv4Mixer(Rwkv4Config(), width)
        channel = mixer.channel_mixer()
        channel.place(1, 2)
        u = torch.randn(2, 5, width)
        assert not mixer(u)[0].any() and not channel(u)[0].any()
        assert all(bool(p.isfinite().all()) for p in (*mixer.parameters(), *channel.parameters()))


def test_parameters_and_state() -> None:
    entry = MIXERS.get("rwkv4")
    mixer = entry.cls(entry.config(), 64)
    channel = mixer.channel_mixer()
    assert sum(p.numel() for p in mixer.parameters()) == 4 * 64**2 + 5 * 64
    assert sum(p.numel() for p in channel.parameters()) == 9 * 64**2 + 2 * 64
    assert (mixer.state_size, channel.state_size) == (3 * 64, 64)
    assert entry.backbone == {"name": "gpt", "embedding_norm": True}
    undecayed = {name for name, rule in mixer.parameter_rules().items() if not rule.decay}
    assert undecayed == {"shares", "decay", "bonus"} <= dict(mixer.named_parameters()).keys()


def test_the_expansion_is_checked() -> None:
    with pytest.raises(ValueError, match=r"model\.mixer\.expansion"):
        Rwkv4Config(expansion=0)
