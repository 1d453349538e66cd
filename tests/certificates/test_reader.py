"""Models that cannot be read symbol by symbol, or of which nothing can be told."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lrbench.certificates.reader import SymbolReader
from lrbench.certificates.witness import search
from lrbench.diagnosis.states import survey
from lrbench.errors import UserError
from lrbench.registry import TASKS
from lrbench.tasks import make_task
from tests.mixers.kinds_of_state import Halves, stack

TASK = make_task(TASKS.get("sum").config(modulus=3))


class Odd(nn.Module):
    """Logits of a model, with what `change` makes of them."""

    def __init__(self, change: Any) -> None:
        super().__init__()
        self.model, self.change = stack("tuple"), change
        self.state_size = self.model.state_size

    def forward(self, tokens: Tensor, state: Any = None, **how: Any) -> tuple[Any, Any]:
        logits, after = self.model(tokens, state, **how)
        return self.change(logits), after


@pytest.mark.parametrize(
    "change",
    [
        lambda logits: logits + torch.randn_like(logits),
        lambda logits: logits - logits.mean(0, keepdim=True) / 2,
    ],
)
def test_answers_by_chance_or_company_are_refused(change: Any) -> None:
    machine = TASK.machine()
    assert machine is not None
    model = Odd(change)
    for look in (
        lambda: search(model, machine),
        lambda: survey(model, TASK, machine, [5], TASK.stream(0, "test")),
    ):
        with pytest.raises(
            UserError, match="when the string is read again, or beside other strings"
        ):
            look()


@pytest.mark.parametrize(
    "change",
    [
        lambda logits: logits,
        lambda logits: logits * torch.nan,
        lambda logits: logits * torch.inf,
        lambda logits: logits + 1e-5 * torch.randn_like(logits),
        lambda logits: logits * 1e37,
    ],
)
def test_what_rounds_or_overflows_is_read(change: Any) -> None:
    machine = TASK.machine()
    assert machine is not None
    SymbolReader(Odd(change)).check_that_strings_stand_alone(machine)


def test_what_takes_several_symbols_at_a_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Halves, "length_multiple", 4)
    with pytest.raises(UserError, match="mixer Halves reads 4 symbols at a time"):
        SymbolReader(stack("tuple"))
