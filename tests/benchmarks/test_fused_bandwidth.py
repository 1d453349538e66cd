"""The bandwidth benchmark counts bytes as the scan moves them, and refuses to run without a GPU."""

from __future__ import annotations

import pytest
import torch

from benchmarks.fused_bandwidth import LAUNCHES, bytes_of, calls, main, operands, summary
from lrbench.bench.timing import Rounds

SHAPE = (3, 2, 2, 4)


def test_bytes_are_those_of_the_operands() -> None:
    blocks, inputs, _, gradient = operands(SHAPE, torch.float32, "cpu")
    forward = [blocks, inputs, inputs]  # the last: states
    backward = [blocks, inputs, gradient, blocks, inputs]  # in: A, x, g; out: dA, db
    total = sum(tensor.nbytes for tensor in forward)
    both = total + sum(tensor.nbytes for tensor in backward)
    assert bytes_of(SHAPE, 4) == {"forward": total, "forward and backward": both}


def test_what_is_timed_runs() -> None:
    made = calls(SHAPE, torch.float64, "cpu")  # where no kernel fits, by the loop
    for call in made.values():
        call()
    assert len(made) == 4


def test_ratios_are_of_one_round() -> None:
    names = ("forward", "copy as forward", "forward and backward", "copy as both")
    seconds = ([2.0, 4.0, 9.0], [1.0, 2.0, 3.0], [6.0, 6.0, 6.0], [2.0, 3.0, 4.0])
    found = summary(Rounds(dict(zip(names, seconds, strict=True))), bytes_of(SHAPE, 4))
    assert found["forward"]["times the copy"] == 2
    assert found["forward and backward"]["times the copy"] == 2
    assert found["forward"]["milliseconds"] == 4000 / LAUNCHES


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_it_says_that_there_is_no_gpu() -> None:
    with pytest.raises(SystemExit, match="no GPU"):
        main([])
