"""Word problems of finite groups: the product of the letters so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lrbench.checks import at_least, one_of
from lrbench.registry import register_task
from lrbench.tasks.automata.moore import ASKS, MooreTask
from lrbench.tasks.base import IGNORE
from lrbench.tasks.groups.algebra import FiniteGroup, group
from lrbench.tasks.groups.letters import letters_of
from lrbench.tasks.machine import Machine


@dataclass
class GroupConfig:
    """Settings of `group`: which group, which of its elements are letters, what is asked.

    group: such as S3, A5, Z60, D5, A4xZ5. letters: all, generators, swaps (at most two points
    move), move_at_most `letters_arg` points, or `letters_arg` random ones (drawn with
    `letters_seed`). identity: whether the identity is a letter; null: in all, swaps and
    move_at_most. ask: all positions, or the last.
    """

    name: str = "group"
    group: str = "A5"
    letters: str = "all"
    letters_arg: int | None = None
    letters_seed: int = 0
    identity: bool | None = None
    ask: str = "all"

    def __post_init__(self) -> None:
        at_least("task.letters_arg", self.letters_arg, 1)
        at_least("task.letters_seed", self.letters_seed, 0)
        one_of("task.ask", self.ask, ASKS)
        self.chosen()

    def chosen(self) -> tuple[FiniteGroup, tuple[int, ...]]:
        """Return the group and the letters, as indices of elements. Raises ValueError."""
        made = group(self.group)
        kind, arg, seed = self.letters, self.letters_arg, self.letters_seed
        return made, letters_of(made, kind, arg, seed, self.identity)

    @property
    def title(self) -> str:
        """How a table calls it: group (A5), group (S5, swaps)."""
        parts = [self.group]
        if self.letters != "all":
            parts.append(" ".join(map(str, filter(None, (self.letters, self.letters_arg)))))
        return f"{self.name} ({', '.join(parts)})"


@register_task("group", GroupConfig, "word problem of a group: the product so far")
class Group(MooreTask):
    """A word problem: letters are elements of a group, uniform; the answer is their product so far.

    The answer at position k is y_k = y_(k-1) x_k with y_0 = e: a letter multiplies on the right, so
    that x_k acts first on points. Classes are all elements, even where few are letters.

    Sources: Merrill, Petty & Sabharwal 2024, "The illusion of state in state-space models"
    (arXiv:2404.08819), all letters of Z60, A4xZ5 and A5; Grazzi et al. 2025 (arXiv:2411.12537) and
    Siems et al. 2025 (arXiv:2502.10297) with all letters, and swaps, of S5. Their strings begin
    with a symbol that is an answer too. Elements are in the order of lrbench/tasks/groups/algebra:
    theirs differs by a renaming that no model sees.
    """

    def __init__(self, config: Any) -> None:
        self.group, self.letters = config.chosen()
        edges = self.group.table[:, list(self.letters)].tolist()
        elements = tuple(range(self.group.order))
        machine = Machine(self.group.names, 0, tuple(map(tuple, edges)), elements)
        super().__init__(config, machine, config.ask)
        self.vocabulary = tuple(self.group.names[letter] for letter in self.letters)
        self.class_names = self.group.names

    def spelled(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Permutations as cycles; the files of runs keep one-line notation."""
        elements = tuple(map(self.group.written, range(self.group.order)))
        return tuple(elements[letter] for letter in self.letters), elements

    def oracle(self, tokens: Sequence[int]) -> list[int]:
        """Follow each point through the letters, the last one first; the table is not asked."""
        moves = self.group.moves
        element = {move: index for index, move in enumerate(moves)}
        product, answers = moves[0], []
        for token in tokens:
            product = tuple(product[point] for point in moves[self.letters[token]])
            answers.append(element[product])
        return answers if self.asks == "all" else [IGNORE] * (len(answers) - 1) + answers[-1:]
