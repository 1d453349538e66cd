"""Fused kernels, interpreted, compute what the reference computes, gradients included."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch.autograd import gradcheck
from torch.func import grad, vmap

from lrbench.scan import Indexed, scan
from lrbench.scan.algorithms.fused import fits

from .cases import Case, case, close

ACCESSES = ("step", "table", "constant")
DTYPES = {"real": torch.float64, "complex": torch.complex128}

pytestmark = pytest.mark.usefixtures("interpreter")


def agrees(one: Case) -> None:
    a, b, x = one.leaves
    assert fits(one.wrap(a), b, x)
    close(one.results("fused"), one.results("reference"))


@pytest.mark.parametrize("length", [1, 2, 7, 33])
@pytest.mark.parametrize("access", ACCESSES)
def test_blocks_of_any_length(access: str, length: int) -> None:
    agrees(case(access, "blocks", (2, 4), length=length))


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_blocks_of_every_size(access: str, size: int) -> None:
    agrees(case(access, "blocks", (3, size), length=3, batch=5))  # 15 chains: tiles are not full


@pytest.mark.parametrize("length", [1, 2, 7, 33])
@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("kind", DTYPES)
def test_diagonals_of_any_length(kind: str, access: str, length: int) -> None:
    agrees(case(access, "diagonal", (5,), length=length, dtype=DTYPES[kind]))


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize(("batch", "width"), [(1, 1), (9, 7), (2, 40)])
def test_diagonals_of_any_width(kind: str, access: str, batch: int, width: int) -> None:
    agrees(case(access, "diagonal", (width,), length=3, batch=batch, dtype=DTYPES[kind]))


@pytest.mark.parametrize("symbols", [1, 2, 17, 40])  # the last are too many for registers
def test_tables_of_any_size(symbols: int) -> None:
    agrees(case("table", "blocks", (2, 2), length=6, symbols=symbols))
    agrees(case("table", "diagonal", (3,), length=6, symbols=symbols))


@pytest.mark.parametrize("access", ACCESSES)
def test_single_precision(access: str) -> None:
    agrees(case(access, "blocks", (2, 8), length=7, dtype=torch.float32))
    agrees(case(access, "diagonal", (5,), length=7, dtype=torch.float32))
    agrees(case(access, "diagonal", (5,), length=7, dtype=torch.complex64))


@pytest.mark.parametrize("access", ACCESSES)
def test_gradients_are_derivatives(access: str) -> None:
    for form, shape, dtype in (
        ("blocks", (1, 2), torch.float64),
        ("diagonal", (2,), torch.complex128),
    ):
        one = case(access, form, shape, length=2, batch=1, symbols=2, dtype=dtype)
        states = partial(one.states, "fused")
        assert gradcheck(states, one.leaves, fast_mode=True)


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize(("form", "shape"), [("blocks", (2, 2)), ("diagonal", (3,))])
def test_a_group_is_its_members(access: str, form: str, shape: tuple[int, ...]) -> None:
    members = [case(access, form, shape, length=4, seed=seed) for seed in range(2)]
    leaves = [torch.stack([m.leaves[i].detach() for m in members]) for i in range(3)]
    made = [m.wrap(m.leaves[0]) for m in members]
    index = torch.stack([m.index if isinstance(m, Indexed) else torch.zeros(1) for m in made])

    def loss(a, b, x, index):  # type: ignore[no-untyped-def]
        transition = members[0].wrap(a)
        if isinstance(transition, Indexed):
            transition = Indexed(transition.table, index)
        return scan(transition, b, x, "fused").square().sum()

    together = vmap(grad(loss, argnums=(0, 1, 2)), in_dims=(1, 0, 2, 0))
    ours = together(leaves[0].movedim(0, 1), leaves[1], leaves[2].movedim(0, 2), index)
    for k, member in enumerate(members):
        theirs = torch.autograd.grad(member.states("reference").square().sum(), member.leaves)
        close([one[k] for one in ours], theirs)


def test_operands_may_lie_in_memory_in_any_order() -> None:
    one = case("step", "blocks", (2, 4), length=3)
    a, b, x = (leaf.detach() for leaf in one.leaves)
    moved = [leaf.movedim(0, -1).contiguous().movedim(-1, 0).requires_grad_() for leaf in (a, b, x)]
    ours = Case((moved[0], moved[1], moved[2]), one.wrap)
    close(ours.results("fused"), one.results("reference"))
    start = x[:1].expand(3, 2, 4)
    close([one.states("fused", a, b, start)], [one.states("reference", a, b, start)])


def test_a_symbol_outside_the_table_shows() -> None:
    one = case("table", "blocks", (2, 2), length=4)
    a, b, x = (leaf.detach() for leaf in one.leaves)
    made = one.wrap(a)
    assert isinstance(made, Indexed)
    index = made.index.clone()
    index[1, 2] = 5
    states = scan(Indexed(made.table, index), b, x, "fused")
    wrong = states.isnan().flatten(2).any(2)
    assert wrong.tolist() == [[False] * 4, [False, False, True, True], [False] * 4]
