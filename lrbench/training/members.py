"""How the members of a group are trained: side by side on CPU cores, as one program on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lrbench.errors import Interrupted
from lrbench.training.side_by_side import SideBySide, cores_for
from lrbench.training.stacked import Stacked, stackable
from lrbench.training.trial import Trial


class OneProgram(SideBySide):
    """Updates all members at once; whenever one has left, the others are stacked anew."""

    def __init__(self) -> None:
        super().__init__(1)
        self._stack: Stacked | None = None

    def update(self, trials: Sequence[Trial]) -> list[Any]:
        try:
            if self._stack is None or self._stack.trials != list(trials):
                if self._stack is not None:
                    self._stack.dissolve()
                self._stack = Stacked(trials)
            self._stack.update()
        except Interrupted:
            raise
        except Exception as error:  # it was one program: all of them failed
            return [error] * len(trials)
        return [None] * len(trials)


def members_for(trials: Sequence[Trial], tell: Callable[[str], None]) -> SideBySide:
    """Return the way to train these trials; `tell` is told why they cannot be one program."""
    first = trials[0]
    if first.device.type == "cuda":
        reason = stackable(first)
        if not reason:
            return OneProgram()
        if len(trials) > 1:
            tell(f"trained one after the other: {reason}")
    threads = first.config.threads
    return SideBySide(cores_for(len(trials), threads, first.device), threads)
