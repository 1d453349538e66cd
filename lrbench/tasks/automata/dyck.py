"""Bounded brackets of several kinds: which may come next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lrbench.checks import between
from lrbench.registry import register_task
from lrbench.tasks.automata.moore import WalkTask
from lrbench.tasks.machine import explored

MOST_STATES = 5000
BRACKETS = ("()", "[]", "{}", "<>")


@dataclass
class DyckConfig:
    """Settings of `dyck`.

    kinds: how many kinds of brackets there are. depth: how deep brackets nest at most.
    """

    name: str = "dyck"
    kinds: int = 2
    depth: int = 4

    def __post_init__(self) -> None:
        between("task.kinds", self.kinds, 1, 50)
        between("task.depth", self.depth, 1, 1000)
        if (states := sum(self.kinds**d for d in range(self.depth + 1))) > MOST_STATES:
            made = f"{states:,}" if states < 10**12 else "more than 10^12"
            raise ValueError(
                f"task.kinds={self.kinds} and task.depth={self.depth} make {made} stacks, more than"
                f" {MOST_STATES:,}\ntake fewer kinds, or a smaller depth"
            )

    @property
    def title(self) -> str:
        """How a table calls it: dyck (2 kinds, depth 4)."""
        return f"{self.name} ({self.kinds} kinds, depth {self.depth})"


@register_task("dyck", DyckConfig, "bounded brackets: which may come next")
class Dyck(WalkTask):
    """Dyck(k, m): k kinds of brackets, at most m deep; the answer is which brackets may come next.

    Each bracket is drawn uniformly from those that are legal; strings are prefixes, and need not
    end balanced. What is legal is told by three things, whose combinations are the 2 k + 1 classes:
    nothing is open; or the innermost open bracket is of kind i, and there is room above it or not.

    Source: Hewitt et al. 2020 (arXiv:2010.07515) for the language. Butoi et al. 2025
    (arXiv:2411.07107) ask whether a whole string is a word, over other strings.
    """

    def __init__(self, config: Any) -> None:
        kinds, depth = config.kinds, config.depth

        def step(stack: tuple[int, ...], symbol: int) -> tuple[int, ...] | None:
            kind, closes = divmod(symbol, 2)
            if closes:
                return stack[:-1] if stack[-1:] == (kind,) else None
            return (*stack, kind) if len(stack) < depth else None

        def answer(stack: tuple[int, ...]) -> int:
            return 1 + 2 * stack[-1] + (len(stack) == depth) if stack else 0

        pairs = BRACKETS if kinds <= len(BRACKETS) else [(f"({i}", f"){i}") for i in range(kinds)]
        self.vocabulary = tuple(half for pair in pairs[:kinds] for half in pair)

        def name(stack: tuple[int, ...]) -> str:
            return "".join(self.vocabulary[2 * kind] for kind in stack) or "empty"

        super().__init__(config, explored((), 2 * kinds, step, answer, name))
        tops = [self.vocabulary[2 * kind] for kind in range(kinds)]
        self.class_names = ("empty", *(f"{t}{full}" for t in tops for full in ("", "|")))

    def oracle(self, tokens: Sequence[int]) -> list[int]:
        """Delete matched pairs from each prefix until none is left: what remains is open."""
        answers = []
        for end in range(1, len(tokens) + 1):
            left = list(tokens[:end])
            while True:
                matches = [i for i in range(len(left) - 1) if self._match(left[i], left[i + 1])]
                if not matches:
                    break
                del left[matches[0] : matches[0] + 2]
            top = (
                f"{self.vocabulary[left[-1]]}{'|' * (len(left) == self.config.depth)}"
                if left
                else ""
            )
            answers.append(self.class_names.index(top or "empty"))
        return answers

    @staticmethod
    def _match(one: int, other: int) -> bool:
        return one % 2 == 0 and other == one + 1

    def chances(self, length: int) -> list[list[float]]:
        """Uniform over the brackets that are legal."""
        found = []
        for row in self._machine.delta:
            legal = sum(to is not None for to in row)
            found.append([0.0 if to is None else 1 / legal for to in row])
        return found
