"""Ordered Memory: slots that are reached, in closed form, against all slots of padded strings."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from lrbench.encoders.grc.rnn_grc import Packing
from lrbench.encoders.soft.ordered_memory import Memory, OrderedMemory, OrderedMemoryConfig, Slots
from lrbench.models.build import count_parameters
from lrbench.models.classifier import Classifier, ClassifierConfig

from ..agreement import assert_same_as_reference

LENGTHS = torch.tensor([5, 1, 13, 8, 2, 13, 9])


def encoder_of(width: int, peaked: float = 1.0, **settings: Any) -> OrderedMemory:
    torch.manual_seed(0)
    encoder = OrderedMemory(OrderedMemoryConfig(**settings), width).double()
    with torch.no_grad():
        encoder.memory.score.weight.mul_(peaked)
    return encoder


def strings(width: int, more: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    mask = torch.arange(int(LENGTHS.max()) + more) < LENGTHS[:, None]
    x = torch.randn(*mask.shape, width, dtype=torch.float64)
    return (x * mask[..., None]).requires_grad_(), mask


@pytest.mark.slow
@pytest.mark.parametrize("compiled", ["0", "1"])
@pytest.mark.parametrize("peaked", [1.0, 80.0])
@pytest.mark.parametrize("settings", [{"slots": 3}, {"slots": 8}, {"slots": 8, "recompute": True}])
def test_reached_slots_equal_all_slots(
    settings: dict[str, int], peaked: float, compiled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LRBENCH_COMPILED", compiled)
    encoder = encoder_of(16, peaked, **settings)
    x, mask = strings(16, more=2)
    assert_same_as_reference(encoder, x, mask, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("recompute", [False, True])
def test_dropout_has_the_derivative_of_what_it_did(recompute: bool) -> None:
    encoder = encoder_of(4, slots=3, dropout=0.4, memory_dropout=0.4, recompute=recompute)
    x, mask = strings(4)

    def run(x: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = encoder(x, mask[:3, :5], torch.Generator().manual_seed(1))
        return y

    x = x[:3, :5].detach().requires_grad_()
    cell = encoder.memory.cell
    assert torch.autograd.gradcheck(run, (x, cell.second.bias, cell.norm.weight))
    assert torch.autograd.gradcheck(run, (x, cell.first.weight), fast_mode=True)


def test_more_slots_outside_of_training() -> None:
    encoder = encoder_of(8, slots=3, test_slot_factor=2)
    x, mask = strings(8)
    torch.testing.assert_close(encoder(x, mask), encoder.reference(x, mask, 6))
    assert not torch.allclose(encoder(x, mask), encoder.reference(x, mask, 3))
    quiet = encoder_of(8, slots=3, test_slot_factor=2, dropout=0.0, memory_dropout=0.0)
    trained = quiet(x, mask, torch.Generator())
    torch.testing.assert_close(trained, encoder.reference(x, mask, 3))


class _Addition(torch.nn.Module):
    """A cell that adds: what is written is then the sum of what was composed."""

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        left, right = pairs.chunk(2, 1)
        return left + right

    reference = forward


def test_slots_that_nothing_learnt_to_choose_between_are_refused() -> None:
    with pytest.raises(ValueError, match="leave test_slot_factor at 1"):
        OrderedMemoryConfig(slots=1, test_slot_factor=2)
    OrderedMemoryConfig(slots=2, test_slot_factor=2)


def test_a_single_slot_composes_each_position_with_all_before_it() -> None:
    """One slot leaves no choice of a position: with a cell that adds, the output is the sum."""
    torch.manual_seed(0)
    memory = Memory(OrderedMemoryConfig(slots=1), 4).double()
    memory.cell = _Addition()  # type: ignore[assignment]
    x, mask = strings(4)
    torch.testing.assert_close(memory.reference(x, mask), x.sum(1))


def test_slots_of_positions() -> None:
    slots = Slots.of(torch.tensor([[0.0, 0.3, 1.0], [0.2, 0.5, 1.0], [0.0, 0.0, 1.0]]))
    assert slots.order.tolist() == [1, 0, 2]
    assert slots.counts == (1, 2, 3)
    assert slots.indices.tolist() == [3, 4, 1, 5, 2, 8]
    assert not slots.whole
    assert Slots.of(torch.ones(2, 3)).whole


def test_one_more_slot_is_reached_at_each_position() -> None:
    """Fewer positions than slots leave the first slots alone: more slots change nothing."""
    x, mask = strings(8)
    x, mask = x[:2, :5], mask[:2, :5]
    results = [encoder_of(8, slots=slots)(x, mask) for slots in (4, 21)]
    assert torch.equal(*results)


def test_parameters_of_the_paper() -> None:
    model = Classifier(ClassifierConfig(), OrderedMemory(OrderedMemoryConfig(), 128), 15, 10)
    assert count_parameters(model) == 464_779


def test_settings_out_of_range() -> None:
    with pytest.raises(ValueError, match="slots must be"):
        OrderedMemoryConfig(slots=0)
    with pytest.raises(ValueError, match="must be in"):
        OrderedMemoryConfig(memory_dropout=1.0)


def test_packing_is_that_of_lengths() -> None:
    """Outputs are those of the last position of each string, in the strings' order."""
    encoder = encoder_of(8, slots=3)
    x, mask = strings(8)
    packed = Packing.of(LENGTHS.tolist())
    assert packed.counts[0] == len(x)
    alone = [
        encoder(x[n : n + 1, :length], mask[n : n + 1, :length])
        for n, length in enumerate(LENGTHS.tolist())
    ]
    torch.testing.assert_close(encoder(x, mask), torch.cat(alone), rtol=1e-12, atol=1e-12)
