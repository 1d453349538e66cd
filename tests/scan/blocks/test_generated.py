"""Blocks made as the scan goes equal blocks written out first, in gradients too."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck
from torch.func import grad, vmap

from lrbench.scan import ALGORITHMS, BlockDiagonal, GeneratedBlocks, Indexed, scan
from lrbench.scan.blocks.constraints import CONSTRAINTS

BATCH, LENGTH, HEADS, SIZE, WIDTH = 3, 5, 2, 3, 6


def leaves(seed: int = 0, length: int = LENGTH, batch: int = BATCH) -> list[Tensor]:
    """Return weight, features, inputs and the state before them."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [
        (HEADS, SIZE, SIZE, WIDTH),
        (batch, length, WIDTH),
        (batch, length, HEADS, SIZE),
        (batch, HEADS, SIZE),
    ]
    return [
        torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
        for shape in shapes
    ]


def runner(constraint: str, p: float, algorithm: str) -> Callable[..., Tensor]:
    def run(weight: Tensor, z: Tensor, inputs: Tensor, initial: Tensor) -> Tensor:
        return scan(GeneratedBlocks(weight, z, constraint, p), inputs, initial, algorithm)

    return run


def close(ours: Any, theirs: Any) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("p", [1.0, 1.2, 2.0, inf])
@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("length", [1, 2, 7])
def test_equals_the_reference(constraint: str, p: float, length: int) -> None:
    arguments = leaves(length=length)
    weight = torch.linspace(-1, 1, BATCH * length * HEADS * SIZE, dtype=torch.float64)
    states, gradients = {}, {}
    for algorithm in ALGORITHMS:
        states[algorithm] = runner(constraint, p, algorithm)(*arguments)
        loss = (states[algorithm].flatten() * weight).sum()
        gradients[algorithm] = torch.autograd.grad(loss, arguments)
    for algorithm in ALGORITHMS:
        close(states[algorithm], states["reference"])
        close(gradients[algorithm], gradients["reference"])


@pytest.mark.slow
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_gradients_are_derivatives(constraint: str) -> None:
    assert gradcheck(runner(constraint, 1.2, "sequential"), leaves(length=2, batch=2))


def test_written_blocks_are_constrained_products() -> None:
    weight, z, _, _ = leaves()
    blocks = GeneratedBlocks(weight, z, "none", 1.2).written().blocks
    close(blocks, torch.einsum("hijn,btn->bthij", weight, z))


def test_without_gradients_the_states_are_the_same() -> None:
    arguments = leaves()
    run = runner("column_clip", 1.2, "sequential")
    with torch.no_grad():
        quietly = run(*arguments)
    assert torch.equal(quietly, run(*arguments))


def test_zero_blocks_have_finite_gradients() -> None:
    arguments = leaves()
    arguments[0].data[0] = 0
    for constraint in CONSTRAINTS:
        states = runner(constraint, 1.2, "sequential")(*arguments)
        gradients = torch.autograd.grad(states.square().sum(), arguments)
        assert all(gradient.isfinite().all() for gradient in gradients)


def test_table_of_generated_blocks() -> None:
    weight, z, inputs, _ = leaves(batch=1)
    initial = leaves(seed=1)[3]
    index = torch.randint(LENGTH, (BATCH, 9), generator=torch.Generator().manual_seed(0))
    generated = GeneratedBlocks(weight, z, "column_clip", 1.2)
    written = generated.written()
    assert isinstance(written, BlockDiagonal)
    for algorithm in ALGORITHMS:
        ours = scan(Indexed(generated, index), inputs, initial, algorithm)
        close(ours, scan(Indexed(written, index), inputs, initial, "reference"))


@pytest.mark.slow
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_groups_equal_a_loop(constraint: str) -> None:
    group = [[leaf.detach() for leaf in leaves(seed)] for seed in range(3)]
    stacked = [torch.stack(parts) for parts in zip(*group, strict=True)]
    run = runner(constraint, 1.2, "sequential")
    close(vmap(run)(*stacked), torch.stack([run(*member) for member in group]))
    slopes = grad(lambda *a: run(*a).square().sum(), argnums=(0, 1, 2, 3))
    together = vmap(slopes)(*stacked)
    for k, member in enumerate(group):
        close([part[k] for part in together], list(slopes(*member)))
