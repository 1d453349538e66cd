"""Finite groups by name: elements in a fixed order, their products, how they move points.

The grammar is Z<n> (also C<n>), D<n> of order 2n, S<n>, A<n>, and products joined by x: A4xZ5.
The order of elements is a contract, because letters and classes are indices into it. Z<n>: 0 to
n - 1. S<n> and A<n>: permutations of 0 to n - 1 in one-line notation, in lexicographic order (of
A<n> the even ones). D<n>: n f + r is r^r s^f. G x H: i |H| + j. The identity is 0 in all of them.
Products of permutations are maps, (p q)(i) = p(q(i)), as in jopetty/abstract_algebra.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import permutations
from math import factorial, prod

import numpy as np
from numpy.typing import NDArray

from lrbench.checks import shown

LARGEST = 1024  # elements; a table of products is then a million numbers
MOST_POINTS = 6  # of S<n> and A<n>: 720 classes

Points = tuple[int, ...]  # where each point goes: a permutation in one-line notation

_FACTOR = re.compile(r"([ZCDSA])(\d{1,4})")
_GRAMMAR = (
    "it must be Z2 to Z1024, D2 to D512, S2 to S6, A3 to A6, or a product such as A4xZ5,"
    f" of at most {LARGEST:,} elements"
)


@dataclass(frozen=True, eq=False)
class FiniteGroup:
    """A group of m elements, the identity first.

    names: how each is written. table[i, j]: the element i j, (m, m) int64. moves[i]: the
    permutation of some points that element i is; different elements move them differently, and
    moves[table[i, j]][p] = moves[i][moves[j][p]]. permutes: the n of S<n> and A<n>, whose elements
    are permutations of n points in themselves; 0 of other groups. generators: a short list of
    elements that generate it, the customary ones.
    """

    name: str
    names: tuple[str, ...]
    table: NDArray[np.int64]
    moves: tuple[Points, ...]
    permutes: int
    generators: tuple[int, ...]

    @property
    def order(self) -> int:
        """How many elements there are."""
        return len(self.names)

    def moved(self, element: int) -> int:
        """Return how many points an element moves."""
        return sum(to != point for point, to in enumerate(self.moves[element]))

    def written(self, element: int) -> str:
        """Return an element as a person would write it: a permutation as its cycles, or "e"."""
        return cycles(self.moves[element]) if self.permutes else self.names[element]

    def generated(self, letters: Sequence[int]) -> int:
        """Return the order of the subgroup that some elements generate."""
        seen = {0}
        found = [0]
        for element in found:  # grows as elements are found
            for to in self.table[element, list(letters)].tolist():
                if to not in seen:
                    seen.add(to)
                    found.append(to)
        return len(found)


@lru_cache(maxsize=8)
def group(name: str) -> FiniteGroup:
    """Return the group of a name. Raises ValueError for a name that no group has."""
    parts = [_FACTOR.fullmatch(part) for part in name.split("x")]
    kinds = [(part[1].replace("C", "Z"), int(part[2])) for part in parts if part]
    least = {"Z": 2, "D": 2, "S": 2, "A": 3}
    if len(kinds) < len(parts) or any(n < least[kind] for kind, n in kinds):
        raise ValueError(f"task.group '{shown(name)}' is no group here\n{_GRAMMAR}")
    if any(kind in "SA" and n > MOST_POINTS for kind, n in kinds):
        raise ValueError(
            f"task.group '{shown(name)}' is too large: S and A go up to {MOST_POINTS} points\n"
            f"{_GRAMMAR}"
        )
    if (order := prod(_order(kind, n) for kind, n in kinds)) > LARGEST:
        raise ValueError(f"task.group '{shown(name)}' has {order:,} elements\n{_GRAMMAR}")
    made = {"Z": _cyclic, "D": _dihedral, "S": _symmetric, "A": _alternating}
    return reduce(_product, (made[kind](n) for kind, n in kinds))


def _order(kind: str, n: int) -> int:
    return {"Z": n, "D": 2 * n}.get(kind) or factorial(n) // (1 if kind == "S" else 2)


def _cyclic(n: int) -> FiniteGroup:
    numbers = np.arange(n)
    return FiniteGroup(
        f"Z{n}",
        tuple(map(str, range(n))),
        (numbers[:, None] + numbers) % n,
        tuple(tuple((i + p) % n for p in range(n)) for i in range(n)),
        0,
        (1,),
    )


def _dihedral(n: int) -> FiniteGroup:
    """(r, f)(r', f') = (r + (-1)^f r', f xor f'), moving the points of two n-gons.

    On one n-gon alone D2 would not be told from Z2: turns by r and by -r are the same there.
    """
    flip, turn = np.divmod(np.arange(2 * n), n)
    sign = 1 - 2 * flip
    turns = (turn[:, None] + sign[:, None] * turn) % n
    names = [_power(r) + "s" * f for f in range(2) for r in range(n)]
    moves = [
        tuple((r + (1 - 2 * f) * p) % n + n * (side ^ f) for side in range(2) for p in range(n))
        for f in range(2)
        for r in range(n)
    ]
    table = turns + n * (flip[:, None] ^ flip)
    return FiniteGroup(f"D{n}", ("e", *names[1:]), table, tuple(moves), 0, (1, n))


def _power(r: int) -> str:
    return ("", "r")[r] if r < 2 else f"r{r}"


def _symmetric(n: int) -> FiniteGroup:
    swap = (1, 0, *range(2, n))
    return _of_permutations(f"S{n}", list(permutations(range(n))), [swap, _cycle(n, 0)])


def _alternating(n: int) -> FiniteGroup:
    """A5 is generated as in IBM/selective-dense-state-space-model, the others by two cycles."""
    even = [p for p in permutations(range(n)) if _is_even(p)]
    pair = [(1, 2, 0, *range(3, n)), _cycle(n, 0 if n % 2 else 1)]
    return _of_permutations(f"A{n}", even, [(1, 2, 3, 4, 0), (1, 0, 3, 2, 4)] if n == 5 else pair)


def _of_permutations(name: str, elements: list[Points], generators: list[Points]) -> FiniteGroup:
    n = len(elements[0])
    lines = np.array(elements)
    code = lines @ (n ** np.arange(n - 1, -1, -1))  # increases as the order is lexicographic
    products = lines[:, lines] @ (n ** np.arange(n - 1, -1, -1))  # [i, j, p] = p_i(p_j(p))
    return FiniteGroup(
        name,
        tuple("".join(map(str, p)) for p in elements),
        np.searchsorted(code, products),
        tuple(elements),
        n,
        tuple(dict.fromkeys(elements.index(p) for p in generators)),
    )


def _product(one: FiniteGroup, other: FiniteGroup) -> FiniteGroup:
    left, right = np.divmod(np.arange(one.order * other.order), other.order)
    table = one.table[left[:, None], left] * other.order + other.table[right[:, None], right]
    points = len(one.moves[0])
    bare = [name.removeprefix("(").removesuffix(")") for name in one.names]
    return FiniteGroup(
        f"{one.name}x{other.name}",
        tuple(f"({a},{b})" for a in bare for b in other.names),
        table,
        tuple((*a, *(points + p for p in b)) for a in one.moves for b in other.moves),
        0,
        (*(g * other.order for g in one.generators), *other.generators),
    )


def cycles(moves: Points) -> str:
    """Return a permutation of at most ten points in cycle notation: "(012)(34)", or "e"."""
    text, seen = "", set[int]()
    for first in range(len(moves)):
        cycle, point = "", first
        while point not in seen:
            seen.add(point)
            cycle, point = f"{cycle}{point}", moves[point]
        text += f"({cycle})" if len(cycle) > 1 else ""
    return text or "e"


def _cycle(n: int, first: int) -> Points:
    """Return the cycle first -> first + 1 -> ... -> n - 1 -> first."""
    return (*range(first), *range(first + 1, n), first)


def _is_even(p: Points) -> bool:
    return sum(p[i] > p[j] for j in range(len(p)) for i in range(j)) % 2 == 0
