from __future__ import annotations

import pytest
import torch
from omegaconf import MISSING, OmegaConf

from lrbench.registry import TASKS
from lrbench.tasks import make_task
from lrbench.tasks.stream import Stream
from lrbench.tasks.symbols.cyclic import LARGEST, ParityConfig, SumConfig

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


NAMES = ("sum", "even_pair", "mod_arith", "parity")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("modulus", [1, 0, -5, 2.5, "five", True, None])
def test_only_integers_from_two_are_moduli(name, modulus):
    with pytest.raises(ValueError, match=rf"task\.modulus must be an integer >= 2, not {modulus}"):
        TASKS.get(name).config(modulus=modulus)


def test_the_largest_modulus_is_stated():
    assert TASKS.get("sum").config(modulus=LARGEST).modulus == 10_000
    with pytest.raises(ValueError, match=r"task\.modulus must be at most 10,000, not 10001"):
        TASKS.get("sum").config(modulus=LARGEST + 1)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_modulus_passes_and_omegaconf_can_build_the_config(name):
    config = TASKS.get(name).config
    assert config(modulus=MISSING).modulus == MISSING
    node = OmegaConf.structured(config)
    assert OmegaConf.to_object(node) == config()
    assert node.name == name
