"""How one number is taken from a run: which of its looks is believed.

What the rules are is up to the protocol (its declaration has their legends). Each rule keeps the
checkpoint of its look; on equal scores the earlier look stays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from lrbench.records import Look


class Rules(ABC):
    """The look each rule believes so far: a dict {rule: look}."""

    def __init__(self, kept: dict[str, Look] | None = None) -> None:
        self.kept: dict[str, Look] = dict(kept or {})

    @abstractmethod
    def consider(self, look: Look) -> list[str]:
        """Weigh a new look; return the rules that now believe it."""

    def steps(self) -> dict[str, int]:
        """Return the update at which each rule's look was taken."""
        return {rule: look["step"] for rule, look in self.kept.items()}

    def state(self) -> dict[str, Look]:
        """Return what a checkpoint keeps."""
        return dict(self.kept)
