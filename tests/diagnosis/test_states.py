"""What is seen of states, against models whose states are known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lrbench.config import Config
from lrbench.diagnosis.findings import _by_length
from lrbench.diagnosis.states import Survey, margins_along, survey
from lrbench.models.build import build_model
from lrbench.registry import TASKS
from lrbench.schema import model_node
from lrbench.tasks import make_task
from lrbench.tasks.base import IGNORE


@pytest.mark.parametrize("name", ["nnch_parity_check", "xlstm_parity"])
def test_a_string_may_have_more_or_fewer_positions_than_its_length(name: str) -> None:
    task = make_task(TASKS.get(name).config())
    machine = task.machine()
    assert machine is not None
    lengths = [task.nearest_length(length) for length in (21, 41)]
    assert [task.positions(length) for length in lengths] != lengths
    config = Config(task=TASKS.get(name).config(), model=model_node("rnn")())
    model = build_model(config, len(task.vocabulary), task.num_classes, seed=0).eval()
    found = survey(model, task, machine, lengths, task.stream(0, "test"), strings=8)
    assert [one.length for one in found.lengths] == lengths
    assert found.bins[-1].last == task.positions(lengths[-1])
    assert len(_by_length(found).rows) == 3 + len(found.parts)


def test_leads_and_norms_at_a_length_are_of_the_positions_up_to_it() -> None:
    """Of as many at each length: the least of more positions is less, though nothing drifts."""
    task = make_task(TASKS.get("sum").config())
    machine, stream, rows = task.machine(), task.stream(0, "test"), 8
    assert machine is not None
    config = Config(task=TASKS.get("sum").config(), model=model_node("rnn")())
    model = build_model(config, len(task.vocabulary), task.num_classes, seed=0).eval()
    found = survey(model, task, machine, [70, 200], stream, strings=rows)
    strings = task.sample(stream, 0, rows, 200, "cpu").tokens.tolist()
    along = np.array([margins_along(model, machine, one) for one in strings])
    for seen in found.lengths:
        assert seen.positions == 32
        there = along[:, seen.length - seen.positions : seen.length]
        assert seen.mean_margin == pytest.approx(there.mean(), abs=1e-5)
        assert seen.least_margin == pytest.approx(there.min(), abs=1e-5)
        assert len(seen.norms) == len(found.parts) == 1 and seen.norms[0] > 0


class Stack(nn.Module):
    """Sum(5) as two layers: one holds the sum as a point on a circle, the other copies it.

    From position `first_lost` on, the first layer's point is at the centre; from `second_lost` on
    the second layer's is. Where the second is lost, answers are all class 0. Points of the first
    layer grow by `growth` a symbol.
    """

    state_size = 4

    def __init__(self, first_lost: int, second_lost: int, growth: float = 1.0) -> None:
        super().__init__()
        self.lost, self.growth = (first_lost, second_lost), growth

    def forward(self, tokens: Tensor, state: Any = None, read: str = "all") -> tuple[Tensor, Any]:
        count = len(tokens)
        hidden = torch.zeros(count, 2) if state is None else state[2]
        total, place = hidden[:, 0] + tokens.sum(1), hidden[:, 1] + tokens.shape[1]
        angle = 2 * torch.pi * (total % 5) / 5
        point = torch.stack([angle.cos(), angle.sin()], 1)
        here = [torch.where(place[:, None] >= lost, 0.0, point) for lost in self.lost]
        right = nn.functional.one_hot((total % 5).long(), 5).float()
        zero = torch.tensor([1.0, 0, 0, 0, 0])
        logits = torch.where(place[:, None] >= self.lost[1], zero, 3 * right)
        scale = self.growth ** place[:, None]
        return logits, [here[0] * scale, here[1], torch.stack([total, place], 1)]


def seen(model: nn.Module, lengths: list[int], task_name: str = "sum", strings: int = 64) -> Survey:
    task = make_task(TASKS.get(task_name).config())
    machine = task.machine()
    assert machine is not None
    stream = task.stream(0, "test-diagnose")
    return survey(model, task, machine, lengths, stream, strings=strings)


def test_which_layer_loses_the_states_first() -> None:
    """The third part of the state counts: it is a layer that never separates them."""
    found = seen(Stack(100, 10_000), [40, 90, 150, 200])
    assert found.first_lost() == (150, (1,))
    assert found.separating() == (1, 2)
    assert [one.layers[0].nearest == 1 for one in found.lengths] == [True, True, False, False]
    assert all(one.layers[1].nearest == 1 for one in found.lengths)
    both = seen(Stack(45, 60), [40, 90])
    assert both.first_lost() == (90, (1, 2))
    # one guess in five, from five states drawn alike
    assert both.lengths[1].layers[0].nearest == pytest.approx(0.2, abs=0.1)
    assert seen(Stack(1000, 1000), [40, 90]).first_lost() is None
    assert seen(Stack(1, 1), [40, 90]).separating() == ()


def test_accuracy_by_position_and_by_state() -> None:
    found = seen(Stack(50, 100), [40, 300])
    assert found.bins[0].first == 1 and found.bins[-1].last == 300
    for before, after in zip(found.bins, found.bins[1:], strict=False):
        assert after.first == before.last + 1
    for one in found.bins:
        assert one.asked == 64 * (one.last - one.first + 1)
        if one.last < 100:
            assert one.right == one.asked and one.mean_margin == one.least_margin == 3
        if one.first >= 100:
            assert one.least_margin == -1
            assert one.right / one.asked == pytest.approx(0.2, abs=0.05)
    short, long = found.lengths
    assert all(asked == right > 0 for asked, right in short.by_state)
    assert (short.positions, long.positions) == (20, 32)
    assert [row[:2] for row in short.confusion] == [(q, q) for q in range(5)]
    # where the second layer is lost, answers are all 0: the column of the first class
    assert [row[:2] for row in long.confusion] == [(q, 0) for q in range(5)]
    assert [row[2] for row in long.confusion] == [asked for asked, _ in long.by_state]
    assert long.by_state[0][0] == long.by_state[0][1] > 0
    assert all(right == 0 < asked for asked, right in long.by_state[1:])


def test_radii_norms_and_saturation_are_what_they_are() -> None:
    found = seen(Stack(10_000, 10_000, growth=1.01), [40, 120])
    assert found.parts == ("layer 1", "layer 2", "layer 3")
    last = found.bins[-1]
    places = np.arange(last.first, last.last + 1)
    assert last.norms[0] == pytest.approx(float(np.mean(1.01**places)), rel=1e-5)
    assert last.norms[1] == pytest.approx(1, rel=1e-5)
    side = 2 * np.sin(np.pi / 5)
    for at in found.lengths:
        window = np.arange(at.length - at.positions + 1, at.length + 1)
        # states of one kind lie on a ray, at 1.01^n each as often
        ray = 1.01**window
        first, second = at.layers[0], at.layers[1]
        assert second.apart == pytest.approx(side, rel=1e-5)
        assert first.apart == pytest.approx(side * ray.mean(), rel=0.05)
        assert second.radii[0].typical == pytest.approx(0, abs=1e-5)
        assert first.radii[0].typical == pytest.approx(ray.std(), rel=0.1)
        assert [one.suffix for one in first.radii] == [0, 1, 2, 3]
        assert (first.radii[0].groups, first.radii[1].groups) == (5, 25)
        saturated = {one.part: one for one in at.saturation}
        assert saturated["layer 1"].above_99 is None and saturated["layer 1"].largest > 1
        # of a circle's five points: cosines and sines 1, 0, +-0.31, +-0.95, +-0.81, +-0.59
        assert saturated["layer 2"].above_99 == pytest.approx(0.1, abs=0.02)
        assert saturated["layer 2"].above_90 == pytest.approx(0.3, abs=0.03)
        assert saturated["layer 2"].below_50 == pytest.approx(0.3, abs=0.03)
    assert len(found.lengths[0].picture) == 400


def test_means_of_the_first_length_see_a_drift() -> None:
    """A circle that turns by a fifth after position 60 is as far apart, but no longer the same."""

    class Turned(Stack):
        def forward(self, tokens: Tensor, state: Any = None, read: str = "all") -> Any:
            logits, (first, _, hidden) = super().forward(tokens, state, read)
            angle = 2 * torch.pi * ((hidden[:, 0] + (hidden[:, 1] > 60)) % 5) / 5
            return logits, [first, torch.stack([angle.cos(), angle.sin()], 1), hidden]

    found = seen(Turned(1000, 1000), [40, 120])
    late = found.lengths[1].layers[1]
    assert (late.nearest, late.nearest_first) == (1.0, 0.0)


def test_nothing_of_a_window_outlives_it() -> None:
    """Numbers do not depend on which other lengths are looked at, beyond the first one's means."""
    one, two = seen(Stack(50, 100), [40, 120]), seen(Stack(50, 100), [40, 80, 120, 121])
    assert one.lengths[0] == two.lengths[0] and one.lengths[1] == two.lengths[2]


def test_numbers_that_are_not_finite() -> None:
    class Broken(Stack):
        def forward(self, tokens: Tensor, state: Any = None, read: str = "all") -> Any:
            logits, (first, second, hidden) = super().forward(tokens, state, read)
            late = hidden[:, 1:] > 60
            return torch.where(late, torch.nan, logits), [
                torch.where(late, torch.inf, first),
                second,
                hidden,
            ]

    found = seen(Broken(1000, 1000), [40, 120])
    assert found.bins[-1].mean_margin is None and found.bins[-1].right == 0
    late = found.lengths[1]
    assert late.layers[0].nearest is None and late.layers[1].nearest == 1
    assert found.first_lost() == (120, (1,))


def test_unasked_positions_count_for_nothing() -> None:
    task = make_task(TASKS.get("mod_arith").config(modulus=3))
    node = model_node("lstm")(width=8, layers=2)
    model = build_model(Config(model=node), 6, 3, seed=1).eval()
    found = seen_of(model, task, [9, 31])
    total = sum(one.asked for one in found.bins)
    stream = task.stream(0, "test-diagnose")
    batch = task.sample(stream, 0, 16, 31, "cpu")
    assert total == int((batch.targets != IGNORE).sum())
    with torch.no_grad():
        logits, _ = model(batch.tokens)
    right = (logits.argmax(-1) == batch.targets) & (batch.targets != IGNORE)
    assert sum(one.right for one in found.bins) == int(right.sum())
    assert found.parts == tuple(f"layer {n}, {k} of 2" for n in (1, 2) for k in (1, 2))


def seen_of(model: nn.Module, task: Any, lengths: list[int]) -> Survey:
    return survey(model, task, task.machine(), lengths, task.stream(0, "test-diagnose"), strings=16)


def test_states_that_grow_are_not_looked_at() -> None:
    task = make_task(TASKS.get("sum").config())
    model = build_model(Config(model=model_node("transformer")(width=8)), 5, 5, seed=1).eval()
    found = seen_of(model, task, [9, 20])
    assert found.parts == () and found.lengths[0].layers == () == found.lengths[0].saturation
    assert found.first_lost() is None and found.separating() == ()
    assert sum(asked for asked, _ in found.lengths[1].by_state) == 16 * 10
