"""The bidirectional S4D stack against its recurrences, run from both ends."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lrbench.encoders.sequence.s4d_layer import normalise
from lrbench.encoders.sequence.s4d_stack import S4dStack, S4dStackConfig
from lrbench.encoders.sequence.two_sided import StateSpaces
from lrbench.training.optim import by_rule


def by_recurrence(spaces: StateSpaces, u: Tensor) -> Tensor:
    """Return y (N, S, d) by stepping both systems; the second one sees the future only."""
    a = torch.complex(-spaces.log_decay.exp(), spaces.frequency)
    step = spaces.log_step.exp()[:, None]
    bar = (1 + step * a / 2) / (1 - step * a / 2)
    entry = step / (1 - step * a / 2) * torch.view_as_complex(spaces.input)
    c = torch.view_as_complex(spaces.output)
    length = u.shape[1]
    y = u * spaces.skip
    x = torch.zeros(len(u), *a.shape, dtype=bar.dtype)
    for t in range(length):
        x = bar * x + entry * u[:, t, :, None]
        y[:, t] += 2 * (c[0] * x).sum(-1).real
    if len(c) > 1:
        x = torch.zeros_like(x)
        for t in reversed(range(length)):
            y[:, t] += 2 * (c[1] * x).sum(-1).real
            x = bar * x + entry * u[:, t, :, None]
    return y


@pytest.mark.parametrize("sides", [1, 2])
@pytest.mark.parametrize("length", [1, 5, 150])
def test_two_sides_are_two_recurrences(length: int, sides: int) -> None:
    torch.manual_seed(0)
    spaces = StateSpaces(3, 8, sides).double()
    u = torch.randn(2, length, 3, dtype=torch.float64)
    with torch.no_grad():
        expected = by_recurrence(spaces, u.clone())
        torch.testing.assert_close(spaces(u), expected, rtol=1e-9, atol=1e-9)


def test_first_transitions() -> None:
    torch.manual_seed(0)
    spaces = StateSpaces(500, 64, 2)
    n = torch.arange(32, dtype=torch.float64)
    inverse = 64 / torch.pi * (64 / (2 * n + 1) - 1)
    torch.testing.assert_close(spaces.frequency[7].detach().double(), inverse, rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(spaces.log_decay.exp().detach(), torch.full((500, 32), 0.5))
    steps = spaces.log_step.detach().exp()
    assert 1e-3 <= float(steps.min()) < 2e-3 and 5e-2 < float(steps.max()) <= 1e-1
    power = torch.view_as_complex(spaces.output.detach()).abs().square().mean()
    assert float(power) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("statistics", ["all", "valid"])
def test_batch_statistics(statistics: str) -> None:
    torch.manual_seed(0)
    norm = torch.nn.BatchNorm1d(2).double()
    x = torch.randn(2, 3, 2, dtype=torch.float64)
    mask = torch.tensor([[True, True, False], [True, False, False]])
    counted = mask if statistics == "valid" else None
    rows = x[mask] if statistics == "valid" else x.flatten(0, 1)
    y = normalise(norm, x, counted, training=True)
    expected = (x - rows.mean(0)) / (rows.var(0, correction=0) + 1e-5).sqrt()
    torch.testing.assert_close(y[mask], expected[mask])
    assert (statistics == "valid") == (not y[~mask].any())
    torch.testing.assert_close(norm.running_mean, 0.1 * rows.mean(0))
    again = normalise(norm, x, counted, training=False)
    running = (x - norm.running_mean) / (norm.running_var + 1e-5).sqrt()
    torch.testing.assert_close(again[mask], running[mask])


def test_padding_counts_in_training_only_if_it_is_to() -> None:
    lengths = torch.tensor([4, 6])
    for statistics, same in (("all", False), ("valid", True)):
        results = []
        for padded in (6, 9):
            torch.manual_seed(0)
            encoder = S4dStack(S4dStackConfig(2, 8, statistics=statistics), 4).double()
            mask = torch.arange(padded) < lengths[:, None]
            x = torch.zeros(2, padded, 4, dtype=torch.float64)
            drawn = torch.Generator().manual_seed(1)
            x[:, :6] = torch.randn(2, 6, 4, generator=drawn, dtype=torch.float64)
            results.append(encoder(x, mask, torch.Generator()))
        assert torch.allclose(*results, rtol=1e-9, atol=1e-9) is same


def test_systems_are_trained_slowly_and_decay() -> None:
    encoder = S4dStack(S4dStackConfig(2, 8), 4)
    groups = by_rule(encoder)
    slow = [rule for rule in groups if rule.cap == 1e-3]
    assert len(slow) == 1 and slow[0].decay
    assert len(groups[slow[0]]) == 2 * 6


def test_settings_out_of_range() -> None:
    with pytest.raises(ValueError, match="must be even, not 7"):
        S4dStackConfig(state_size=7)
    with pytest.raises(ValueError, match="'vaild'"):
        S4dStackConfig(statistics="vaild")
    with pytest.raises(ValueError, match="must be in"):
        S4dStackConfig(dropout=1.0)
