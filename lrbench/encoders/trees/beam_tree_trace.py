"""What of a search is left in its result: the ancestries of the beams that were there at the end.

Choices are hard, so that a beam that was dropped has no gradient. Of each step count the beams from
which one of the last came, and of these all valid pairs: the softmax over them is in the scores.

Entries are the pairs of such beams, step by step, beam by beam, pair by pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from lrbench.encoders.trees.beam_tree_records import Found, Step
from lrbench.encoders.trees.choice import LOG_FLOOR


@dataclass(frozen=True)
class Layer:
    """What is left of one step.

    owners (U, 2): row and beam of each beam that counts. real (U, P): its valid pairs. entries: how
    many there are before this step. nodes, at: numbers of new nodes, and entries of their pairs.
    """

    step: Step
    owners: Tensor
    real: Tensor
    entries: int
    nodes: Tensor
    at: Tensor

    def of_owners(self, table: Tensor) -> Tensor:
        """Return the rows of a table (R, B, S) that belong to beams that count, (U, S)."""
        return table[self.owners[:, 0], self.owners[:, 1]]


@dataclass(frozen=True)
class Trace:
    """All layers, and how scores follow from logits of entries.

    beam (E,): which beam that counts an entry belongs to, of `beams` in all steps. entry (C,): the
    pairs that were chosen, and `final` (C,), the last beam (N B numbers) that each is a part of.
    """

    layers: list[Layer]
    beams: int
    beam: Tensor
    entry: Tensor
    final: Tensor

    def scores(self, logits: Tensor, shape: torch.Size) -> Tensor:
        """Return the scores (N, B) of the last beams from logits of entries (E,)."""
        sizes = logits.new_full((self.beams,), -torch.inf)
        top = sizes.scatter_reduce(0, self.beam, logits.detach(), "amax")
        powers = (logits - top[self.beam]).exp()
        sums = torch.zeros_like(top).index_add(0, self.beam, powers)
        norms = top + sums.log()
        gained = logits[self.entry] - norms[self.beam[self.entry]]
        gained = gained.clamp(min=LOG_FLOOR)
        return gained.new_zeros(shape.numel()).index_add(0, self.final, gained).view(shape)


def trace(found: Found) -> Trace:
    """Follow the last beams of a search back to its first step."""
    shape, device = found.valid.shape, found.valid.device
    # a beam that is not valid is followed as the first one is, which always is
    now = torch.arange(shape[1], device=device) * found.valid
    numbers = torch.arange(shape.numel(), device=device).view(shape)
    passed = []
    for step in reversed(found.steps):
        slots = now[step.rows]
        now[step.rows] = step.origin.gather(1, slots)
        passed.append((step, slots))
    layers, owned, entries, finals = [], [], [], []
    beams = total = 0
    for step, slots in reversed(passed):
        origin, place = step.origin.gather(1, slots), step.place.gather(1, slots)
        used = torch.zeros(step.table.shape[:2], dtype=torch.bool, device=device)
        owners = used.scatter_(1, origin, True).nonzero()
        counts = step.counts[owners[:, 0]]
        pairs = int(counts.max())
        begins = torch.zeros(used.shape, dtype=torch.int64, device=device)
        begins[used] = total + counts.cumsum(0) - counts
        at = (begins.gather(1, origin) + place).flatten()
        real = torch.arange(pairs, device=device) < counts[:, None]
        nodes = step.chosen.gather(1, slots).flatten()
        layers.append(Layer(step, owners, real, total, nodes, at))
        numbered = beams + torch.arange(len(owners), device=device)
        owned.append(numbered.repeat_interleave(counts))
        entries.append(at)
        finals.append(numbers[step.rows].flatten())
        beams, total = beams + len(owners), total + len(owned[-1])
    return Trace(layers, beams, *map(torch.cat, (owned, entries, finals)))
