"""Scans under torch.func: K recurrences at once give what K calls give, gradients included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import grad, vmap

from lrbench.scan import ALGORITHMS, Indexed, scan

from .conftest import KINDS, form_of

GROUP, LENGTH = 3, 6
FAST = sorted(set(ALGORITHMS) - {"reference"})
Make = Callable[..., Any]


def group_of(recurrence: Make, kind: str) -> tuple[list[Tensor], Tensor, type]:
    """Return stacked leaves (K, ...), an index (K, B, T) and the form of the transitions."""
    cases = [recurrence(kind, LENGTH, seed=seed) for seed in range(GROUP)]
    leaves = [torch.stack([c.leaves[i].detach() for c in cases]) for i in range(3)]
    indexed = kind.startswith("indexed")
    index = [c.wrap(c.leaves[0]).index if indexed else torch.zeros(1) for c in cases]
    return leaves, torch.stack(index), form_of(kind)


def runner(kind: str, form: type, algorithm: str) -> Callable[..., Tensor]:
    def run(a: Tensor, b: Tensor, x: Tensor, index: Tensor) -> Tensor:
        transition = Indexed(form(a), index) if kind.startswith("indexed") else form(a)
        return scan(transition, b, x, algorithm)

    return run


def loss_of(run: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *arguments: run(*arguments).abs().square().sum()


def close(ours: Any, theirs: Any) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", FAST)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shared_start", [False, True])
def test_forward(recurrence: Make, algorithm: str, kind: str, shared_start: bool) -> None:
    (a, b, x), index, form = group_of(recurrence, kind)
    run = runner(kind, form, algorithm)
    start = x[0] if shared_start else x
    together = vmap(run, in_dims=(0, 0, None if shared_start else 0, 0))(a, b, start, index)
    apart = [run(a[k], b[k], x[0] if shared_start else x[k], index[k]) for k in range(GROUP)]
    close(together, torch.stack(apart))


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", FAST)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if "complex" not in kind])
@pytest.mark.parametrize("shared_start", [False, True])
def test_gradients(recurrence: Make, algorithm: str, kind: str, shared_start: bool) -> None:
    (a, b, x), index, form = group_of(recurrence, kind)
    slopes = grad(loss_of(runner(kind, form, algorithm)), argnums=(0, 1, 2))
    start = x[0] if shared_start else x
    together = vmap(slopes, in_dims=(0, 0, None if shared_start else 0, 0))(a, b, start, index)
    for k in range(GROUP):
        apart = slopes(a[k], b[k], x[0] if shared_start else x[k], index[k])
        close([one[k] for one in together], list(apart))


@pytest.mark.parametrize("kind", KINDS)
def test_backward_through_a_group(recurrence: Make, kind: str) -> None:
    (a, b, x), index, form = group_of(recurrence, kind)
    run = runner(kind, form, "sequential")
    leaves = [leaf.requires_grad_() for leaf in (a, b, x)]
    together = vmap(run)(*leaves, index).abs().square().sum()
    apart = sum(run(a[k], b[k], x[k], index[k]).abs().square().sum() for k in range(GROUP))
    close(torch.autograd.grad(together, leaves), torch.autograd.grad(apart, leaves))


def test_groups_may_lie_on_any_axis(recurrence: Make) -> None:
    (a, b, x), index, form = group_of(recurrence, "indexed blocks")
    run = runner("indexed blocks", form, "sequential")
    moved = a.movedim(0, 2), b.movedim(0, 1), x.movedim(0, -1), index.movedim(0, 2)
    close(vmap(run, in_dims=(2, 1, -1, 2))(*moved), vmap(run)(a, b, x, index))
