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
    R       gated recursive cell (`grc/cell.py`), whose LN is also that of x' (one set of weights)

What is done otherwise than written, `reference` being as written: 1 - rcp_i is cp_{i-1}. A slot
that no position has reached has cp_i = 0 and M_i = M^_i = x'_{t-1}: only slots reached by some
string of the batch are there at all (one more at each t, from the last), and R is computed where
cp_i > 0 (`Chain`). Strings are sorted by length, so that those at their end
drop out, and x' and q are one product each for all positions.

One time step goes through the slots by a recurrence in closed form. For string n, slots
i = 0 .. k-1 and c_i = cp_{n,i}, which does not fall with i:

    h_i = (1 - c_i) x + c_i R(h_{i-1}, m_i),   h_{-1} = x

with dropout of the cell's input (of its product only, not of what the gates multiply) and of its
hidden layer. Where c_i = 0 h_i is x and no gradient comes of it, so only slots with c_i > 0 are
computed: strings are ordered by their first one, and slot i then runs on the first n_i of them.
On a GPU, where counting them would have to wait for it, all slots of all strings are.

The product of W_1's right half with all memories is one, and so are the gradients of the weights.

Layout: "packed" is the strings of slot 0, then those of slot 1, ..: (n_0 + .. + n_{k-1}, d).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

from lrbench.checks import at_least, fraction
from lrbench.encoders.base import Dropout, Encoder, Tree, draw_bits, dropout, dropping, lengths_of
from lrbench.encoders.grc.cell import EXPANSION, GatedRecursiveCell
from lrbench.encoders.grc.halves import loops_for
from lrbench.encoders.grc.rnn_grc import Packing
from lrbench.kernels.closed_form import ClosedForm, Tensors, one_by_one
from lrbench.kernels.normalisation import LayerNorm
from lrbench.registry import register_encoder

UNREACHED = 1e-5  # a slot with less of the position before it is not reached
POSITION = ("query", "key", "score")  # what p is computed by


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
        refuse_untrained_choice(self.slots, self.test_slot_factor)


def refuse_untrained_choice(slots: int, factor: int) -> None:
    """One slot leaves nothing to choose in training; with more in evaluation there is a choice."""
    if slots == 1 and factor > 1:
        raise ValueError(
            f"model.encoder.slots=1 with model.encoder.test_slot_factor={factor}: nothing trains "
            "the choice between slots that evaluation has; leave test_slot_factor at 1, or take "
            "more slots"
        )


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
        if config.slots == 1:  # then p is 1 whatever it is computed from
            self.without_gradient = self.of_position

    @property
    def of_position(self) -> frozenset[str]:
        """The names of the parameters that the position is computed by."""
        parts = nn.ModuleDict({part: getattr(self.memory, part) for part in POSITION})
        return frozenset(dict(parts.named_parameters(prefix="memory")))

    def forward(self, x: Tensor, mask: Tensor, generator: torch.Generator | None = None) -> Tensor:
        plan = Packing.of(lengths_of(mask))
        indices = plan.positions.to(x.device) + plan.rows.to(x.device) * x.shape[1]
        packed = self.memory.cell.norm(self.leaf(x.flatten(0, 1).index_select(0, indices)))
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
        plan: Packing,
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
        self(x, Packing.of([len(x)]), history=history)
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
            shapes = [(len(slots.indices), wide * cell.width) for wide in (2, EXPANSION)]
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


@dataclass(frozen=True)
class Slots:
    """Which slots of which strings are computed.

    order (n,): strings by their first slot. counts: n_0 .. n_{k-1}. indices (packed): where in
    (n k) each lies, string by string. whole: every slot of every string is computed.
    """

    order: Tensor
    counts: tuple[int, ...]
    indices: Tensor
    whole: bool

    @classmethod
    def of(cls, cp: Tensor) -> Slots:
        """Return those with cp (n, k) above 0, or all of them on a GPU."""
        strings, slots = cp.shape
        index = torch.arange(slots, device=cp.device)
        if cp.device.type == "cpu":
            first, order = (cp <= 0).sum(1).sort(stable=True)
            active = first <= index[:, None]
            counts = tuple(active.sum(1).tolist())
            slot, rank = active.nonzero(as_tuple=True)
        else:
            order = torch.arange(strings, device=cp.device)
            counts = (strings,) * slots
            slot, rank = index.repeat_interleave(strings), order.repeat(slots)
        return cls(order, counts, order[rank] * slots + slot, sum(counts) == strings * slots)

    @cached_property
    def steps(self) -> list[slice]:
        """Return where each slot's strings lie among the packed ones."""
        return [slice(start, end) for start, end in pairwise([0, *accumulate(self.counts)])]


@dataclass(frozen=True)
class Chain:
    """The recurrence over `slots`; `recompute` keeps none of the cell's numbers for the backward.

    Inputs are W_1, b_1, W_2, b_2, gamma, beta, x (n, d), m (n, k, d), cp (n, k) and, with dropout,
    bits (packed, 2 d) of (h, m) and (packed, 4 d) of the hidden layer. The result is h (n, k, d).
    """

    epsilon: float
    drop: Dropout | None
    slots: Slots
    recompute: bool = False

    def __call__(self, *inputs: Tensor) -> Tensor:
        return ClosedForm(self.forward, self.backward, one_by_one, needs_result=False)(*inputs)

    def forward(self, *inputs: Tensor) -> Tensors:
        """Return h (n, k, d) and what the backward needs."""
        x, m = inputs[6:8]
        out, *kept = self._run(*inputs)
        h = x[:, None].expand_as(m).clone(memory_format=torch.contiguous_format)
        h.view(-1, x.shape[1]).index_copy_(0, self.slots.indices, out)
        return (h,) if self.recompute else (h, *kept)

    def _run(self, *inputs: Tensor) -> Tensors:
        """Return packed h, left inputs v, W_1 (v, m) + b_1, gates, R and its mean and scale."""
        w1, b1, w2, b2, gamma, beta, x, m, cp, *drawn = inputs
        bits, hidden = drawn or (None, None)
        width = x.shape[1]
        loops = loops_for(x, width, self.drop, self.epsilon)
        x, m, cp = self._packed(x, m, cp)
        left, right = self._kept(bits, x)
        inner = (m if right is None else m * right) @ w1[:, width:].T
        o, norm = torch.empty_like(inner), x.new_empty(len(m), 2)
        v, y, out = torch.empty_like(m), torch.empty_like(m), torch.empty_like(m)
        u, before = x.new_empty(len(x), len(w1)), 0
        for at, count in zip(self.slots.steps, self.slots.counts, strict=True):
            if before:
                v[at][:before] = out[at.start - before : at.start]
            v[at][before:] = x[before:count]
            state = v[at] if left is None else v[at] * left[at]
            inner[at].addmm_(state, w1[:, :width].T)
            loops.activate(inner[at], b1, u[:count], None if hidden is None else hidden[at])
            torch.mm(u[:count], w2.T, out=o[at])
            loops.combine(o[at], b2, (v[at], m[at]), (gamma, beta), y[at], norm[at])
            torch.lerp(x[:count], y[at], cp[at], out=out[at])
            before = count
        return out, v, inner, o, y, norm

    def backward(self, *tensors: Tensor) -> Tensors:
        """Return the gradients of the floating inputs."""
        inputs = 9 if self.drop is None else 11
        given, kept, gradient = tensors[:inputs], tensors[inputs:-1], tensors[-1]
        if self.recompute:
            kept = self._run(*given)[1:]
        w1, m, v, inner = given[0], given[7], kept[0], kept[1]
        bits, hidden = (None, None) if self.drop is None else given[9:]
        left, right = self._kept(bits, m)
        packed = self._packed(*given[6:9])
        u, slope = torch.empty_like(inner), torch.empty_like(inner)
        loops_for(m, m.shape[2], self.drop, self.epsilon).slope(inner, u, slope, hidden)
        g = gradient.reshape(-1, m.shape[2]).index_select(0, self.slots.indices)
        do, dh, dm, dx, dcp, sums = self._back(given, packed, kept, slope, left, g)
        through = dh @ w1[:, m.shape[2] :]
        dm += through if right is None else through.mul_(right)
        below = packed[1]
        if left is not None and right is not None:
            v, below = v * left, below * right
        db2, dgamma, dbeta = sums.split([do.shape[1], m.shape[2], m.shape[2]])
        return (
            torch.cat([dh.T @ v, dh.T @ below], 1),
            *(dh.sum(0), do.T @ u, db2, dgamma, dbeta),
            self._beside(gradient).index_add_(0, self.slots.order, dx),
            self._dense(dm, m.shape),
            self._dense(dcp, (*m.shape[:2], 1)).squeeze(2),
        )

    def _back(
        self,
        given: Tensors,
        packed: Tensors,
        kept: Tensors,
        slope: Tensor,
        left: Tensor | None,
        g: Tensor,
    ) -> Tensors:
        """Walk the slots back from g, the packed gradient of h, to which it is added.

        Returns gradients of o, of W_1 (v, m), of m beside it, of x, of cp; and sums (6 d): those of
        b_2, gamma and beta.
        """
        w1, _, w2, _, gamma = given[:5]
        (x, m, cp), (v, inner, o, y, norm) = packed, kept
        width = x.shape[1]
        loops = loops_for(x, width, self.drop, self.epsilon)
        do, dh, dcp, dx = map(torch.empty_like, (o, inner, cp, x))
        dpairs, sums = x.new_empty(len(m), 2 * width), gamma.new_zeros(6 * width)
        counts = (0, *self.slots.counts)
        dx.zero_()
        for slot in reversed(range(len(counts) - 1)):
            at, before, count = self.slots.steps[slot], counts[slot], counts[slot + 1]
            dy = g[at] * cp[at]
            dx[:count] += g[at] - dy
            dcp[at] = ((y[at] - x[:count]) * g[at]).sum(1, keepdim=True)
            sides = v[at], m[at]
            loops.combine_backward(o[at], sides, gamma, norm[at], dy, do[at], dpairs[at], sums)
            torch.mm(do[at], w2, out=dh[at]).mul_(slope[at])
            dv = dh[at] @ w1[:, :width]
            dv = (dv if left is None else dv.mul_(left[at])).add_(dpairs[at, :width])
            g[at.start - before : at.start] += dv[:before]
            dx[before:count] += dv[before:]
        return do, dh, dpairs[:, width:].clone(), dx, dcp, sums

    def _packed(self, x: Tensor, m: Tensor, cp: Tensor) -> Tensors:
        """Return x in its order, and m and cp packed."""
        x = x.index_select(0, self.slots.order)
        m = m.reshape(-1, x.shape[1]).index_select(0, self.slots.indices)
        return x, m, cp.reshape(-1, 1).index_select(0, self.slots.indices)

    def _dense(self, packed: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Return packed rows as (n, k, .), zero where there are none."""
        dense = packed.new_zeros(shape[0] * shape[1], shape[2])
        return dense.index_copy_(0, self.slots.indices, packed).view(shape)

    def _beside(self, gradient: Tensor) -> Tensor:
        """Return the gradient of x from slots that are not computed, where h is x."""
        if self.slots.whole:
            return torch.zeros_like(gradient[:, 0])
        rest = gradient.flatten(0, 1).index_fill(0, self.slots.indices, 0)
        return rest.view_as(gradient).sum(1)

    def _kept(self, bits: Tensor | None, like: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return what dropout multiplies h and m by."""
        if bits is None or self.drop is None:
            return None, None
        left, right = self.drop.kept(bits, like).chunk(2, 1)
        return left, right


def by_slots(positions: list[int]) -> Tree:
    """Return the tree of a string whose token t > 0 is written at slot positions[t - 1].

    Slots count from the last one: 0, 1, ... A token is composed with what its slot and those after
    it remember. No slot is skipped: one further than the slot before is the furthest.
    """
    candidates: list[Tree] = [0]  # of slots 0 .. the slot before; of all others the token before
    memory: list[Tree] = []
    for token, slot in enumerate(positions, start=1):
        slot = min(slot, len(candidates) if token > 1 else 0)
        before: list[Tree] = [*candidates, token - 1]
        memory = [*memory[:slot], before[slot]]
        node: Tree = token
        candidates = []
        for remembered in reversed(memory):
            node = (remembered, node)
            candidates.insert(0, node)
    return candidates[0]
