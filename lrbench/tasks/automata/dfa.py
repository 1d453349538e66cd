"""Random deterministic automata: the state that the letters lead to, or whether it accepts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from lrbench.checks import at_least, between, inside, one_of
from lrbench.registry import register_task
from lrbench.tasks.automata.moore import ASKS, UNIT, MooreTask
from lrbench.tasks.automata.random import (
    APERIODIC,
    KINDS,
    MOST_LETTERS,
    MOST_STATES,
    TARGETS,
    RandomAutomaton,
    automaton,
)
from lrbench.tasks.base import IGNORE, Carry, Device
from lrbench.tasks.machine import Drawing, Machine
from lrbench.tasks.stream import Stream, integers

RESET_P = 0.1  # the default, which completion reads below as it is written


@dataclass
class DfaConfig:
    """Settings of `dfa`: how large an automaton, of which kind, and what is asked.

    kind: uniform, permutation, reset or aperiodic. automaton: the seed that it is drawn from,
    whatever the data seed. target: the state, or whether it accepts. reset_p, of kind=reset: how
    likely the letter that resets is. ask: all positions, or the last.

    states: of the automaton. letters: of its alphabet.
    """

    name: str = "dfa"
    states: int = 5
    letters: int = 2
    kind: str = "uniform"
    automaton: int = 0
    target: str = "state"
    reset_p: float = 0.1
    ask: str = "all"

    def __post_init__(self) -> None:
        between("task.states", self.states, 2, MOST_STATES)
        between("task.letters", self.letters, 1, MOST_LETTERS)
        at_least("task.automaton", self.automaton, 0)
        one_of("task.kind", self.kind, KINDS)
        one_of("task.target", self.target, TARGETS)
        one_of("task.ask", self.ask, ASKS)
        if self.kind == "aperiodic" and (self.states > APERIODIC[0] or self.letters > APERIODIC[1]):
            raise ValueError(
                f"task.kind=aperiodic has at most {APERIODIC[0]} states and {APERIODIC[1]} letters,"
                f" not {self.states} and {self.letters}: all maps of its monoid are tried"
            )
        if self.kind == "reset" and self.letters < 2:
            raise ValueError("task.kind=reset needs task.letters=2 or more: one of them resets")
        inside("task.reset_p", self.reset_p, 0, 1)
        if self.kind != "reset" and self.reset_p != RESET_P:
            raise ValueError(f"task.reset_p is for task.kind=reset; {self.kind} has no such letter")
        self.drawn()

    def drawn(self) -> RandomAutomaton:
        """Return the automaton. Raises ValueError where none can be drawn."""
        return automaton(
            self.states, self.letters, self.kind, self.automaton, self.target, self.reset_p
        )

    @property
    def title(self) -> str:
        """How a table calls it: dfa (permutation, 5 states, 2 letters, automaton 0)."""
        parts = [self.kind, f"{self.states} states", f"{self.letters} letters"]
        parts += ["accept"] * (self.target == "accept") + [f"automaton {self.automaton}"]
        return f"{self.name} ({', '.join(parts)})"


@register_task("dfa", DfaConfig, "a random automaton: its state, or whether it accepts")
class Dfa(MooreTask):
    """A random automaton: letters a, b, ...; the answer is the state so far, or if it accepts.

    It starts in state 0 and is drawn once from `task.automaton`; result.json has its table. Of kind
    `uniform` each edge leads anywhere: most forget, as result.json's synchronisation time says.
    `permutation`: each letter permutes the states, nothing is ever forgotten, and most generate
    A_n or S_n. `reset`: permutations, and one letter that leads to a fixed state. `aperiodic`: no
    word permutes states in a cycle, so the language is star-free. Letters are uniform but for the
    reset, which comes with probability `task.reset_p`.
    """

    def __init__(self, config: Any) -> None:
        self.automaton: RandomAutomaton = config.drawn()
        n, k = self.automaton.table.shape
        by_state = config.target == "state"
        answers = range(n) if by_state else map(int, self.automaton.accepting)
        names = tuple(map(str, range(n)))
        edges = tuple(map(tuple, self.automaton.table.tolist()))
        super().__init__(config, Machine(names, 0, edges, tuple(answers)), config.ask)
        alphabet = "abcdefghijklmnopqrstuvwxyz"
        self.vocabulary = tuple(alphabet[a] if k <= len(alphabet) else f"a{a}" for a in range(k))
        self.class_names = names if by_state else ("rejects", "accepts")

    @property
    def uniform_letters(self) -> bool:
        """Whether none of them resets: that one has a chance of its own."""
        return bool(self.config.kind != "reset")

    def drawing(self, length: int) -> Drawing:
        """Uniform letters; the last one resets where there is one."""
        chances = self._machine.evenly()
        if self.config.kind == "reset":
            chances[:, :-1] = (1 - self.config.reset_p) / (self._machine.symbols - 1)
            chances[:, -1] = self.config.reset_p
        return self._drawn(length, (length, chances))

    def drawn(self) -> dict[str, Any]:
        """Return the automaton, as result.json says it."""
        return self.automaton.record()

    def oracle(self, tokens: Sequence[int]) -> list[int]:
        """Go through each prefix from the start."""
        rows, answers = self.automaton.record(), []
        for end in range(1, len(tokens) + 1):
            state = rows["start"]
            for token in tokens[:end]:
                state = rows["table"][state][token]
            accepts = int(state in rows["accepting"])
            answers.append(state if self.config.target == "state" else accepts)
        return answers if self.asks == "all" else [IGNORE] * (len(answers) - 1) + answers[-1:]

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
        """Draw uniform letters; where one resets, a word that falls in its share is that one."""
        if self.config.kind != "reset":
            return super()._letters(stream, step, rows, start, stop, length, device, carry)
        words = integers(stream, step, rows, start, stop, UNIT, device)
        rest, share = self._machine.symbols - 1, round((1 - self.config.reset_p) * UNIT)
        letters: Tensor = (words * rest // share).clamp_(max=rest)
        return letters
