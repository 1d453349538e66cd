"""The task's automaton as exact weights need it (`init=exact`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

EXACT = "model.mixer.init=exact"


class StateMachine(Protocol):
    """What is needed of a task's machine (lrbench/tasks/machine.py)."""

    @property
    def start(self) -> int:
        """The state before the first symbol."""

    @property
    def delta(self) -> Sequence[Sequence[int | None]]:
        """The state after each symbol in each state; None where no valid string goes on so."""

    @property
    def answers(self) -> Sequence[int | None]:
        """The class asked in each state, None where nothing is asked."""


def need(key: str, there: int, needed: int, why: str) -> None:
    """Raise ValueError unless a size, the field `key`, is at least what is needed."""
    if there < needed:
        raise ValueError(f"{EXACT} needs {key} of at least {needed} here ({why}), not {there}")
