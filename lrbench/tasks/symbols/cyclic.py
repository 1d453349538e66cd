"""Running sums modulo M: the cyclic group Z_M as a language, and parity, which is Z_2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from omegaconf import MISSING
from torch import Tensor

from lrbench.checks import between
from lrbench.registry import register_task
from lrbench.tasks.base import Carry, Device, Task
from lrbench.tasks.machine import Machine
from lrbench.tasks.stream import Stream, integers


@dataclass
class SumConfig:
    """Settings of `sum`.

    modulus: the number of symbols and of classes.
    """

    name: str = "sum"
    modulus: int = 5

    def __post_init__(self) -> None:
        check_modulus(self.modulus)


@dataclass
class ParityConfig(SumConfig):
    """Settings of `parity`, whose modulus is always 2."""

    name: str = "parity"
    modulus: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.modulus, int) and self.modulus != 2:
            raise ValueError(
                f"task.modulus of parity is 2, not {self.modulus}: use task=sum for other moduli"
            )
        between("task.modulus", self.modulus, 2, 2)


@register_task("sum", SumConfig, "running sum mod M (Fan, Chi & Rudnicky 2024)")
class Sum(Task):
    """Sum(M): symbols 0..M-1, uniform; the answer at each position is the sum so far, mod M.

    Source: Fan, Chi & Rudnicky 2024, "Advancing regular language reasoning in linear recurrent
    neural networks" (arXiv:2309.07412), section 5.1; training asks every position, as their
    released code does. It is not the cycle navigation of Delétang et al. 2023
    (arXiv:2207.02098), whose three symbols move by -1, 0 and +1 mod 5 and whose one answer is read
    at an appended query position.
    """

    draws_ahead = True
    uniform_walks = True

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.modulus: int = config.modulus
        self.vocabulary = self.class_names = tuple(str(n) for n in range(self.modulus))

    def oracle(self, tokens: Sequence[int]) -> list[int]:
        """Add up each prefix from scratch."""
        return [sum(tokens[: end + 1]) % self.modulus for end in range(len(tokens))]

    def machine(self) -> Machine:
        """A state for each sum; that of the empty string is 0."""
        states = range(self.modulus)
        delta = tuple(tuple((q + s) % self.modulus for s in states) for q in states)
        return Machine(self.class_names, 0, delta, tuple(states))

    def _tokens(
        self, stream: Stream, step: int | range, rows: int, start: int, stop: int, device: Device
    ) -> Tensor:
        return integers(stream, step, rows, start, stop, self.modulus, device)

    def _answer(self, tokens: Tensor, start: int, carry: Carry | None) -> tuple[Tensor, Carry]:
        sums = tokens.cumsum(1)
        if carry is not None:
            sums += carry[0]
        sums %= self.modulus
        return sums, (sums[:, -1:].clone(),)


@register_task("parity", ParityConfig, "running parity of bits: sum with modulus 2")
class Parity(Sum):
    """Parity: the running sum of bits mod 2; the same strings and answers as Sum(2).

    The parity check of Delétang et al. 2023 (arXiv:2207.02098) has the same answer for a whole
    string, but asks it once, at an appended query position; here every prefix is asked.
    """


LARGEST = 10_000  # keeps every product of two residues, and sums of them, far inside int64


def check_modulus(modulus: Any) -> None:
    """Raise ValueError unless `modulus` is an integer from 2 to 10,000 (or not given yet)."""
    if modulus == MISSING:  # OmegaConf's "???"
        return
    if isinstance(modulus, bool) or not isinstance(modulus, int) or modulus < 2:
        raise ValueError(f"task.modulus must be an integer >= 2, not {modulus}")
    between("task.modulus", modulus, 2, LARGEST)
