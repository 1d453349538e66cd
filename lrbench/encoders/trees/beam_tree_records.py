"""What a search for beam trees goes by, has between its steps, and leaves behind.

R strings that still merge, B beams, M nodes of the longest, P = M - 1 pairs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from lrbench.encoders.grc.cell import GatedRecursiveCell
from lrbench.encoders.trees.choice import Draws


@dataclass(frozen=True)
class Search:
    """How to search: the cell, the scorer (d -> 1), the beam's width and what is random.

    noise: of choices, in training. fresh: dropout is drawn for every pair at every step.
    """

    cell: GatedRecursiveCell
    scorer: nn.Linear
    beam: int
    draws: Draws | None
    noise: bool
    fresh: bool


@dataclass(frozen=True)
class Step:
    """What one step of the R strings `rows` of the batch had and chose, for a later trace.

    counts (R,): valid pairs. table: with fresh dropout nodes (R, B, M), otherwise pairs (R, B, P).
    logits (R, B, P), with fresh dropout only. origin, place, chosen (R, B'): of each beam that goes
    on, the beam it was, the pair that it merged, and the number of its new node.
    """

    rows: Tensor
    counts: Tensor
    table: Tensor
    logits: Tensor | None
    origin: Tensor
    place: Tensor
    chosen: Tensor


@dataclass
class Pool:
    """Vectors of nodes, (capacity, d), with their children and heights; `bits` of their dropout."""

    vectors: Tensor
    children: Tensor
    heights: Tensor
    bits: Tensor | None
    used: int

    @classmethod
    def of(cls, leaves: Tensor, capacity: int, bits: int = 0) -> Pool:
        """Return a pool that holds leaves (n, d) and has room for `capacity` more."""
        rows, device = len(leaves) + capacity, leaves.device
        vectors = leaves.new_empty(rows, leaves.shape[1])
        vectors[: len(leaves)] = leaves
        children = torch.zeros(rows, 2, dtype=torch.int64, device=device)
        heights = torch.zeros(rows, dtype=torch.int64, device=device)
        kept = torch.empty(rows, bits, dtype=torch.int16, device=device) if bits else None
        return cls(vectors, children, heights, kept, len(leaves))

    def pairs(self, children: Tensor) -> Tensor:
        """Return the vectors (n, 2d) of children (n, 2)."""
        return self.vectors.index_select(0, children.flatten()).view(len(children), -1)

    def add(self, vectors: Tensor, children: Tensor, bits: Tensor | None = None) -> Tensor:
        """Append nodes (n, d); return their numbers."""
        at = slice(self.used, self.used + len(vectors))
        self.vectors[at], self.children[at] = vectors, children
        self.heights[at] = self.heights[children].amax(1) + 1
        if self.bits is not None and bits is not None:
            self.bits[at] = bits
        self.used = at.stop
        return torch.arange(at.start, at.stop, device=vectors.device)


@dataclass
class Found:
    """The result: roots (N, beam), whether they are valid, their scores, and the steps there."""

    pool: Pool
    roots: Tensor
    valid: Tensor
    scores: Tensor
    steps: list[Step] = field(default_factory=list)


@dataclass
class Beams:
    """Beams between steps: nodes (R, B, M), pairs and logits (R, B, P), scores and valid (R, B).

    latest (R, B): the place of each beam's newest node.
    """

    rows: Tensor
    counts: Tensor
    nodes: Tensor
    pairs: Tensor
    logits: Tensor
    scores: Tensor
    valid: Tensor
    latest: Tensor
