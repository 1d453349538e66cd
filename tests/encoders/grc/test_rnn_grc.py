"""RNN-GRC: the packed loop with a backward of its own against the masked loop over positions."""

from __future__ import annotations

import pytest
import torch

from lrbench.encoders.grc.rnn_grc import Packing, RnnGrc, RnnGrcConfig, recurrence

LENGTHS = torch.tensor([5, 1, 13, 8, 2, 13, 9])


def encoder_of(width: int, dropout: float = 0.3) -> RnnGrc:
    torch.manual_seed(0)
    return RnnGrc(RnnGrcConfig(dropout), width).double()


def strings(width: int, more: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    mask = torch.arange(int(LENGTHS.max()) + more) < LENGTHS[:, None]
    x = torch.randn(*mask.shape, width, dtype=torch.float64)
    return (x * mask[..., None]).requires_grad_(), mask


@pytest.mark.parametrize("compiled", ["0", "1"])
@pytest.mark.parametrize("width", [5, 16])
def test_packed_equals_masked(width: int, compiled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LRBENCH_COMPILED", compiled)
    encoder = encoder_of(width)
    x, mask = strings(width, more=2)
    weight, found = torch.randn(len(x), width, dtype=torch.float64), []
    for way in (encoder.forward, encoder.reference):
        y = way(x, mask)
        found.append([y, *torch.autograd.grad((y * weight).sum(), [x, *encoder.parameters()])])
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)


def test_without_gradients_memory_is_used_again() -> None:
    encoder = encoder_of(8)
    x, mask = strings(8)
    expected = encoder(x, mask, torch.Generator().manual_seed(2))
    with torch.no_grad():
        found = encoder(x, mask, torch.Generator().manual_seed(2))
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-13)


def test_every_state_is_returned_packed() -> None:
    """String n's state after position t is what the string cut there gives."""
    encoder = encoder_of(8)
    x, mask = strings(8)
    plan = Packing.of(LENGTHS.tolist())
    packed = x[plan.rows, plan.positions]
    states = recurrence(1e-5, None, plan.counts)(*encoder.cell.weights(), packed)
    for row, position, state in zip(plan.rows, plan.positions, states, strict=True):
        cut = mask & (torch.arange(mask.shape[1]) <= position)
        expected = encoder.reference(x, cut)[row]
        torch.testing.assert_close(state, expected, rtol=1e-11, atol=1e-11)


def test_dropout_has_the_derivative_of_what_it_did() -> None:
    encoder = encoder_of(4, dropout=0.5)
    x, mask = strings(4)

    def run(x: torch.Tensor) -> torch.Tensor:
        return encoder(x, mask[:2, :5], torch.Generator().manual_seed(1))

    x = x[:2, :5].detach().requires_grad_()
    assert torch.autograd.gradcheck(run, (x,))


def test_a_plan() -> None:
    plan = Packing.of([2, 3, 1])
    assert plan.counts == (3, 2, 1)
    assert plan.rows.tolist() == [1, 0, 2, 1, 0, 1]
    assert plan.positions.tolist() == [0, 0, 0, 1, 1, 2]
    assert plan.last.tolist() == [4, 5, 2]
