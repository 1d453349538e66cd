import itertools

import pytest
import torch

from lrbench.errors import UserError
from lrbench.tasks import make_task
from lrbench.tasks.base import IGNORE
from lrbench.tasks.stream import Stream
from lrbench.tasks.symbols.mod_arith import ModArithConfig

TIMES = "\N{MULTIPLICATION SIGN}"
STREAM = Stream.named(0, "test")


def task_with(modulus=5):
    return make_task(ModArithConfig(modulus=modulus))


def tokens_of(task, expression):
    return [task.vocabulary.index(TIMES if s == "*" else s) for s in expression.split()]


def pythons_value(task, tokens):
    """What Python makes of the expression as printed."""
    return eval(task.describe_string(tokens).replace(TIMES, "*")) % task.modulus


@pytest.mark.parametrize("modulus", [2, 3, 5])
@pytest.mark.parametrize("length", [1, 3, 5])
def test_the_oracle_agrees_with_python_on_every_expression(modulus, length):
    task = task_with(modulus)
    alphabets = [range(modulus), range(modulus, modulus + 3)]
    for tokens in itertools.product(*(alphabets[t % 2] for t in range(length))):
        assert task.oracle(tokens)[-1] == pythons_value(task, tokens)


def test_the_oracle_agrees_with_python_on_long_expressions():
    task = task_with(7)
    for tokens in task.sample(STREAM, 0, 20, 61, "cpu").tokens.tolist():
        answers = task.oracle(tokens)
        for end in range(0, 61, 2):
            assert answers[end] == pythons_value(task, tokens[: end + 1])


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("1 + 2 * 3", [1, 3, 2]),  # 7; from left to right it would be 9
        ("2 - 4 * 3 + 1", [2, 3, 0, 1]),
        ("0 - 1", [0, 4]),
        ("3 * 0 * 4 - 4 * 4", [3, 0, 0, 1, 4]),
    ],
)
def test_multiplication_comes_first(expression, values):
    task = task_with(5)
    tokens = tokens_of(task, expression)
    expected = [IGNORE] * len(tokens)
    expected[::2] = values
    assert task.oracle(tokens) == expected
    assert task.answers(torch.tensor([tokens])).tolist() == [expected]


def test_numbers_and_operators_are_uniform():
    tokens = task_with(5).sample(STREAM, 0, 2_000, 39, "cpu").tokens
    for symbols, low, many in ((tokens[:, ::2], 0, 5), (tokens[:, 1::2], 5, 3)):
        rates = torch.bincount((symbols - low).flatten(), minlength=many) / symbols.numel()
        assert len(rates) == many
        assert (rates - 1 / many).abs().max() < 0.01


@pytest.mark.parametrize(("numbers", "rate_of_zero"), [(1, 0.2), (2, 0.253), (20, 0.2)])
def test_answers_of_short_expressions_are_biased_to_zero(numbers, rate_of_zero):
    # two numbers: 5 of 25 sums, 5 of 25 differences and 9 of 25 products are 0, or 19/75
    answers = task_with(5).sample(STREAM, 0, 20_000, 2 * numbers - 1, "cpu").targets[:, -1]
    assert (answers == 0).double().mean().item() == pytest.approx(rate_of_zero, abs=0.01)


def test_even_lengths_are_errors_that_name_the_odd_neighbour():
    task = task_with(5)
    assert [task.valid_length(length) for length in (-1, 0, 1, 2, 39, 40)] == [0, 0, 1, 0, 1, 0]
    assert (task.nearest_length(500), task.nearest_length(499)) == (499, 499)
    with pytest.raises(UserError) as error:
        task.sample(STREAM, 0, 8, 500, "cpu")
    assert str(error.value).splitlines() == [
        "task mod_arith: no strings of length 500;"
        " it has odd lengths >= 1 (number, operator, ..., number)",
        "use 499, the nearest below",
    ]
