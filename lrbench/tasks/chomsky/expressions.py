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
Marks = NDArray[np.bool_]

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
    binary, signs = _operators(symbols, symbols < MODULUS, closes)
    # an operand's value is kept at its first symbol: a digit, a minus before it, or a bracket
    flat = symbols.reshape(-1)
    value = flat.copy()
    minus = np.flatnonzero(signs)
    value[minus] = -value[minus + 1]
    positions, levels = _by_depth(opens | binary, opens, closes)
    is_open = flat[positions] == OPEN
    following = np.append(positions[1:], 0)  # an operator follows the bracket that it belongs to
    joins = is_open & ~np.append(is_open[1:], True)  # (d) and (-d) have no operator
    middle = np.where(joins, following, -1)[is_open]
    positions = positions[is_open]
    bounds = np.append(0, np.cumsum(np.bincount(levels[is_open])))
    for first, last in itertools.pairwise(bounds[::-1]):
        place, between = positions[last:first], middle[last:first]
        left, right, operator = value[place + 1], value[between + 1], flat[between]
        joined = np.where(
            operator == PRODUCT, left * right, left + np.where(operator == PLUS, right, -right)
        )
        value[place] = np.where(between < 0, left, joined) % MODULUS
    found: Numbers = value[np.arange(rows) * length] % MODULUS
    return found


def factors(symbols: Numbers) -> Numbers:
    """Return what digits are multiplied by in expressions (N, n) of plus and minus: 1 or -1.

    The value is the sum of factor times digit; x counts as a digit, all else has the factor 0.
    """
    digits = (symbols < MODULUS) | (symbols == UNKNOWN)
    opens, closes = symbols == OPEN, symbols == CLOSE
    binary, signs = _operators(symbols, digits, closes)
    binary &= symbols == MINUS
    # such a minus turns what comes until its bracket closes, a sign the digit after it
    positions, _ = _by_depth(opens | closes | binary, opens, closes)
    turned = binary.astype(np.int8)
    ends = positions[1:][binary.reshape(-1)[positions[:-1]]]
    turned.reshape(-1)[ends] = -1
    turns = np.cumsum(turned, 1, dtype=np.int32)
    turns[:, 1:] += signs[:, :-1]
    return np.where(digits, 1 - 2 * (turns & 1), 0)


def _operators(symbols: Numbers, digits: Marks, closes: Marks) -> tuple[Marks, Marks]:
    """Return where (N, n) operators join two operands, and where a minus is a digit's sign."""
    operators = (symbols >= PLUS) & (symbols <= PRODUCT)
    operand_before = np.zeros_like(digits)
    operand_before[:, 1:] = (digits | closes)[:, :-1]
    return operators & operand_before, operators & ~operand_before


def _by_depth(marked: Marks, opens: Marks, closes: Marks) -> tuple[Numbers, Numbers]:
    """Return the marked positions of all rows, in order of depth, then of position; the depths.

    A bracket, what closes it and its operator have one depth, and follow each other.
    """
    steps = opens.astype(np.int8) - closes.astype(np.int8)
    depth = np.cumsum(steps.reshape(-1), dtype=np.int32)  # 0 at the end of each row
    positions = np.flatnonzero(marked)
    levels = depth[positions] + closes.reshape(-1)[positions]
    narrow = np.uint16 if levels.max(initial=0) < 2**16 else np.int64  # 16 bits sort by radix
    order = np.argsort(levels.astype(narrow), kind="stable")
    return positions[order], levels[order].astype(np.int64)


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
    class_names: tuple[str, ...] = DIGITS


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
        value = (factors(expression) * expression).sum(1) % MODULUS
        size, row = length - 2, np.arange(len(word))
        begin = below(word[:, -2:-1], size)  # the word of "=": where the search for a digit begins
        gap = (np.arange(size) - begin) % size
        gap[expression >= MODULUS] = size
        expression[row, gap.argmin(1)] = UNKNOWN
        equals = np.full(len(word), EQUALS)
        whole = np.concatenate((expression, equals[:, None], value[:, None]), 1)
        return torch.from_numpy(self._ours[whole])

    def _outputs(self, symbols: Tensor) -> Tensor:
        """Solve value = rest + factor x, with the factor 1 or -1."""
        if symbols.shape[1] < 3:
            return torch.zeros(len(symbols), 1, dtype=torch.int64)
        common = self._common[symbols.numpy()]
        expression, value = common[:, :-2], common[:, -1]
        factor, unknown = factors(expression), expression == UNKNOWN
        rest = np.where(unknown, 0, factor * expression).sum(1)
        found = (value - rest) * np.where(unknown, factor, 0).sum(1) % MODULUS
        return torch.from_numpy(found)[:, None]
