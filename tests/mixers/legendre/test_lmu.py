"""The original Legendre memory unit is Eq. 15-17, gradients included."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from lrbench.mixers.legendre import lmu
from lrbench.mixers.legendre.lmu import LMU, LMUConfig
from lrbench.mixers.legendre.nonlinearity import NONLINEARITIES, apply

WIDTH, BATCH, UNITS, ORDER = 4, 3, 6, 5


def make(**settings: Any) -> LMU:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = LMUConfig(**{"order": ORDER, "theta": 7.0, "outputs": UNITS, **settings})
        mixer = LMU(config, WIDTH).double()
        with torch.no_grad():
            mixer.feedback += 0.3 * torch.randn(UNITS + ORDER)  # e_m is zero at first
    return mixer


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_equations(mixer: LMU, x: Tensor, h: Tensor, m: Tensor, f: str) -> list[Tensor]:
    """Return (h_1 .. h_T, h_T, m_T) by Eq. 15-17, one position at a time."""
    a, b = mixer.network.matrices(x)
    e_h, e_m = mixer.feedback[:UNITS], mixer.feedback[UNITS:]
    outputs = []
    for at in x.unbind(1):
        u = at @ mixer.encoder.weight[0] + h @ e_h + m @ e_m
        m = torch.einsum("ij,bj->bi", a, m) + torch.einsum("b,i->bi", u, b)
        weights = mixer.skip.weight, mixer.recurrent.weight, mixer.memory.weight
        h = apply(f, sum(v @ w.T for v, w in zip((at, h, m), weights, strict=True)))
        outputs.append(h)
    return [torch.stack(outputs, 1), h, m]


def gradients(results: list[Tensor], leaves: list[Tensor]) -> tuple[Tensor, ...]:
    total = sum((t * torch.linspace(-1, 1, t.numel()).to(t).view(t.shape)).sum() for t in results)
    return torch.autograd.grad(total, leaves)


@pytest.mark.parametrize("small", [0, lmu.SMALL], ids=["by equations", "as one network"])
@pytest.mark.parametrize("f", NONLINEARITIES)
def test_equations(f: str, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lmu, "SMALL", small)
    mixer = make(f=f)
    x = draw(BATCH, 11, WIDTH).requires_grad_()
    start = [draw(BATCH, n, seed=n).requires_grad_() for n in (UNITS, ORDER)]
    leaves = [x, *start, *mixer.parameters()]
    y, (h, m) = mixer(x, tuple(start))
    wanted = by_equations(mixer, x, *start, f)
    torch.testing.assert_close([y, h, m], wanted, rtol=1e-10, atol=1e-10)
    slopes = gradients([y, h, m], leaves), gradients(wanted, leaves)
    torch.testing.assert_close(*slopes, rtol=1e-9, atol=1e-9)


def test_memory_and_units_start_at_zero() -> None:
    mixer = make()
    x = draw(BATCH, 5, WIDTH)
    wanted = by_equations(mixer, x, *mixer.initial_state(BATCH), "tanh")[0]
    torch.testing.assert_close(mixer(x)[0], wanted)
    assert not any(part.any() for part in mixer.initial_state(2))


def test_state_carries_over_a_cut() -> None:
    mixer = make()
    x = draw(BATCH, 9, WIDTH)
    head, state = mixer(x[:, :4])
    tail, last = mixer(x[:, 4:], state)
    torch.testing.assert_close((torch.cat([head, tail], 1), last), mixer(x))


def test_parameter_count_of_psmnist() -> None:
    with torch.device("meta"):
        mixer = LMU(LMUConfig(order=256, theta=784, outputs=212), 1)
    head = torch.nn.Linear(212, 10)
    assert sum(p.numel() for part in (mixer, head) for p in part.parameters()) == 102_027
    assert (mixer.out_width, mixer.state_size) == (212, 468)


def test_initial_values_of_2019() -> None:
    torch.manual_seed(0)
    mixer = LMU(LMUConfig(order=100, outputs=300), 48)
    encoder, feedback = mixer.encoder.weight.detach(), mixer.feedback.detach()
    for values, inputs in ((encoder, 48), (feedback[:300], 300)):
        limit = math.sqrt(3 / inputs)
        assert 0.9 * limit < float(values.abs().max()) <= limit
    assert not feedback[300:].any()
    spread = float(mixer.memory.weight.detach().std())
    assert spread == pytest.approx(math.sqrt(2 / (100 + 300)), rel=0.03)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"order": 0}, "mixer.order must be at least 1"),
        ({"theta": 0.0}, "mixer.theta must be at least 1"),
        ({"outputs": -1}, "mixer.outputs must be at least 1"),
        ({"f": "tan"}, "mixer.f must be one of .* Did you mean 'tanh'"),
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LMUConfig(**wrong)
