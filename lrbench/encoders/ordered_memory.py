"""Ordered Memory (`ordered_memory`): a stack of slots, read and written by soft positions.

Shen, Tan, Hosseini, Lin, Sordoni & Courville 2019 (arXiv:1910.13466), one direction, as Ray
Chowdhury & Caragea 2023 (arXiv:2311.04449) use it, with GELU for ReLU:

    x'_t   = LN(W_0 x_t + b_0)
    beta_i = w . drop(gelu(q + key_i)) / sqrt(d) + b / sqrt(d),
             q = LN(W_q drop(x'_t)),  key_i = LN(W_k drop(M^_i))
    p      = (exp(beta) mask) / |.|_1,   mask_i = cp^{t-1}_{i+1} (below 1e-5: 0), mask_last = 1
    M_i    <- M_i (1 - rcp_i) + M^_i rcp_i
    M^_i   <- h_i = (1 - cp_i) x'_t + cp_i R(h_{i-1}, M_i),   h_{-1} = x'_t

for t > 0; at t = 0 M = 0, M^_i = x'_0 and p = 0. Output: M^_last after the last position.

Glossary
    M, M^   memory, candidate memory: n slots of d numbers
    p       soft position; cp its sums from the first slot on, rcp those from the last slot back
    R       gated recursive cell (`grc.py`), whose LN is also that of x' (one set of weights)

What is done otherwise than written, `reference` being as written: 1 - rcp_i is cp_{i-1}. A slot
that no position has reached has cp_i = 0 and M_i = M^_i = x'_{t-1}: only slots reached by some
string of the batch are there at all (one more at each t, from the last), and R is computed where
cp_i > 0 (`ordered_memory_chain.py`). Strings are sorted by length, so that those at their end
drop out, and x' and q are one product each for all positions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from lrbench.checks import at_least, fraction
from lrbench.encoders.base import Encoder, Tree, lengths_of
from lrbench.encoders.dropout import draw_bits, dropout, dropping
from lrbench.encoders.grc import EXPANSION, GatedRecursiveCell
from lrbench.encoders.ordered_memory_chain import Chain, Slots
from lrbench.encoders.rnn_grc import Plan
from lrbench.encoders.soft_trees import by_slots
from lrbench.mixers.normalisation import LayerNorm
from lrbench.registry import register_encoder

UNREACHED = 1e-5  # a slot with less of the position before it is not reached


@dataclass
class OrderedMemoryConfig:
    """Settings of `ordered_memory`.

    slots: 21 for ListOps, 12 for logic. test_slot_factor: slots outside of training over `slots`
    (2 in the paper of 2019). dropout: of the cell's input and hidden layer. memory_dropout: of what
    positions are computed from. recompute: keep none of the cell's numbers for the backward.
    """

    slots: int = 21
    test_slot_factor: int = 1
    dropout: float = 0.1
    memory_dropout: float = 0.1
    recompute: bool = False

    def __post_init__(self) -> None:
        at_least("model.encoder.slots", self.slots, 1)
        at_least("model.encoder.test_slot_factor", self.test_slot_factor, 1)
        fraction("model.encoder.dropout", self.dropout)
        fraction("model.encoder.memory_dropout", self.memory_dropout)


@register_encoder("ordered_memory", OrderedMemoryConfig, "Ordered Memory (Shen et al. 2019)")
class OrderedMemory(Encoder):
    """Ordered Memory (Shen et al. 2019)."""

    config: OrderedMemoryConfig
    shows_trees = True
    without_gradient = frozenset(["memory.score.bias"])  # added to all beta

    def __init__(self, config: OrderedMemoryConfig, width: int) -> None:
        super().__init__(config, width)
        self.leaf = nn.Linear(width, width)
        self.memory = Memory(config, width)

    def forward(self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        plan = Plan.of(lengths_of(mask))
        places = plan.positions.to(x.device) + plan.rows.to(x.device) * x.shape[1]
        packed = self.memory.cell.norm(self.leaf(x.flatten(0, 1).index_select(0, places)))
        outputs: Tensor = self.memory(packed, plan, generator)
        return outputs

    @torch.no_grad()
    def trees(self, x: Tensor, mask: Tensor) -> list[Tree]:
        """Return the trees of writing each position to the slot that has most of it."""
        norm, pairs = self.memory.cell.norm, zip(x, lengths_of(mask), strict=True)
        return [self.memory.tree(norm(self.leaf(row[:length]))) for row, length in pairs]

    def reference(self, x: Tensor, mask: Tensor, slots: int | None = None) -> Tensor:
        """Return what `forward` does without dropout, on padded strings and all slots."""
        return self.memory.reference(self.memory.cell.norm(self.leaf(x)), mask, slots)


class Memory(nn.Module):
    """Ordered Memory on vectors x' that need no further layer."""

    def __init__(self, config: OrderedMemoryConfig, width: int) -> None:
        super().__init__()
        self.config = config
        self.cell = GatedRecursiveCell(width, config.dropout)
        self.query = nn.Sequential(nn.Linear(width, width), LayerNorm(width))
        self.key = nn.Sequential(nn.Linear(width, width), LayerNorm(width))
        self.score = nn.Linear(width, 1)

    def forward(
        self,
        x: Tensor,
        plan: Plan,
        generator: torch.Generator | None = None,
        history: list[Tensor] | None = None,
    ) -> Tensor:
        """Map x' (packed as `plan` says, d) to the last outputs (N, d).

        history: takes p (n, k) of each position after the first, of the last k slots.
        """
        slots = self.config.slots * (1 if generator is not None else self.config.test_slot_factor)
        queries = self.query(dropout(x, self.config.memory_dropout, generator))
        inputs, queries = x.split(plan.counts), queries.split(plan.counts)
        before, outputs = inputs[0], [inputs[0]]
        memory = hat = before[:, None, :][:, :0]
        p = before.new_empty(len(before), 0)
        for now, query in zip(inputs[1:], queries[1:], strict=True):
            alive = len(now)
            memory, hat, p = memory[:alive], hat[:alive], p[:alive]
            if p.shape[1] < slots:
                fresh = before[:alive, None]
                memory, hat = torch.cat([fresh, memory], 1), torch.cat([fresh, hat], 1)
                p = torch.cat([torch.zeros_like(fresh[..., 0]), p], 1)
            memory, hat, mask = _reached(memory, hat, p)
            p = self._position(query, hat, mask, generator)
            if history is not None:
                history.append(p)
            cp = p.cumsum(1)
            memory = torch.lerp(hat, memory, (cp - p)[..., None])
            hat = self._write(now, memory, cp, generator)
            outputs.append(hat[:, -1])
            before = now
        return torch.cat(outputs).index_select(0, plan.last.to(x.device))

    def tree(self, x: Tensor) -> Tree:
        """Return the tree of writing each of x' (L, d) where most of its position is."""
        history: list[Tensor] = []
        self(x, Plan.of([len(x)]), history=history)
        return by_slots([int(p.flip(1).argmax()) for p in history])

    def _position(
        self, query: Tensor, hat: Tensor, mask: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        """Return p (n, k) from q (n, d), M^ (n, k, d) and the mask (n, k)."""
        share = self.config.memory_dropout
        key = self.key(dropout(hat, share, generator))
        hidden = dropout(gelu(query[:, None] + key), share, generator)
        beta = self.score(hidden).squeeze(2) / math.sqrt(query.shape[1])
        largest = beta.detach().masked_fill(mask == 0, -math.inf).amax(1, keepdim=True)
        weights = (beta - largest).clamp(max=0).exp() * mask
        p: Tensor = weights / weights.sum(1, keepdim=True)
        return p

    def _write(
        self, x: Tensor, memory: Tensor, cp: Tensor, generator: torch.Generator | None
    ) -> Tensor:
        """Return the new M^ (n, k, d)."""
        cell, slots = self.cell, Slots.of(cp.detach())
        drop, bits = None, []
        if generator is not None and cell.dropout > 0:
            drop = dropping(cell.dropout)
            shapes = [(len(slots.places), wide * cell.width) for wide in (2, EXPANSION)]
            bits = [draw_bits(shape, generator, x.device) for shape in shapes]
        chain = Chain(cell.norm.eps, drop, slots, self.config.recompute)
        return chain(*cell.weights(), x, memory, cp, *bits)

    def reference(self, x: Tensor, mask: Tensor, slots: int | None = None) -> Tensor:
        """Return what `forward` does without dropout, from x' (N, S, d)."""
        slots = slots or self.config.slots * self.config.test_slot_factor
        hat = x[:, :1].expand(-1, slots, -1)
        memory, p, output = torch.zeros_like(hat), x.new_zeros(len(x), slots), x[:, 0]
        for now, real in zip(x.unbind(1)[1:], mask.unbind(1)[1:], strict=True):
            reached = torch.cat([p.cumsum(1)[:, 1:], torch.ones_like(p[:, :1])], 1)
            reached = torch.where(reached < UNREACHED, 0, reached)
            hidden = gelu(self.query(now)[:, None] + self.key(hat))
            beta = self.score(hidden).squeeze(2) / math.sqrt(x.shape[2])
            weights = (beta - beta.amax(1, keepdim=True)).exp() * reached
            p = weights / weights.sum(1, keepdim=True)
            cp, rcp = p.cumsum(1), p.flip(1).cumsum(1).flip(1)
            memory = memory * (1 - rcp)[..., None] + hat * rcp[..., None]
            h, written = now, []
            for c, m in zip(cp.unbind(1), memory.unbind(1), strict=True):
                parents = self.cell.reference(torch.cat([h, m], 1))
                h = now * (1 - c)[:, None] + parents * c[:, None]
                written.append(h)
            hat = torch.stack(written, 1)
            output = torch.where(real[:, None], h, output)
        return output


def _reached(memory: Tensor, hat: Tensor, p: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return both memories and the mask without the first slots that no string has reached.

    p (n, k) is the position before. On a GPU, where looking would have to wait for it, all stay.
    """
    ahead = p.cumsum(1)[:, 1:]
    mask = torch.cat([torch.where(ahead < UNREACHED, 0, ahead), torch.ones_like(p[:, :1])], 1)
    if p.device.type != "cpu":
        return memory, hat, mask
    first = int((mask > 0).any(0).int().argmax())
    return memory[:, first:], hat[:, first:], mask[:, first:]
