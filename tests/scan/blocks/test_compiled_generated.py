"""The compiled scan of generated blocks equals torch's loop under every constraint."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import gradcheck

from lrbench.scan import GeneratedBlocks, scan
from lrbench.scan.blocks.generated import WIDE, compiles
from tests.both_ways import CONSTRAINTS, both_ways, close, draw, needs_numba

pytestmark = needs_numba

# Sizes that are compiled for in double precision; that of models is, in single.
SIZES = {"column_clip": [2, 3], "column_unit": [3], "max_column_centred": [3]}


def case(
    size: int, heads: int, length: int, batch: int, width: int, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    return [
        draw(heads, size, size, width, dtype=dtype),
        draw(batch, length, width, seed=1, dtype=dtype),
        draw(batch, length, heads, size, seed=2, dtype=dtype),
        draw(batch, heads, size, seed=3, dtype=dtype),
    ]


def run(constraint: str, p: float):  # type: ignore[no-untyped-def]
    return lambda w, z, b, x: scan(GeneratedBlocks(w, z, constraint, p), b, x, "sequential")


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@settings(max_examples=8)
@given(
    heads=st.integers(1, 3),
    length=st.integers(1, 11),
    groups=st.integers(1, 3),
    p=st.sampled_from([1.0, 1.2, 2.0]),
    data=st.data(),
)
def test_equals_the_loop(
    constraint: str, heads: int, length: int, groups: int, p: float, data: st.DataObject
) -> None:
    size = data.draw(st.sampled_from(SIZES[constraint]))
    leaves = case(size, heads, length, groups * WIDE, 5)
    assert compiles(GeneratedBlocks(*leaves[:2], constraint, p), leaves[3])
    close(*both_ways(run(constraint, p), leaves))


@pytest.mark.parametrize("batch", [1, 3, WIDE + 1])
def test_other_batches_are_left_to_the_loop(batch: int) -> None:
    leaves = case(2, 2, 3, batch, 4)
    assert not compiles(GeneratedBlocks(*leaves[:2], "column_clip", 1.2), leaves[3])
    close(*both_ways(run("column_clip", 1.2), leaves))


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_equals_the_loop_where_columns_are_equal_or_zero(constraint: str) -> None:
    leaves = case(3, 2, 4, WIDE, 5)
    leaves[0][:, :, 1] = leaves[0][:, :, 0]
    leaves[0][1, :, 2] = 0
    close(*both_ways(run(constraint, 1.2), leaves))
    leaves[0].zero_()
    ours, _ = both_ways(run(constraint, 1.2), leaves)
    assert all(tensor.isfinite().all() for tensor in ours)


@pytest.mark.parametrize("constraint", ["column_clip", "column_unit"])  # no ties to round apart
def test_equals_the_loop_in_single_precision(constraint: str) -> None:
    close(*both_ways(run(constraint, 1.2), case(8, 2, 9, 2 * WIDE, 7, torch.float32)))


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_gradients_are_derivatives(constraint: str) -> None:
    leaves = [leaf.requires_grad_() for leaf in case(3, 1, 2, WIDE, 2)]
    assert gradcheck(run(constraint, 1.2), leaves, fast_mode=True)


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_nothing_kept_changes_nothing(constraint: str) -> None:
    leaves = case(8, 2, 9, WIDE, 7, torch.float32)
    with torch.no_grad():
        short = run(constraint, 1.2)(*leaves)
    leaves[0].requires_grad_()
    assert torch.equal(run(constraint, 1.2)(*leaves), short)
