"""The elements of a group that strings are made of: all, a few that generate it, swaps, random.

The letters of every set must generate the whole group; else some classes would never come.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from lrbench.tasks.groups.algebra import FiniteGroup
from lrbench.tasks.stream import Stream, integers

DRAWS = 1000  # of random letters that generate a subgroup, before that is said


def _all(group: FiniteGroup, arg: int, seed: int) -> list[int]:
    return list(range(group.order))


def _generators(group: FiniteGroup, arg: int, seed: int) -> list[int]:
    return list(group.generators)


def _move_at_most(group: FiniteGroup, arg: int, seed: int) -> list[int]:
    if not group.permutes:
        raise ValueError(
            f"the elements of {group.name} move no points of their own\n"
            "task.letters=swaps and move_at_most are for S2 to S6 and A3 to A6"
        )
    return [element for element in range(group.order) if group.moved(element) <= arg]


def _swaps(group: FiniteGroup, arg: int, seed: int) -> list[int]:
    return _move_at_most(group, 2, seed)


def _random(group: FiniteGroup, arg: int, seed: int) -> list[int]:
    """Draw `arg` elements, the identity never, until they generate the group."""
    if arg >= group.order:
        raise ValueError(
            f"task.letters_arg {arg}: {group.name} has {group.order - 1} elements without the"
            " identity"
        )
    stream, largest = Stream.named(0, "group", "letters", seed), 1
    for step in range(DRAWS):
        words = integers(stream, step, 1, 1, group.order, 1 << 31, "cpu")[0]
        letters = (torch.argsort(words, stable=True)[:arg] + 1).sort().values.tolist()
        largest = max(largest, group.generated(letters))
        if largest == group.order:
            return letters
    raise ValueError(
        f"task.letters_arg {arg} is too few letters for {group.name}, of order {group.order}: of"
        f" {DRAWS:,} draws the best generate a subgroup of order {largest}\n"
        "take a larger task.letters_arg"
    )


# Each set, whether it takes task.letters_arg, and whether the identity is usually in it
SETS: dict[str, tuple[Callable[[FiniteGroup, int, int], list[int]], bool, bool]] = {
    "all": (_all, False, True),
    "generators": (_generators, False, False),
    "swaps": (_swaps, False, True),
    "move_at_most": (_move_at_most, True, True),
    "random": (_random, True, False),
}


def letters_of(
    group: FiniteGroup, letters: str, arg: int | None, seed: int, identity: bool | None
) -> tuple[int, ...]:
    """Return the elements that are letters, in the order of the group but for `generators`.

    Args:
        letters: the name of a set, one of `SETS`.
        arg: how many points a letter of `move_at_most` moves, how many letters `random` draws.
        seed: of the letters that `random` draws.
        identity: whether the identity is a letter, None: as is usual for that set.

    Raises ValueError for a set that the group does not have, or whose letters generate a subgroup
    only.
    """
    chosen, takes_arg, usual = SETS[letters]
    if takes_arg != (arg is not None):
        needs = f"task.letters_arg=3, say, with task.letters={letters}"
        without = f"task.letters_arg is for move_at_most and random, not for {letters}"
        raise ValueError(f"write {needs}" if takes_arg else without)
    found = chosen(group, arg or 0, seed)
    with_identity = usual if identity is None else identity
    found = [0] * with_identity + [element for element in found if element != 0]
    if (order := group.generated(found)) < group.order:
        set_of = letters if arg is None else f"{letters} task.letters_arg={arg}"
        raise ValueError(
            f"the letters of task.letters={set_of} generate a subgroup of order {order} of"
            f" {group.name}, which has {group.order} elements"
        )
    return tuple(found)
