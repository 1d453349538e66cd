"""Modular arithmetic without brackets: the value of every prefix of an expression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from lrbench.registry import register_task
from lrbench.tasks.base import IGNORE, Carry, Device, Task
from lrbench.tasks.machine import Machine, explored, minimised
from lrbench.tasks.stream import Stream, integers
from lrbench.tasks.symbols.cyclic import check_modulus

OPERATORS = ("+", "-", "\N{MULTIPLICATION SIGN}")


@dataclass
class ModArithConfig:
    """Settings of `mod_arith`: numbers are 0..M-1 and values are taken mod M.

    modulus: M; numbers are 0..M-1, and so are the answers.
    """

    name: str = "mod_arith"
    modulus: int = 5

    def __post_init__(self) -> None:
        check_modulus(self.modulus)


@register_task("mod_arith", ModArithConfig, "prefix expressions mod M (Fan et al. 2024)")
class ModArith(Task):
    """ModArith(M): numbers 0..M-1 at even positions, operators at odd ones, all uniform.

    The answer at each number is the value mod M of the expression up to and including it, with
    multiplication before addition and subtraction; nothing is asked at operators. Lengths are odd.

    Source: Fan, Chi & Rudnicky 2024 (arXiv:2309.07412), section 5.1, with every number asked as in
    their released code. Namesakes differ: Delétang et al. 2023 (arXiv:2207.02098) ask one answer at
    an appended query position and shorten even lengths by one; ports of theirs end the string in
    "=" and answer from the input's vocabulary; FLaRe evaluates from left to right without
    precedence; variants with brackets are another, not regular, language.
    """

    draws_ahead = True
    uniform_walks = True
    length_rule = "odd lengths >= 1 (number, operator, ..., number)"

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.modulus: int = config.modulus
        self.class_names = tuple(str(n) for n in range(self.modulus))
        self.vocabulary = self.class_names + OPERATORS
        self.plus, self.minus, self.times = range(self.modulus, self.modulus + 3)

    def valid_length(self, length: int) -> bool:
        """Whether `length` is odd: an expression begins and ends with a number."""
        return length >= 1 and length % 2 == 1

    def oracle(self, tokens: Sequence[int]) -> list[int]:
        """Evaluate each prefix from scratch: split it into signed products and add them up."""
        return [
            self._value(tokens[: end + 1]) if end % 2 == 0 else IGNORE for end in range(len(tokens))
        ]

    def _value(self, tokens: Sequence[int]) -> int:
        products: list[list[int]] = [[tokens[0]]]
        for operator, number in zip(tokens[1::2], tokens[2::2], strict=True):
            if operator == self.times:
                products[-1].append(number)
            else:
                products.append([-number if operator == self.minus else number])
        return sum(prod(factors) for factors in products) % self.modulus

    def machine(self) -> Machine:
        """The sum of the finished products, the product that may still grow, the last operator.

        Some of these states are one: a new summand after "+" is a factor of 1.
        """
        modulus = self.modulus

        def step(state: tuple[int, int, int | None], symbol: int) -> Any:
            finished, product, operator = state
            if operator is None:  # after a number: an operator must come
                return None if symbol < modulus else (finished, product, symbol)
            if symbol >= modulus:
                return None
            if operator == self.times:
                return finished, product * symbol % modulus, None
            sign = -1 if operator == self.minus else 1
            return (finished + product) % modulus, sign * symbol % modulus, None

        def answer(state: tuple[int, int, int | None]) -> int | None:
            return (state[0] + state[1]) % modulus if state[2] is None else None

        def name(state: tuple[int, int, int | None]) -> str:
            finished, product, operator = state
            last = "" if operator is None else f" {self.vocabulary[operator]}"
            return f"{finished} + {product}{last}"

        start = (0, 0, self.plus)
        return minimised(explored(start, len(self.vocabulary), step, answer, name))

    def _tokens(
        self, stream: Stream, step: int | range, rows: int, start: int, stop: int, device: Device
    ) -> Tensor:
        operator = torch.arange(start, stop, device=device) % 2  # 0 number, 1 operator
        high = torch.where(operator == 1, len(OPERATORS), self.modulus)
        symbols = integers(stream, step, rows, start, stop, high, device)
        return symbols.add_(operator * self.modulus)

    def _answer(self, tokens: Tensor, start: int, carry: Carry | None) -> tuple[Tensor, Carry]:
        """Keep the sum of the finished products and the product that may still grow.

        The carry is (finished (B, 1), product (B,), last operator (B, 1)); an expression begins as
        if after "0 +".
        """
        zero = tokens.new_zeros(len(tokens), 1)
        finished, product, pending = carry or (zero, zero[:, 0], zero + self.plus)
        numbers, operators = tokens[:, start % 2 :: 2], tokens[:, 1 - start % 2 :: 2]
        before = torch.cat((pending, operators), 1) if start % 2 == 0 else operators
        pending = before[:, -1:].clone()  # the caller may write to its tokens
        before = before[:, : numbers.shape[1]]
        products = self._products(numbers, before, product)
        # an operator other than x finishes the product to its left
        finishes = products[:, :-1] * (before != self.times)
        finished = torch.cat((finished, finishes), 1).cumsum(1) % self.modulus
        targets = torch.full_like(tokens, IGNORE)
        targets[:, start % 2 :: 2] = (finished + products)[:, 1:] % self.modulus
        return targets, (finished[:, -1:], products[:, -1], pending)

    def _products(self, numbers: Tensor, before: Tensor, product: Tensor) -> Tensor:
        """Return the growing product before and after each number, mod M: (B, N + 1).

        Each number either multiplies the product or begins a new one with its sign.
        """
        multiplies = before == self.times
        factors = (numbers * multiplies).unbind(1)
        begun = torch.where(before == self.minus, -numbers, numbers).masked_fill(multiplies, 0)
        products = [product]
        for factor, new in zip(factors, begun.unbind(1), strict=True):
            products.append(torch.addcmul(new, products[-1], factor).remainder_(self.modulus))
        return torch.stack(products, 1)
