"""Baselines for ListOps that see only the root of an expression, not the nesting below it.

They are fitted on the strings that a model would be trained on, and scored on a split:

    uniform        a random digit
    majority       the commonest value
    root_operator  the commonest value given the root's operator
    root_digits    the commonest value given the root's operator, the digits among its direct
                   arguments (how often each, in any order), and whether other arguments stand
                   among them; given the operator alone where training has no such string
    root_summary   the same with one number for these digits: what the operator makes of them,
                   their least, largest or median, or their sum modulo 10
    root_rule      that number itself, and nothing learnt; where there are no digits as
                   `root_operator`

The value of a string that is a bare digit is that digit. Ties go to the smaller value. The last two
know what operators do; like the others they see no bracket but the root's. Where strings have more
arguments than in training, `root_digits` meets roots that it has never seen; the last two do not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from lrbench.tasks.corpus.recipe import load
from lrbench.tasks.corpus.strings import Strings
from lrbench.tasks.listops.expressions import DIGITS, MAX, MED, MIN, depths
from lrbench.tasks.listops.splits import RECIPE

Key = TypeVar("Key", bound=Hashable)
Root = tuple[int, bytes, bool]  # token at the root, its direct digits, other arguments or not
TRAINED_ON = {"lra": "lra_train", "mix": "mix_train"}  # by the beginning of a split's name


def split_baselines(split: str) -> dict[str, float]:
    """Return the baselines of a split, fitted on what models are trained on for it.

    That is lra_train for the splits of lra, mix_train for those of mix, train for all others.
    Raises UserError where the data have not been made.
    """
    trained_on = TRAINED_ON.get(split.partition("_")[0], "train")
    return baselines(load(RECIPE, trained_on), load(RECIPE, split))


def baselines(fitted: Strings, tested: Strings) -> dict[str, float]:
    """Return the accuracy of each baseline on `tested` after a fit on `fitted`."""
    learnt, shown = list(roots(fitted)), list(roots(tested))
    commonest = _lookup([0] * len(learnt), fitted)[0]
    by_operator = _lookup([root[0] for root in learnt], fitted)
    by_root = _lookup(learnt, fitted)
    by_summary = _lookup(list(map(_summary, learnt)), fitted)
    otherwise = [by_operator.get(root[0], commonest) for root in shown]
    pairs = list(zip(shown, otherwise, strict=True))
    values = [ruled(root) for root in shown]
    answers = {
        "majority": [commonest] * len(shown),
        "root_operator": otherwise,
        "root_digits": [by_root.get(root, guess) for root, guess in pairs],
        "root_summary": [by_summary.get(_summary(root), guess) for root, guess in pairs],
        "root_rule": [
            guess if value is None else value
            for value, guess in zip(values, otherwise, strict=True)
        ],
    }
    accuracies = {name: float((tested.labels == given).mean()) for name, given in answers.items()}
    return {"uniform": 1 / DIGITS, **accuracies}


def ruled(root: Root) -> int | None:
    """Return what a root's operator makes of its direct digits alone, None where it has none."""
    token, digits, _ = root
    if token < DIGITS:
        return token
    if not digits:
        return None
    if token in (MIN, MAX):
        return min(digits) if token == MIN else max(digits)
    if token == MED:
        return (digits[(len(digits) - 1) // 2] + digits[len(digits) // 2]) // 2  # they are sorted
    return sum(digits) % DIGITS


def _summary(root: Root) -> tuple[int, int | None, bool]:
    return root[0], ruled(root), root[2]


def roots(strings: Strings) -> Iterable[Root]:
    """Yield what the root of each string shows."""
    for piece in strings.pieces():
        shown = (depths(piece.tokens) == 1) & (piece.tokens < DIGITS)
        nested = np.maximum.reduceat(depths(piece.tokens), piece.offsets[:-1]) > 1
        digits = piece.tokens[shown].tobytes()
        ends = np.concatenate([[0], np.cumsum(shown)])[piece.offsets].tolist()
        first = piece.tokens[piece.offsets[:-1]].tolist()
        for row, (token, other) in enumerate(zip(first, nested.tolist(), strict=True)):
            yield token, bytes(sorted(digits[ends[row] : ends[row + 1]])), other


def _lookup(keys: Sequence[Key], strings: Strings) -> dict[Key, int]:
    """Return the commonest label of each key."""
    counts: dict[Key, Counter[int]] = defaultdict(Counter)
    for key, label in zip(keys, strings.labels.tolist(), strict=True):
        counts[key][label] += 1
    return {
        key: min(count, key=lambda label: (-count[label], label)) for key, count in counts.items()
    }
