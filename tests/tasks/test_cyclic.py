import pytest
import torch

from lrbench.tasks import make_task
from lrbench.tasks.cyclic import ParityConfig, SumConfig
from lrbench.tasks.stream import Stream

STREAM = Stream.named(0, "test")


def test_sum_is_the_running_sum():
    task = make_task(SumConfig(modulus=5))
    assert task.oracle([3, 1, 4, 0, 2]) == [3, 4, 3, 3, 0]
    assert task.vocabulary == task.class_names == ("0", "1", "2", "3", "4")


@pytest.mark.parametrize("modulus", [2, 5, 11])
@pytest.mark.parametrize("length", [1, 2, 40])
def test_answers_are_uniform(modulus, length):
    task = make_task(SumConfig(modulus=modulus))
    answers = task.sample(STREAM, 0, 10_000, length, "cpu").targets[:, -1]
    rates = torch.bincount(answers, minlength=modulus) / 10_000
    assert (rates - 1 / modulus).abs().max() < 0.02


def test_parity_is_sum_with_modulus_two():
    parity, two = make_task(ParityConfig()), make_task(SumConfig(modulus=2))
    ours, theirs = (task.sample(STREAM, 3, 20, 41, "cpu") for task in (parity, two))
    assert torch.equal(ours.tokens, theirs.tokens)
    assert torch.equal(ours.targets, theirs.targets)
    assert (parity.name, parity.version) == ("parity", two.version)


def test_parity_has_no_other_modulus():
    with pytest.raises(ValueError, match="modulus of parity is 2, not 3: use task=sum"):
        ParityConfig(modulus=3)
