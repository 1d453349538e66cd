"""Even pairs over M symbols: whether this symbol equals the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from lrbench.registry import register_task
from lrbench.tasks.base import Carry, Device, Task
from lrbench.tasks.machine import Machine, explored
from lrbench.tasks.stream import Stream, integers
from lrbench.tasks.symbols.cyclic import check_modulus


@dataclass
class EvenPairConfig:
    """Settings of `even_pair`.

    modulus: the number of symbols; classes are always two.
    """

    name: str = "even_pair"
    modulus: int = 5

    def __post_init__(self) -> None:
        check_modulus(self.modulus)


@register_task("even_pair", EvenPairConfig, "is this symbol the first one? (Fan et al. 2024)")
class EvenPair(Task):
    """EvenPair(M): symbols 0..M-1, uniform; answers 1 where the symbol equals the first, else 0.

    Position 0 is therefore always 1, and from position 1 on the constant answer 0 is right with
    probability 1 - 1/M (0.8 for M = 5), although there are two classes.

    Source: Fan, Chi & Rudnicky 2024 (arXiv:2309.07412), section 5.1, with every position asked as
    in their released code. The name is from M = 2, where last = first means an even number of
    unequal neighbours. Delétang et al. 2023 (arXiv:2207.02098) have that case only, with the
    opposite polarity (class 1: first and last differ) and one answer at an appended query position.
    """

    draws_ahead = True
    uniform_walks = True

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.modulus: int = config.modulus
        self.vocabulary = tuple(str(n) for n in range(self.modulus))
        self.class_names = ("differs", "same")

    def oracle(self, tokens: Sequence[int]) -> list[int]:
        """Compare each symbol with the first."""
        return [1 if token == tokens[0] else 0 for token in tokens]

    def machine(self) -> Machine:
        """A state for each first symbol and whether the last one equals it, and one before any."""

        def step(state: tuple[int, bool] | None, symbol: int) -> tuple[int, bool]:
            first = symbol if state is None else state[0]
            return first, symbol == first

        def name(state: tuple[int, bool] | None) -> str:
            return "empty" if state is None else f"{state[0]}, {self.class_names[state[1]]}"

        answer = lambda state: None if state is None else int(state[1])  # noqa: E731
        return explored(None, self.modulus, step, answer, name)

    def _tokens(
        self, stream: Stream, step: int | range, rows: int, start: int, stop: int, device: Device
    ) -> Tensor:
        return integers(stream, step, rows, start, stop, self.modulus, device)

    def _answer(self, tokens: Tensor, start: int, carry: Carry | None) -> tuple[Tensor, Carry]:
        first = tokens[:, :1].clone() if carry is None else carry[0]
        return (tokens == first).long(), (first,)
