"""Carried states may be tuples, named tuples or dicts, and hold whole numbers."""

from __future__ import annotations

import pytest
import torch

from lrbench.certificates.foretold import affine_steps
from lrbench.certificates.reader import SymbolReader, chosen, flat, unflat
from lrbench.certificates.witness import SearchBudget, search
from lrbench.diagnosis.dynamics import growth
from lrbench.diagnosis.states import survey
from lrbench.registry import TASKS
from lrbench.tasks import make_task
from tests.mixers.kinds_of_state import KINDS, stack

TASK = make_task(TASKS.get("sum").config(modulus=3))
BUDGET = SearchBudget(complete=3**5, families=100, beam=10, longest=20)


@pytest.mark.parametrize("layers", [1, 2])
def test_what_is_found_does_not_depend_on_the_kind(layers: int) -> None:
    machine = TASK.machine()
    assert machine is not None
    found = []
    for kind in KINDS:
        model = stack(kind, layers=layers)
        sought = search(model, machine, BUDGET)
        seen = survey(model, TASK, machine, [5, 9], TASK.stream(0, "test"), strings=8)
        grown = growth(model, machine, lengths=(1, 2))
        steps = affine_steps(SymbolReader(model), machine.symbols, of_several=True)
        assert steps == "its step is not affine in the carried state"
        states = [one.layers for one in seen.lengths]
        found.append((sought.witness, sought.strings, sought.unconfirmed, grown, states))
    assert found[1] == found[0]
    assert found[2] == found[0]


def test_parts_have_their_names() -> None:
    machine = TASK.machine()
    assert machine is not None
    for kind in KINDS:
        seen = survey(stack(kind), TASK, machine, [5], TASK.stream(0, "test"), strings=8)
        names = ("1 of 2", "2 of 2") if kind == "tuple" else ("one", "two")
        assert seen.parts == tuple(f"layer 1, {name}" for name in names)


@pytest.mark.parametrize("kind", KINDS)
def test_states_become_numbers_and_come_back(kind: str) -> None:
    model = stack(kind, counts=True)
    _, state = SymbolReader(model).step(torch.tensor([0, 1, 2]), None)
    one = chosen(state, torch.tensor([0]))
    again = unflat(flat(state), one)
    assert type(again[0]) is type(state[0])
    assert torch.equal(flat(again), flat(state))
    assert torch.equal(flat(chosen(state, torch.tensor([2, 0]))), flat(state)[[2, 0]])


def test_a_count_has_no_derivative_and_everything_else_is_looked_at() -> None:
    machine = TASK.machine()
    assert machine is not None
    model = stack("tuple", counts=True)
    reason = "its state holds whole numbers, which do not move by small steps"
    assert growth(model, machine) == reason
    assert affine_steps(SymbolReader(model), machine.symbols) == reason
    seen = survey(model, TASK, machine, [40], TASK.stream(0, "test"), strings=8)
    assert seen.lengths[0].norms[1] == pytest.approx((21 + 40) / 2)
