"""Expressions in brackets modulo 5: their value, or the digit that makes an equation right.

An expression of n symbols is, for n = 1 to 4, d, -d, (d), (-d) with a digit d; from n = 5 on it is
( A op B ), where A has 1 to n - 4 symbols, all as likely, and B the rest. Random words stand by
position, and each is used once: that of an opening bracket chooses the length of A, that of an
operator the operator, that of a digit the digit. So nodes of one depth, of all strings, are drawn
together, and evaluated together.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from lrbench.registry import register_task
from lrbench.tasks.chomsky.slots import (
    DIGITS,
    TIMES,
    OneAnswer,
    QueryConfig,
    below,
    words,
)
from lrbench.tasks.stream import Stream

Numbers = NDArray[np.int64]

MODULUS = 5
PLUS, MINUS, PRODUCT, OPEN, CLOSE, UNKNOWN, EQUALS = range(MODULUS, MODULUS + 7)


def drawn(word: Numbers, operators: int) -> Numbers:
    """Return expressions (N, n) made of random words (N, n).

    Operators are the first `operators` of plus, minus and times. Symbols are digits and the
    constants of this module.
    """
    rows, length = word.shape
    symbols: Numbers = below(word, MODULUS)
    flat, word = symbols.reshape(-1), word.reshape(-1)
    start, size = np.arange(rows) * length, np.full(rows, length)
    small: list[tuple[Numbers, Numbers]] = []
    while len(start):
        ends = size < 5
        small.append((start[ends], size[ends]))
        start, size = start[~ends], size[~ends]
        left = 1 + below(word[start], size - 4)
        middle = start + 1 + left
        flat[start], flat[start + size - 1] = OPEN, CLOSE
        flat[middle] = PLUS + below(word[middle], operators)
        start, size = (
            np.concatenate((start + 1, middle + 1)),
            np.concatenate((left, size - 3 - left)),
        )
    start, size = (np.concatenate(parts) for parts in zip(*small, strict=True))
    bracketed, negative = size >= 3, size % 2 == 0
    flat[start[bracketed]], flat[(start + size - 1)[bracketed]] = OPEN, CLOSE
    flat[(start + bracketed)[negative]] = MINUS
    return symbols


def values(symbols: Numbers) -> Numbers:
    """Return the values mod 5 of expressions (N, n): brackets from the inside out, all at once."""
    rows, length = symbols.shape
    opens, closes = symbols == OPEN, symbols == CLOSE
    operators = (symbols >= PLUS) & (symbols <= PRODUCT)
    operand_before = np.zeros_like(opens)
    operand_before[:, 1:] = (symbols < MODULUS)[:, :-1] | closes[:, :-1]
    depth = np.cumsum(opens.astype(np.int64) - closes, 1)
    deepest = int(depth.max(initial=0)) + 1
    # an operand's value is kept at its first symbol: a digit, a minus before it, or a bracket
    value = symbols.reshape(-1).copy()
    signs = np.flatnonzero(operators & ~operand_before)
    value[signs] = -value[signs + 1]
    # brackets and operators by row and depth: an operator follows the bracket that it belongs to
    positions = np.flatnonzero(opens | (operators & operand_before))
    levels = depth.reshape(-1)[positions]
    order = np.argsort(positions // length * deepest + levels, kind="stable")
    positions, levels = positions[order], levels[order]
    is_open = symbols.reshape(-1)[positions] == OPEN
    following = np.append(positions[1:], 0)
    joins = is_open & ~np.append(is_open[1:], True)  # (d) and (-d) have no operator
    middle = np.where(joins, following, -1)[is_open]
    positions, levels = positions[is_open], levels[is_open]
    inwards = np.argsort(-levels, kind="stable")
    bounds = np.cumsum(np.bincount(deepest - levels, minlength=deepest + 1))
    flat = symbols.reshape(-1)
    for first, last in itertools.pairwise(bounds):
        mine = inwards[first:last]
        if not len(mine):
            continue
        place, between = positions[mine], middle[mine]
        left, right, operator = value[place + 1], value[between + 1], flat[between]
        joined = np.where(
            operator == PRODUCT, left * right, left + np.where(operator == PLUS, right, -right)
        )
        value[place] = np.where(between < 0, left, joined) % MODULUS
    found: Numbers = value[np.arange(rows) * length] % MODULUS
    return found


def value_of(symbols: Sequence[int]) -> int:
    """Return the value mod 5 of one expression, by recursive descent. The slow truth."""
    value, end = _operand(symbols, 0)
    if end != len(symbols):
        raise ValueError(f"symbol {end} of {len(symbols)} goes on behind the expression")
    return value % MODULUS


def _operand(symbols: Sequence[int], at: int) -> tuple[int, int]:
    """Return the value of the operand that begins at `at`, and where it ends."""
    first = symbols[at]
    if first < MODULUS:
        return first, at + 1
    if first == MINUS:
        return -symbols[at + 1], at + 2
    left, at = _operand(symbols, at + 1)
    if symbols[at] == CLOSE:
        return left, at + 1
    operator = symbols[at]
    right, at = _operand(symbols, at + 1)
    joined = {PLUS: left + right, MINUS: left - right, PRODUCT: left * right}
    return joined[operator], at + 1


class Expressions(OneAnswer):
    """A task over expressions in brackets. Deterministic context-free."""

    level = "dcf"
    class_names = DIGITS


@dataclass
class ModularArithmeticBracketsConfig(QueryConfig):
    """Settings of `nnch_modular_arithmetic_brackets`."""

    name: str = "nnch_modular_arithmetic_brackets"


@register_task(
    "nnch_modular_arithmetic_brackets",
    ModularArithmeticBracketsConfig,
    "value mod 5 of an expression in brackets (Delétang et al. 2023)",
)
class ModularArithmeticBrackets(Expressions):
    """Expressions in brackets with +, - and x; the answer is the value mod 5.

    Deterministic context-free. Every length >= 1 has expressions. The answer 0 is right for 29 % of
    strings of 40 symbols, and for 32 % of 500. The symbol x of the source is in no string. Ports
    without multiplication are another task, of chance 0.2.
    """

    symbols = (*DIGITS, "+", "-", TIMES, "(", ")", "x")

    def output(self, symbols: Sequence[int]) -> list[int]:
        """Evaluate it recursively."""
        return [value_of(symbols)]

    def _inputs(self, stream: Stream, step: int | range, rows: int, length: int) -> Tensor:
        return torch.from_numpy(drawn(words(stream, step, rows, length).numpy(), operators=3))

    def _outputs(self, symbols: Tensor) -> Tensor:
        return torch.from_numpy(values(symbols.numpy()))[:, None]


@dataclass
class SolveEquationConfig(QueryConfig):
    """Settings of `nnch_solve_equation`."""

    name: str = "nnch_solve_equation"


@register_task(
    "nnch_solve_equation",
    SolveEquationConfig,
    "the digit x of an equation mod 5 (Delétang et al. 2023)",
)
class SolveEquation(Expressions):
    """Equations EXPRESSION = d with x in place of one digit; the answer is that digit.

    Deterministic context-free. The expression has L - 2 symbols and no multiplication, so one digit
    alone is right. A random place moves right to the first digit, cyclically, and that one is
    hidden: digits behind long gaps are hidden more often. Strings of one and two symbols are all 0,
    with answer 0.
    """

    symbols = (*DIGITS, "+", "-", "(", ")", "x", "=")

    _OWN = (*range(MODULUS), PLUS, MINUS, OPEN, CLOSE, UNKNOWN, EQUALS)

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self._common: Numbers = np.array(self._OWN)  # of our symbols, those of this module
        self._ours: Numbers = np.zeros(EQUALS + 1, dtype=np.int64)
        self._ours[self._common] = np.arange(len(self._OWN))

    def output(self, symbols: Sequence[int]) -> list[int]:
        """Try all five digits; exactly one must be right."""
        if len(symbols) < 3:
            return [0]
        common = [self._OWN[symbol] for symbol in symbols]
        tried = [
            digit
            for digit in range(MODULUS)
            if value_of([digit if s == UNKNOWN else s for s in common[:-2]]) == common[-1]
        ]
        if len(tried) != 1:
            raise ValueError(f"solutions of {self.describe_string(symbols)}: {tried}")
        return tried

    def _inputs(self, stream: Stream, step: int | range, rows: int, length: int) -> Tensor:
        word = words(stream, step, rows, length).numpy()
        if length < 3:
            return torch.zeros(word.shape, dtype=torch.int64)
        expression = drawn(word[:, :-2], operators=2)
        value = values(expression)
        size, row = length - 2, np.arange(len(word))
        begin = below(word[:, -2:-1], size)  # the word of "=": where the search for a digit begins
        gap = (np.arange(size) - begin) % size
        gap[expression >= MODULUS] = size
        expression[row, gap.argmin(1)] = UNKNOWN
        equals = np.full(len(word), EQUALS)
        whole = np.concatenate((expression, equals[:, None], value[:, None]), 1)
        return torch.from_numpy(self._ours[whole])

    def _outputs(self, symbols: Tensor) -> Tensor:
        """Evaluate with x = 0 and x = 1: the value is affine in x, with slope 1 or -1."""
        if symbols.shape[1] < 3:
            return torch.zeros(len(symbols), 1, dtype=torch.int64)
        common = self._common[symbols.numpy()]
        expression, value = common[:, :-2], common[:, -1]
        tried = [np.where(expression == UNKNOWN, digit, expression) for digit in (0, 1)]
        at_zero, at_one = values(np.concatenate(tried)).reshape(2, -1)
        found = (value - at_zero) * (at_one - at_zero) % MODULUS
        return torch.from_numpy(found)[:, None]
