import itertools

import pytest

from lrbench.tasks import make_task
from lrbench.tasks.stream import Stream
from lrbench.tasks.symbols.even_pair import EvenPairConfig


def test_each_symbol_is_compared_with_the_first():
    task = make_task(EvenPairConfig(modulus=5))
    assert task.oracle([3, 1, 3, 3, 0]) == [1, 0, 1, 1, 0]
    assert (len(task.vocabulary), task.class_names) == (5, ("differs", "same"))


def test_states_are_named_by_the_first_symbol_and_the_answer():
    machine = make_task(EvenPairConfig(modulus=2)).machine()
    assert machine.names == ("empty", "0, same", "1, same", "0, differs", "1, differs")


@pytest.mark.parametrize("modulus", [2, 5, 10])
def test_one_in_m_symbols_is_the_first(modulus):
    task = make_task(EvenPairConfig(modulus=modulus))
    targets = task.sample(Stream.named(0, "test"), 0, 5_000, 12, "cpu").targets
    assert targets[:, 0].tolist() == [1] * 5_000
    rates = targets[:, 1:].double().mean(0)
    assert (rates - 1 / modulus).abs().max() < 0.03


def test_two_symbols_count_the_unequal_neighbours():
    # the name's origin, and the polarity that is opposite to Delétang's
    task = make_task(EvenPairConfig(modulus=2))
    for string in ([0], [0, 1], [1, 0, 1], [1, 1, 0, 0], [0, 0, 1, 0, 1]):
        unequal = sum(a != b for a, b in itertools.pairwise(string))
        assert task.oracle(string)[-1] == (1 if unequal % 2 == 0 else 0)
