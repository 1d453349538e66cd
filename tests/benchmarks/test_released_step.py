"""The yardstick of our speed is the model and the data it claims to be."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from benchmarks.released_step import DATA, SCANS, ReleasedStep, loop_states
from lrbench.errors import UserError

TINY = {"width": 16, "block": 4, "batch": 8, "length": 7}
COUNTS = {"sum": 309_381, "even_pair": 309_186, "mod_arith": 918_469}


def expression_value(symbols: list[int], modulus: int) -> int:
    words = [str(s) if s < modulus else "+-*"[s - modulus] for s in symbols]
    return eval(" ".join(words)) % modulus


ORACLES = {
    "sum": lambda s, m: [sum(s[: t + 1]) % m for t in range(len(s))],
    "even_pair": lambda s, m: [int(symbol == s[0]) for symbol in s],
    "mod_arith": lambda s, m: [expression_value(s[: t + 1], m) for t in range(0, len(s), 2)],
}


@pytest.mark.parametrize("task", COUNTS)
def test_model_has_as_many_parameters_as_the_released_one(task: str) -> None:
    assert ReleasedStep(task).parameters_count == COUNTS[task]


@pytest.mark.parametrize("modulus", [2, 5])
@pytest.mark.parametrize("task", DATA)
def test_labels_are_the_tasks_answers(task: str, modulus: int) -> None:
    tokens, targets = DATA[task](64, 11, modulus, torch.Generator().manual_seed(1))
    expected = [ORACLES[task](row, modulus) for row in tokens.tolist()]
    assert targets.tolist() == expected
    assert tokens.unique().numel() == modulus + 3 * (task == "mod_arith")


def test_data_is_fresh_each_time_and_fixed_by_the_seed() -> None:
    first, again = ReleasedStep("sum", **TINY), ReleasedStep("sum", **TINY)
    one, _ = first.data(*first.size, first.rng)
    two, _ = first.data(*first.size, first.rng)
    assert not torch.equal(one, two)
    assert torch.equal(one, again.data(*again.size, again.rng)[0])


def test_blocks_are_centred_and_their_largest_column_has_norm_one() -> None:
    layer = ReleasedStep("sum", **TINY).model.layers[0]
    seen: list[torch.Tensor] = []

    def scan(blocks: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        seen.append(blocks)
        return loop_states(blocks, *rest)

    layer.scan = scan
    layer(torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0)))
    (blocks,) = seen
    norms = blocks.abs().pow(1.2).sum(-2).pow(1 / 1.2)
    assert blocks.shape == (2, 5, 4, 4, 4)
    assert_close(blocks.sum(-2), torch.zeros(2, 5, 4, 4), atol=1e-6, rtol=0)
    assert_close(norms.amax(-1), torch.ones(2, 5, 4))


def test_loop_is_the_recurrence() -> None:
    rng = torch.Generator().manual_seed(2)
    blocks = torch.randn(2, 4, 3, 2, 2, dtype=torch.float64, generator=rng)
    values = torch.randn(2, 4, 3, 2, dtype=torch.float64, generator=rng)
    initial = torch.randn(1, 3, 2, dtype=torch.float64, generator=rng)
    states = loop_states(blocks, values, initial)
    for row, head in [(0, 0), (1, 2)]:
        state = initial[0, head]
        for t in range(4):
            state = blocks[row, t, head] @ state + values[row, t, head]
            assert_close(states[row, t, head], state)


@pytest.mark.parametrize("length", [1, 2, 7, 8, 13])
def test_pscan_is_the_loop_and_so_are_its_gradients(length: int) -> None:
    rng = torch.Generator().manual_seed(length)
    shapes = [(3, length, 2, 4, 4), (3, length, 2, 4), (1, 2, 4)]
    inputs = [
        torch.randn(shape, dtype=torch.float64, generator=rng).requires_grad_() for shape in shapes
    ]
    weights = torch.randn(shapes[1], dtype=torch.float64, generator=rng)
    outputs = {name: scan(*inputs) for name, scan in SCANS.items()}
    gradients = {n: torch.autograd.grad((weights * y).sum(), inputs) for n, y in outputs.items()}
    assert_close(outputs["pscan"], outputs["loop"])
    assert_close(gradients["pscan"], gradients["loop"])


@pytest.mark.parametrize("task", COUNTS)
def test_both_scans_take_the_same_training_path(task: str) -> None:
    loop, pscan = (ReleasedStep(task, scan=scan, **TINY) for scan in SCANS)
    losses = [[step.update() for _ in range(3)] for step in (loop, pscan)]
    assert_close(*losses, rtol=1e-5, atol=0)  # float32; they add up in different orders


@pytest.mark.parametrize("task", COUNTS)
def test_loss_goes_down(task: str) -> None:
    step = ReleasedStep(task, **{**TINY, "batch": 32, "length": 3})
    step.optimiser.param_groups[0]["lr"] = 1e-2  # the release's would take thousands of updates
    losses = [step.update() for _ in range(60)]
    assert sum(losses[-5:]) < 0.6 * sum(losses[:5])


def test_optimiser_is_the_released_one() -> None:
    settings = {task: ReleasedStep(task).optimiser.param_groups[0] for task in COUNTS}
    assert {t: (s["lr"], s["weight_decay"]) for t, s in settings.items()} == {
        "sum": (1e-4, 0.0),
        "even_pair": (2e-4, 0.0),
        "mod_arith": (2e-4, 1e-4),
    }


def test_a_wrong_name_is_reported() -> None:
    with pytest.raises(UserError, match=r"task 'summ' unknown\. Did you mean 'sum'"):
        ReleasedStep("summ")
    with pytest.raises(UserError, match="scan 'tree' unknown"):
        ReleasedStep("sum", scan="tree")


def test_compiling_without_a_compiler_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(UserError, match=r"C\+\+ compiler"):
        ReleasedStep("sum", compile=True)
