"""Encoders: readers of whole strings, (N, S, d) and a mask -> (N, d_out), of any shape inside.

What stands around one, embedding and head, is a framework (`lrbench.models.classifier`).

Their dropout takes sixteen random bits a number: a fifth of the time of a draw of floats on a CPU.
The share that is dropped is rounded to a multiple of 2^-16, and what is kept is scaled by the
inverse of the rounded share that is kept, so that expectations are exact.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from lrbench.mixers.base import ParameterRule
from lrbench.registry import Entry

T = TypeVar("T")
Tree = int | tuple["Tree", "Tree"]


class Encoder(nn.Module):
    """Reads N strings of vectors, padded on the right to S positions, into a vector each.

    Whether it trains is said by the generator: with one, noise and dropout are drawn from it and
    from nowhere else (so that a resumed run draws what it would have drawn) and batch statistics
    are those of the batch; without one nothing is drawn, and nothing depends on the other strings
    unless `company` says why.

    What it promises is declared by class attributes, which `__init__` may set anew where a setting
    changes them: `padding` (the largest relative difference in float64 that more padding may make:
    0.0 for none at all; None where the result depends on it, for the reason told in
    `padding_reason`), `company` (why a string's vector depends on those beside it, if it does),
    `dtypes`, `tolerance` (relative, float64, of ways to compute the same),
    `exact_gradient` (False for straight-through estimators and detached parts), `without_gradient`
    (parameters, by name, that have none: added to all numbers of a softmax, or of hard choices
    alone), `head` (the head of a classifier in the encoder's paper: "mlp" or "linear") and
    `shows_trees` (it has `trees`).
    """

    version: ClassVar[int] = 1
    dtypes: ClassVar[tuple[torch.dtype, ...]] = (torch.float32, torch.float64)
    tolerance: ClassVar[float] = 1e-9
    exact_gradient: bool = True
    without_gradient: frozenset[str] = frozenset()
    head: ClassVar[str] = "mlp"
    shows_trees: ClassVar[bool] = False
    padding: float | None = 0.0
    padding_reason: str = ""
    company: str = ""

    def __init__(self, config: Any, width: int) -> None:
        super().__init__()
        self.config = config
        self.width = width

    @property
    def out_width(self) -> int:
        """Features of a string's vector; d unless an encoder says otherwise."""
        return self.width

    @classmethod
    def made_of(cls, config: Any) -> Mapping[str, Entry]:
        """Return what is registered and stands inside by these settings, such as a mixer."""
        return {}

    def parameter_rules(self) -> dict[str, ParameterRule]:
        """Return the rules of parameters (by name) that are not trained like all others."""
        return {}

    @abstractmethod
    def forward(self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """Map x (N, S, d) to (N, out_width).

        mask (N, S), bool: true at the first L_n >= 1 positions of string n. What x holds elsewhere
        changes nothing.
        """

    def trees(self, x: Tensor, mask: Tensor) -> list[Tree]:
        """Return the tree over the positions of each of N strings that x (N, S, d) is read by.

        That of the best beam where there are several, in evaluation. Positions count from 0. Only
        encoders with `shows_trees` have them: for those, this is to be overridden.
        """
        raise NotImplementedError(f"{type(self).__name__} has no trees: shows_trees is False")


def folded(tree: Tree, leaf: Callable[[int], T], join: Callable[[T, T], T]) -> T:
    """Return what a tree comes to by what its leaves are and how two are joined, at any depth."""
    done: list[T] = []
    rest: list[Tree | None] = [tree]  # None: the two that are done last are joined
    while rest:
        node = rest.pop()
        if node is None:
            right, left = done.pop(), done.pop()
            done.append(join(left, right))
        elif isinstance(node, tuple):
            rest += [None, node[1], node[0]]
        else:
            done.append(leaf(node))
    return done[0]


def lengths_of(mask: Tensor) -> list[int]:
    """Return the length of each string of a mask (N, S); waits for a GPU."""
    lengths: list[int] = mask.sum(1).tolist()
    return lengths


LEVELS = 1 << 16
LOWEST = -LEVELS // 2
IN_AN_INT64 = 4
LOWEST_INT64 = -(1 << 63)


@dataclass(frozen=True)
class Dropout:
    """Dropping a share of numbers: one is kept where its bits are at least `threshold`."""

    threshold: int
    scale: float

    def kept(self, bits: Tensor, like: Tensor) -> Tensor:
        """Return `scale` where a number is kept and 0 elsewhere, of the type of `like`."""
        return (bits >= self.threshold).to(like.dtype).mul_(self.scale)


def dropping(share: float) -> Dropout:
    """Return how a share in [0, 1) of numbers is dropped."""
    dropped = min(round(share * LEVELS), LEVELS - 1)
    return Dropout(LOWEST + dropped, LEVELS / (LEVELS - dropped))


def draw_bits(
    shape: tuple[int, ...], generator: torch.Generator, device: torch.device | str
) -> Tensor:
    """Draw int16, uniform over all their values."""
    count = torch.Size(shape).numel()
    words = torch.empty(-(-count // IN_AN_INT64), dtype=torch.int64, device=device)
    words.random_(LOWEST_INT64, None, generator=generator)
    return words.view(torch.int16)[:count].view(shape)


def dropout(x: Tensor, share: float, generator: torch.Generator | None) -> Tensor:
    """Set a share of x to zero and scale up the rest; x itself without a generator."""
    if generator is None or share == 0:
        return x
    bits = draw_bits(tuple(x.shape), generator, x.device)
    return x * dropping(share).kept(bits, x)
