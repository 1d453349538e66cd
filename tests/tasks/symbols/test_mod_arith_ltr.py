from __future__ import annotations

import itertools

import pytest
import torch

from lrbench.tasks import make_task
from lrbench.tasks.stream import Stream
from lrbench.tasks.symbols.mod_arith import ModArithConfig
from lrbench.tasks.symbols.mod_arith_ltr import ModArithLtrConfig

TIMES = "\N{MULTIPLICATION SIGN}"
STREAM = Stream.named(0, "test")


def bracketed(task, tokens):
    """What Python makes of ((1 + 2) x 3): a bracket around all that stands left of an operator."""
    text = task.vocabulary[tokens[0]]
    for operator, number in zip(tokens[1::2], tokens[2::2], strict=True):
        text = f"({text} {task.vocabulary[operator]} {task.vocabulary[number]})"
    return eval(text.replace(TIMES, "*")) % task.modulus


@pytest.mark.parametrize("length", [1, 3, 5])
def test_the_oracle_agrees_with_python_on_every_expression(length):
    task = make_task(ModArithLtrConfig(modulus=3))
    alphabets = [range(3), range(3, 6)]
    for tokens in itertools.product(*(alphabets[t % 2] for t in range(length))):
        assert task.oracle(tokens)[-1] == bracketed(task, tokens)


def test_precedence_makes_another_function():
    """Share of strings with the same value: 85 % of three numbers, 60 % of five, chance of 20."""
    left, usual = make_task(ModArithLtrConfig()), make_task(ModArithConfig())
    for numbers, share in ((3, 0.85), (5, 0.60), (10, 0.31), (20, 0.21)):
        tokens = left.sample(STREAM, 0, 10_000, 2 * numbers - 1, "cpu").tokens
        same = left.answers(tokens)[:, -1] == usual.answers(tokens)[:, -1]
        assert same.double().mean().item() == pytest.approx(share, abs=0.015)


def test_zero_is_the_commonest_answer():
    targets = make_task(ModArithLtrConfig()).sample(STREAM, 0, 20_000, 199, "cpu").targets[:, -1]
    rates = torch.bincount(targets, minlength=5) / 20_000
    assert rates[0].item() == pytest.approx(3 / 11, abs=0.01)
