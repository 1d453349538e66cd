"""Word problems of finite groups: the product of the letters so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lrbench.checks import at_least, one_of, only_with
from lrbench.records import added
from lrbench.registry import register_task
from lrbench.tasks.automata.moore import ASKS, MooreTask
from lrbench.tasks.base import IGNORE, Batch, Carry, Device, LabelledTask
from lrbench.tasks.groups.algebra import FiniteGroup, group
from lrbench.tasks.groups.letters import SETS, letters_of
from lrbench.tasks.machine import Drawing, Machine, explored
from lrbench.tasks.stream import Stream, integers

VIEWS = ("product", "cup")
START = "[BOS]"  # the start symbol, and its answer


@dataclass
class GroupConfig:
    """Settings of `group`: which group, which of its elements are letters, what is asked.

    group: such as S3, A5, Z60, D5, A4xZ5. letters: all, generators, swaps (at most two points
    move), move_at_most `letters_arg` points, or `letters_arg` random ones (drawn with
    `letters_seed`). identity: whether the identity is a letter; null: in all, swaps and
    move_at_most. ask: all positions, or the last. view: product, or cup: a last symbol names a cup,
    and the answer is the place where it is. start_symbol: whether strings begin with a symbol that
    is an answer too, as in the sources.

    letters_arg: the number that `letters` needs, of points or of letters. letters_seed: the seed
    that random letters are drawn with.
    """

    name: str = "group"
    group: str = "A5"
    letters: str = "all"
    letters_arg: int | None = None
    letters_seed: int = 0
    identity: bool | None = None
    ask: str = "all"
    view: str = added("product")
    start_symbol: bool = added(False)

    def __post_init__(self) -> None:
        one_of("task.letters", self.letters, tuple(SETS))
        at_least("task.letters_arg", self.letters_arg, 1)
        at_least("task.letters_seed", self.letters_seed, 0)
        drawn, own = self.letters == "random", type(self).letters_seed
        only_with("task.letters_seed", self.letters_seed, own, drawn, "task.letters=random")
        one_of("task.ask", self.ask, ASKS)
        one_of("task.view", self.view, VIEWS)
        made, _ = self.chosen()
        if self.view == "cup" and not made.permutes:
            raise ValueError(
                f"task.view=cup: the elements of {made.name} move no cups\n"
                "it is for S2 to S6 and A3 to A6"
            )

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
        parts += ["cup"] * (self.view == "cup") + ["start symbol"] * self.start_symbol
        return f"{self.name} ({', '.join(parts)})"


@register_task("group", GroupConfig, "word problem of a group: the product so far")
class Group(MooreTask):
    """A word problem: letters are elements of a group, uniform; the answer is their product so far.

    The answer at position k is y_k = y_(k-1) x_k with y_0 = e: a letter multiplies on the right, so
    that x_k acts first on points. Classes are all elements, even where few are letters.

    Sources: Merrill, Petty & Sabharwal 2024, "The illusion of state in state-space models"
    (arXiv:2404.08819), all letters of Z60, A4xZ5 and A5; Grazzi et al. 2025 (arXiv:2411.12537) and
    Siems et al. 2025 (arXiv:2502.10297) with all letters, and swaps, of S5. Their strings begin
    with a symbol that is an answer too (`start_symbol`): one answer in length + 1 is free. Elements
    are in the order of lrbench/tasks/groups/algebra: theirs differs by a renaming that no model
    sees.

    `view=cup` is the game of swapped cups: letters move the points, then a symbol names one of
    them, i, and the answer is y_T(i), one class a point. Nothing else is asked.
    """

    def __init__(self, config: Any) -> None:
        self.group, self.letters = config.chosen()
        self.starts: bool = config.start_symbol
        self.cups = len(self.group.moves[0]) if config.view == "cup" else 0
        super().__init__(config, self._views(config.ask), "all" if self.cups else config.ask)
        self.by_position = self.by_position and not self.cups
        points = tuple(f"cup {point}" for point in range(self.cups))
        names = self.group.names
        letters = tuple(names[letter] for letter in self.letters)
        self.vocabulary = (*letters, *points, *(START,) * self.starts)
        places = tuple(f"place {point}" for point in range(self.cups))
        self.class_names = places or (*names, *(START,) * self.starts)

    @property
    def uniform_letters(self) -> bool:
        """Whether no cup is named, which any letter might stand in the place of."""
        return not self.cups

    def positions(self, length: int) -> int:
        """The start symbol, the letters, the cup."""
        return self.starts + length + bool(self.cups)

    def last_read(self, length: int) -> int:
        """The last letter: the cup is the question."""
        return self.starts + length - 1

    def drawing(self, length: int) -> Drawing:
        """The start symbol, uniform letters, a uniform cup."""
        evenly, letters = self._machine.evenly, len(self.letters)
        points = range(letters, letters + self.cups)
        return self._drawn(
            length,
            (int(self.starts), evenly((letters + self.cups,))),
            (length, evenly(range(letters))),
            (int(bool(self.cups)), evenly(points)),
        )

    def _views(self, asks: str) -> Machine:
        """Return the automaton: the group's elements, what stands before them, and answers.

        A start symbol has an answer where each position has; it alone is no string.
        """
        table, letters, cups = self.group.table, len(self.letters), self.cups
        if not self.starts and not cups:
            edges = table[:, list(self.letters)].tolist()
            elements = tuple(range(self.group.order))
            return Machine(self.group.names, 0, tuple(map(tuple, edges)), elements)

        def step(state: tuple[str, int], symbol: int) -> tuple[str, int] | None:
            kind, at = state
            if kind == "nothing" and self.starts:
                return ("begun", 0) if symbol == letters + cups else None
            if kind == "place" or symbol == letters + cups:
                return None
            if symbol < letters:
                return "read", int(table[at, self.letters[symbol]])
            return ("place", self.group.moves[at][symbol - letters]) if kind == "read" else None

        def answer(state: tuple[str, int]) -> int | None:
            kind, at = state
            if cups:
                return at if kind == "place" else None
            if kind == "read":
                return at
            return self.group.order if kind == "begun" and asks == "all" else None

        def name(state: tuple[str, int]) -> str:
            kind, at = state
            return self.group.names[at] if kind == "read" else kind + f" {at}" * (kind == "place")

        symbols = letters + cups + self.starts
        return explored(("nothing", 0), symbols, step, answer, name)

    def of_lengths(
        self, stream: Stream, step: int, lengths: Sequence[int], device: Device
    ) -> Batch:
        """Draw rows of the longest; a string that ends in a cup is no beginning of a longer one."""
        if self.cups:
            return LabelledTask.of_lengths(self, stream, step, lengths, device)
        return super().of_lengths(stream, step, lengths, device)

    def _letters(
        self,
        stream: Stream,
        step: int | range,
        rows: int,
        start: int,
        stop: int,
        length: int,
        device: Device,
        carry: Carry | None,
    ) -> Tensor:
        """Draw letters, the same ones in all views, between the start symbol and the cup."""
        letters, end = len(self.letters), length - bool(self.cups)
        first, last = max(start - self.starts, 0), min(stop, end) - self.starts
        parts = [integers(stream, step, rows, first, max(last, first), letters, device)]
        if self.starts and start == 0:
            parts.insert(0, parts[0].new_full((len(parts[0]), 1), letters + self.cups))
        if self.cups and stop > end:
            cup = integers(stream.fold("cup"), step, rows, 0, 1, self.cups, device)
            parts.append(letters + cup)
        return torch.cat(parts, 1)

    def spelled(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Permutations as cycles; the files of runs keep one-line notation."""
        written = {name: self.group.written(at) for at, name in enumerate(self.group.names)}
        symbols, classes = (
            tuple(written.get(name, name) for name in names)
            for names in (self.vocabulary, self.class_names)
        )
        return symbols, classes

    def oracle(self, tokens: Sequence[int]) -> list[int]:
        """Follow each point through the letters, the last one first; the table is not asked."""
        moves = self.group.moves
        element = {move: index for index, move in enumerate(moves)}
        letters = tokens[self.starts : len(tokens) - bool(self.cups)]
        product, answers = moves[0], []
        for token in letters:
            product = tuple(product[point] for point in moves[self.letters[token]])
            answers.append(element[product])
        if self.cups:
            return [IGNORE] * (len(tokens) - 1) + [product[tokens[-1] - len(self.letters)]]
        answers = [len(moves)] * self.starts + answers
        return answers if self.asks == "all" else [IGNORE] * (len(answers) - 1) + answers[-1:]
