"""Modular arithmetic from left to right, without precedence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lrbench.registry import register_task
from lrbench.tasks.base import IGNORE, Carry
from lrbench.tasks.machine import Machine, explored, minimised
from lrbench.tasks.symbols.mod_arith import ModArith, ModArithConfig


@dataclass
class ModArithLtrConfig(ModArithConfig):
    """Settings of `mod_arith_ltr`: numbers are 0..M-1 and values are taken mod M."""

    name: str = "mod_arith_ltr"


@register_task("mod_arith_ltr", ModArithLtrConfig, "expressions mod M from left to right")
class ModArithLtr(ModArith):
    """The strings of mod_arith(M), evaluated from left to right: 1 + 2 x 3 is (1 + 2) x 3.

    The answer at each number is the value so far; nothing is asked at operators. Lengths are odd.
    An automaton needs M states at numbers, where precedence needs M^2. The answer 0 is the
    commonest: of long strings with M = 5 in 3 of 11.

    FLaRe (Butoi et al. 2025, arXiv:2411.07107) has this rule, and asks whether a string that ends
    in "=" and a value is right.
    """

    by_position = True

    def oracle(self, tokens: Sequence[int]) -> list[int]:
        """Evaluate each prefix from scratch, in Python's integers, with every bracket written."""
        return [
            self._value(tokens[: end + 1]) if end % 2 == 0 else IGNORE for end in range(len(tokens))
        ]

    def _value(self, tokens: Sequence[int]) -> int:
        value = tokens[0]
        for operator, number in zip(tokens[1::2], tokens[2::2], strict=True):
            if operator == self.times:
                value *= number
            else:
                value += number if operator == self.plus else -number
        return value % self.modulus

    def machine(self) -> Machine:
        """The value, and the operator that waits for a number; it begins as if after "0 +"."""

        def step(state: tuple[int, int | None], symbol: int) -> Any:
            value, operator = state
            if operator is None:
                return None if symbol < self.modulus else (value, symbol)
            if symbol >= self.modulus:
                return None
            changed = {self.plus: value + symbol, self.minus: value - symbol}
            return changed.get(operator, value * symbol) % self.modulus, None

        def name(state: tuple[int, int | None]) -> str:
            value, operator = state
            return f"{value}" if operator is None else f"{value} {self.vocabulary[operator]}"

        def answer(state: tuple[int, int | None]) -> int | None:
            return state[0] if state[1] is None else None

        start = (0, self.plus)
        return minimised(explored(start, len(self.vocabulary), step, answer, name))

    def _answer(self, tokens: Tensor, start: int, carry: Carry | None) -> tuple[Tensor, Carry]:
        """Keep the value (B,) and the last operator (B, 1): value times a factor plus a summand."""
        zero = tokens.new_zeros(len(tokens), 1)
        value, pending = carry or (zero[:, 0], zero + self.plus)
        numbers, operators = tokens[:, start % 2 :: 2], tokens[:, 1 - start % 2 :: 2]
        before = torch.cat((pending, operators), 1) if start % 2 == 0 else operators
        pending = before[:, -1:].clone()  # the caller may write to its tokens
        before = before[:, : numbers.shape[1]]
        multiplies = before == self.times
        factors = torch.where(multiplies, numbers, 1).unbind(1)
        summands = torch.where(before == self.minus, -numbers, numbers).masked_fill(multiplies, 0)
        values = []
        for factor, summand in zip(factors, summands.unbind(1), strict=True):
            value = torch.addcmul(summand, value, factor).remainder_(self.modulus)
            values.append(value)
        targets = torch.full_like(tokens, IGNORE)
        if values:
            targets[:, start % 2 :: 2] = torch.stack(values, 1)
        return targets, (value, pending)
