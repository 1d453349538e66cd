"""Membership in named regular languages, of every prefix of strings that stay alive for a while."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lrbench.checks import between, one_of
from lrbench.registry import register_task
from lrbench.tasks.automata.languages import DEAD, NAMES, WITH_NUMBER, language
from lrbench.tasks.automata.moore import WalkTask
from lrbench.tasks.machine import Machine

N = 2  # the default, which completion reads below as it is written
MOST = 100


@dataclass
class RegularConfig:
    """Settings of `regular`.

    language: which language strings are in or not. n: the depth of d_n, or the longest run of
    no_long_run; other languages have none.
    """

    name: str = "regular"
    language: str = "tomita_5"
    n: int = 2

    def __post_init__(self) -> None:
        one_of("task.language", self.language, NAMES)
        between("task.n", self.n, 1, MOST)
        if self.language not in WITH_NUMBER and self.n != N:
            raise ValueError(f"task.n is for {' and '.join(WITH_NUMBER)}, not for {self.language}")

    @property
    def title(self) -> str:
        """How a table calls it: regular (tomita_5), regular (d_n, n = 3)."""
        number = f", n = {self.n}" if self.language in WITH_NUMBER else ""
        return f"{self.name} ({self.language}{number})"


@register_task("regular", RegularConfig, "words of a regular language: Tomita 1-7 and others")
class Regular(WalkTask):
    """Is the string so far a word of the language `task.language`? Asked at every position.

    The languages are Tomita's 1 to 7, parity, even_pairs, first, (aa)*, (abab)*, (01)*, brackets of
    bounded depth (`d_n`), and strings without a long run (`no_long_run`).

    Of uniform letters nearly all long strings have left most of these languages for good, and one
    answer is right at every position. So where only one letter leads to words at all, strings of
    length L take the other with probability 1/L; all other letters are uniform. Such strings depend
    on their length, and more than a third of them is still alive at the end. A language whose words
    have lengths that are multiples of 2 or 4 has strings of such lengths only.
    """

    def __init__(self, config: Any) -> None:
        self.language = chosen = language(config.language, config.n)
        dead = len(chosen.edges)
        alive = [tuple(dead if to == DEAD else to for to in row) for row in chosen.edges]
        edges = (*alive, (dead, dead))
        words = tuple(int(state in chosen.accepting) for state in range(dead + 1))
        names = (*(f"q{state}" for state in range(dead)), "lost")
        if not any(DEAD in row for row in chosen.edges):
            edges, words, names = edges[:-1], words[:-1], names[:-1]
        super().__init__(config, Machine(names, 0, edges, words))
        self.vocabulary, self.class_names = chosen.letters, ("no", "word")
        if chosen.period > 1:
            self.length_rule = f"lengths that are multiples of {chosen.period}"  # type: ignore[misc]

    def valid_length(self, length: int) -> bool:
        """Whether words of the language may have this length."""
        return length >= 1 and length % self.language.period == 0

    def oracle(self, tokens: Sequence[int]) -> list[int]:
        """Ask of each prefix whether it is a word, without the machine."""
        text = "".join(self.vocabulary[token] for token in tokens)
        return [int(self.language.member(text[:end])) for end in range(1, len(text) + 1)]

    def chances(self, length: int) -> list[tuple[float, float]]:
        """1/length for the letter that no word goes on with, half for any other."""
        found = []
        for row in self.language.edges:
            lost = [to == DEAD for to in row]
            if any(lost):
                found.append(
                    (1 / length, 1 - 1 / length) if lost[0] else (1 - 1 / length, 1 / length)
                )
            else:
                found.append((0.5, 0.5))
        return found + [(0.5, 0.5)] * (self._machine.states - len(found))
