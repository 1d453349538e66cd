"""The Mackey-Glass series against a generator that takes one step at a time."""

from __future__ import annotations

from collections import Counter, deque

import numpy as np
import pytest
import torch

from lrbench.errors import UserError
from lrbench.registry import TASKS
from lrbench.tasks import make_task
from lrbench.tasks.base import Task
from lrbench.tasks.baselines import best_baseline, measure_baselines
from lrbench.tasks.series.mackey_glass import LENGTH, MackeyGlass, centred_series, mackey_glass
from lrbench.tasks.stream import Stream, integers

SERIES = 16


def task(**settings: int) -> MackeyGlass:
    made = make_task(TASKS.get("mackey_glass").config(**{"series": SERIES, **settings}))
    assert isinstance(made, MackeyGlass)
    return made


def one_step_at_a_time(row: int, length: int, tau: int) -> list[float]:
    """The equation as it is written, with a queue of what x was."""
    words = integers(Stream.named(0, "mackey_glass", "history").from_row(row), 0, 1, 0, 10 * tau,
                     1 << 30, "cpu")[0].tolist()  # fmt: skip
    history = deque(1.2 + 0.2 * (word / (1 << 30) - 0.5) for word in words)
    x, values = 1.2, []
    for _ in range(100 + length):
        for _ in range(10):
            delayed = history.popleft()
            history.append(x)
            x += (0.2 * delayed / (1 + delayed**10) - 0.1 * x) / 10
        values.append(x)
    return values[100:]


@pytest.mark.parametrize("tau", [1, 17, 30])
def test_series_solve_the_equation(tau: int) -> None:
    ours = mackey_glass(3, 200, tau)
    for row in range(3):
        np.testing.assert_allclose(ours[row], one_step_at_a_time(row, 200, tau), rtol=1e-6)


def test_series_are_what_the_papers_experiments_had() -> None:
    raw = np.tanh(mackey_glass(128, LENGTH, 17) - 1)
    assert raw.mean() == pytest.approx(-0.066, abs=0.001)
    centred = centred_series(128, 17, 15)
    assert centred.shape == (128, LENGTH + 15)
    assert abs(float(centred[:, :LENGTH].double().mean())) < 1e-6
    torch.testing.assert_close(
        centred[:, :LENGTH].double(), torch.from_numpy(raw - raw.mean()), rtol=0, atol=1e-7
    )


@pytest.mark.parametrize("horizon", [1, 15])
def test_the_target_lies_in_the_future(horizon: int) -> None:
    made = task(horizon=horizon)
    batch = made.sample(made.stream(0, "test", LENGTH), 0, 8, LENGTH, "cpu")
    assert batch.tokens.shape == (8, LENGTH, 1) and batch.targets.shape == (8, LENGTH)
    assert batch.tokens.dtype == batch.targets.dtype == torch.float32
    assert torch.equal(batch.targets[:, :-horizon], batch.tokens[:, horizon:, 0])
    assert not torch.equal(batch.targets[:, :-1], batch.tokens[:, 1:, 0]) or horizon == 1


def test_the_test_half_is_whole_and_validation_is_held_out_of_the_other() -> None:
    made = task()
    assert [made.count(split) for split in ("train", "validation", "test")] == [7, 1, 8]
    assert [task(series=128).count(split) for split in ("train", "validation", "test")] == [
        *(56, 8, 64)
    ]
    every = centred_series(SERIES, 17, 15)
    begins = {
        split: made.sample(made.stream(0, split), 1, made.count(split), 5, "cpu").tokens[..., 0]
        for split in ("train", "validation", "test")
    }
    assert torch.equal(begins["test"], every[8:, :5])
    assert torch.equal(begins["validation"], every[7:8, :5])
    assert sorted(begins["train"].tolist()) == sorted(every[:7, :5].tolist())


def test_every_epoch_reads_every_training_series_once_in_another_order() -> None:
    made = task()
    stream = made.stream(3, "train")
    known = {tuple(row): n for n, row in enumerate(centred_series(SERIES, 17, 15)[:7, :3].tolist())}
    read = [
        known[tuple(row)]
        for step in range(1, 15)
        for row in made.sample(stream, step, 2, 3, "cpu").tokens[..., 0].tolist()
    ]
    epochs = [read[start : start + 7] for start in range(0, 28, 7)]
    assert all(sorted(epoch) == list(range(7)) for epoch in epochs)
    assert len(set(map(tuple, epochs))) > 1
    other = made.sample(made.stream(4, "train"), 1, 7, 3, "cpu").tokens
    assert not torch.equal(other, made.sample(stream, 1, 7, 3, "cpu").tokens)


def test_data_seed_changes_the_order_of_training_only() -> None:
    made = task()
    for purpose in ("validation", "test", "look", "evaluate"):
        one, two = (made.sample(made.stream(s, purpose), 0, 1, 9, "cpu").tokens for s in (0, 1))
        assert torch.equal(one, two)


@pytest.mark.parametrize("purpose", ["train", "validation", "test"])
def test_pieces_joined_are_the_whole(purpose: str) -> None:
    made = task()
    stream = made.stream(0, purpose)
    whole = made.sample(stream, 2, 1, 100, "cpu")
    pieces = list(made.segments(stream, 1, 100, 33, "cpu", 2))
    assert [int(piece.lengths[0]) for piece in pieces] == [33, 33, 33, 1]
    assert torch.equal(torch.cat([piece.tokens for piece in pieces], 1), whole.tokens)
    assert torch.equal(torch.cat([piece.targets for piece in pieces], 1), whole.targets)
    drawn = made.samples(stream, range(2, 4), 1, 100, "cpu")
    assert torch.equal(drawn[0].tokens, whole.tokens)


def test_a_stream_says_how_many_series_are_left() -> None:
    made = task()
    stream = made.stream(0, "test", 5)
    assert (made.available(stream), made.available(stream.from_row(3))) == (8, 5)
    assert made.available(made.stream(0, "train")) is None
    with pytest.raises(UserError, match="8 series, not the 9"):
        made.sample(stream, 0, 9, 5, "cpu")
    last = made.sample(stream.from_row(7), 0, 1, 5, "cpu").tokens
    assert torch.equal(last, made.sample(stream, 0, 8, 5, "cpu").tokens[7:])


def test_lengths_are_those_of_the_series() -> None:
    made = task()
    assert made.valid_length(1) and made.valid_length(5000) and not made.valid_length(5001)
    with pytest.raises(UserError, match="lengths 1 to 5,000"):
        made.sample(made.stream(0, "test"), 0, 1, 5001, "cpu")


def test_baselines_are_the_mean_and_that_nothing_changes() -> None:
    made = task()
    rows = measure_baselines(made, made.stream(0, "baseline", 400), 400, 10_000, "cpu")
    values = {row["baseline"]: row["value"] for row in rows}
    assert Counter(row["n"] for row in rows) == {8: 2}
    batch = made.sample(made.stream(0, "test"), 0, 8, 400, "cpu")
    error = (batch.targets - batch.tokens[..., 0]).square().sum() / batch.targets.square().sum()
    assert values["persistence"] == pytest.approx(float(error.sqrt()), rel=1e-5)
    assert values["mean"] == pytest.approx(1.0, abs=0.05)
    assert best_baseline(rows, made.metric)["baseline"] == "mean"


@pytest.mark.parametrize(
    "settings", [{"horizon": 0}, {"horizon": 1001}, {"tau": 0}, {"series": 3}], ids=str
)
def test_settings_out_of_range_are_refused(settings: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"task\."):
        task(**settings)


def test_an_answer_is_part_of_the_data_and_given_by_no_oracle() -> None:
    assert not isinstance(task(), Task)
    assert not hasattr(task(), "oracle") and not hasattr(task(), "answers")


def test_a_delay_with_which_nothing_happens_is_refused() -> None:
    with pytest.raises(ValueError, match=r"task\.tau must be at least 5, not 4"):
        task(tau=4)
    assert float(centred_series(SERIES, 5, 1)[:, -500:].std()) > 0.05
