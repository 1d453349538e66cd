"""Cycles written into Mamba by hand: right over 10,000 symbols, in every mode and in pieces.

By rotations the state is an angle: Z5 and parity. In [-1, 1] a number of the state changes its sign
with each symbol that asks for it: parity (Grazzi et al. 2025, arXiv:2411.12537). In (0, 1) none
does, and nothing alternates (test_mamba.py::test_decays_are_in_their_range). What turns fades, by 1
in 10,000 a symbol: all of it alike, so that answers stay.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from lrbench.cli.hydra.compose import composed
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.registry import MIXERS
from tests.models.exact.test_turns import arguments

LENGTH, CUT = 10_000, 4_999
CASES = [("mamba", "parity"), ("mamba2", "parity"), ("mamba3", "parity"), ("mamba3", "sum")]
ALL = [(name, task, mode) for name, task in CASES for mode in MIXERS.get(name).cls.modes]


def margin(logits: Tensor, targets: Tensor) -> float:
    """Return by how much the right class is ahead of the best other, where it is least."""
    right = logits.gather(-1, targets[..., None])
    others = logits.scatter(-1, targets[..., None], -torch.inf)
    return float((right - others.amax(-1, keepdim=True)).min())


@torch.no_grad()
@pytest.mark.parametrize(("name", "task", "mode"), ALL)
def test_right_at_every_position_of_ten_thousand(name: str, task: str, mode: str) -> None:
    trial = LengthTrial(composed(arguments(name, task)), 0)
    batch = trial.task.sample(trial.stream("exact"), 0, 2, LENGTH, "cpu")
    assert trial.task.oracle(batch.tokens[0].tolist()) == batch.targets[0].tolist()
    head, state = trial.model(batch.tokens[:, :CUT], mode=mode)
    tail, state = trial.model(batch.tokens[:, CUT:], state, mode=mode)
    logits = torch.cat([head, tail], 1)
    assert logits.dtype == torch.float32
    first = margin(logits[:, :1], batch.targets[:, :1])
    least = margin(logits, batch.targets)
    amplitude = float(state[0][0].norm()) / float(trial.model.mixers[0].start.norm()) / 2**0.5
    print(f"{name}, {task}, {mode}: amplitude {amplitude:.3f}, margin {least:.4f} of {first:.4f}")
    assert least > 0.9 * first
