"""Regular languages by name: a machine that accepts each, and an independent definition.

Tomita 1982, "Dynamic construction of finite-state automata from examples using hill-climbing"; the
others are those that Bhattamishra, Ahuja & Goyal 2020 (arXiv:2009.11264) and later papers ask.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise

DEAD = -1  # in `Language.edges`: no word of the language goes on so

Member = Callable[[str], bool]


@dataclass(frozen=True)
class Language:
    """A language over two letters.

    edges[q][a]: the state after letter a in state q, `DEAD` where no word goes on so; it starts in
    state 0. accepting: states that end a word. member: whether a string is a word, told without the
    machine. period: words have lengths that are multiples of it.
    """

    letters: tuple[str, str]
    edges: tuple[tuple[int, int], ...]
    accepting: frozenset[int]
    member: Member
    period: int = 1
    about: str = ""


def _language(
    about: str,
    edges: list[tuple[int, int]],
    accepting: set[int],
    member: Member | str,
    letters: tuple[str, str] = ("0", "1"),
    period: int = 1,
) -> Language:
    if isinstance(member, str):
        pattern = re.compile(member)
        member = lambda word: pattern.fullmatch(word) is not None  # noqa: E731
    return Language(letters, tuple(edges), frozenset(accepting), member, period, about)


def _no_odd_ones_before_odd_zeros(word: str) -> bool:
    runs = [(letter, len(list(run)) % 2) for letter, run in groupby(word)]
    return ("1", 1) not in [a for a, b in pairwise(runs) if b == ("0", 1)]


_NAMED = {
    "tomita_1": _language("1*", [(DEAD, 0)], {0}, "1*"),
    "tomita_2": _language("(10)*", [(DEAD, 1), (0, DEAD)], {0}, "(10)*", period=2),
    # 0: no run of 1s, or an even one; 1: an odd run of 1s; 2, 3: then an odd, an even run of 0s
    "tomita_3": _language(
        "no odd run of 1s before an odd run of 0s",
        [(0, 1), (2, 0), (3, DEAD), (2, 1)],
        {0, 1, 3},
        _no_odd_ones_before_odd_zeros,
    ),
    "tomita_4": _language(
        "no 000", [(1, 0), (2, 0), (DEAD, 0)], {0, 1, 2}, lambda word: "000" not in word
    ),
    "tomita_5": _language(
        "even numbers of 0s and of 1s",
        [(1, 2), (0, 3), (3, 0), (2, 1)],
        {0},
        lambda word: word.count("0") % 2 == word.count("1") % 2 == 0,
    ),
    "tomita_6": _language(
        "as many 0s as 1s, mod 3",
        [(1, 2), (2, 0), (0, 1)],
        {0},
        lambda word: (word.count("0") - word.count("1")) % 3 == 0,
    ),
    "tomita_7": _language(
        "0*1*0*1*", [(0, 1), (2, 1), (2, 3), (DEAD, 3)], {0, 1, 2, 3}, "0*1*0*1*"
    ),
    "parity": _language(
        "an odd number of 1s", [(0, 1), (1, 0)], {1}, lambda word: word.count("1") % 2 == 1
    ),
    "even_pairs": _language(
        "the last symbol is the first",
        [(1, 3), (1, 2), (1, 2), (4, 3), (4, 3)],
        {1, 3},
        lambda word: word[0] == word[-1],
    ),
    "aa_star": _language("(aa)*", [(1, DEAD), (0, DEAD)], {0}, "(aa)*", ("a", "b"), 2),
    "abab_star": _language(
        "(abab)*",
        [(1, DEAD), (DEAD, 2), (3, DEAD), (DEAD, 0)],
        {0},
        "(abab)*",
        ("a", "b"),
        4,
    ),
    "first": _language(
        "the first symbol is 1", [(2, 1), (1, 1), (2, 2)], {1}, lambda word: word[0] == "1"
    ),
    "repeat_01": _language("(01)*", [(1, DEAD), (DEAD, 0)], {0}, "(01)*", period=2),
}
WITH_NUMBER = ("d_n", "no_long_run")
NAMES = (*_NAMED, *WITH_NUMBER)


def language(name: str, n: int) -> Language:
    """Return the language of a name; `n` is the depth of d_n, the longest run of no_long_run."""
    if name == "d_n":
        return _bounded_brackets(n)
    return _short_runs(n) if name == "no_long_run" else _NAMED[name]


def _bounded_brackets(n: int) -> Language:
    """Balanced brackets of one kind, nested at most n deep: (a (a (... b)* b)* b)*."""
    edges = [(depth + 1 if depth < n else DEAD, depth - 1) for depth in range(n + 1)]
    edges[0] = (1, DEAD)

    def member(word: str) -> bool:
        depths = list(accumulate((1 if letter == "(" else -1 for letter in word), initial=0))
        return depths[-1] == 0 and min(depths) == 0 and max(depths) <= n

    about = f"balanced brackets, at most {n} deep"
    return _language(about, edges, {0}, member, ("(", ")"), 2)


def _short_runs(n: int) -> Language:
    """No symbol more than n times in a row: star-free, and any string may still be spoilt."""
    # state 0: nothing read; 1 + run - 1: a run of 0s; n + run: a run of 1s
    zeros = [(1 + run if run < n else DEAD, n + 1) for run in range(1, n + 1)]
    ones = [(1, n + run + 1 if run < n else DEAD) for run in range(1, n + 1)]
    edges = [(1, n + 1), *zeros, *ones]

    def member(word: str) -> bool:
        return all(len(list(run)) <= n for _, run in groupby(word))

    return _language(f"no run longer than {n}", edges, set(range(2 * n + 1)), member)
