"""One time step of Ordered Memory through its slots: a recurrence over slots, in closed form.

For string n, slots i = 0 .. k-1 and c_i = cp_{n,i}, which does not fall with i (`ordered_memory.py`
has the glossary):

    h_i = (1 - c_i) x + c_i R(h_{i-1}, m_i),   h_{-1} = x,   R the gated recursive cell (`grc.py`)

with dropout of the cell's input (of its product only, not of what the gates multiply) and of its
hidden layer. Where c_i = 0 h_i is x and no gradient comes of it, so only slots with c_i > 0 are
computed: strings are ordered by their first one, and slot i then runs on the first n_i of them.
On a GPU, where counting them would have to wait for it, all slots of all strings are.

The product of W_1's right half with all memories is one, and so are the gradients of the weights.

Layout: "packed" is the strings of slot 0, then those of slot 1, ..: (n_0 + .. + n_{k-1}, d).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from lrbench.encoders.dropout import Dropout
from lrbench.encoders.grc_loops import loops_for
from lrbench.scan.closed_form import ClosedForm, Tensors, one_by_one


@dataclass(frozen=True)
class Slots:
    """Which slots of which strings are computed.

    order (n,): strings by their first slot. counts: n_0 .. n_{k-1}. places (packed): where in (n k)
    each lies, string by string. whole: every slot of every string is computed.
    """

    order: Tensor
    counts: tuple[int, ...]
    places: Tensor
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
        h.view(-1, x.shape[1]).index_copy_(0, self.slots.places, out)
        return (h,) if self.recompute else (h, *kept)

    def _run(
        self,
        w1: Tensor,
        b1: Tensor,
        w2: Tensor,
        b2: Tensor,
        gamma: Tensor,
        beta: Tensor,
        x: Tensor,
        m: Tensor,
        cp: Tensor,
        bits: Tensor | None = None,
        hidden: Tensor | None = None,
    ) -> Tensors:
        """Return packed h, left inputs v, W_1 (v, m) + b_1, gates, R and its mean and scale."""
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
        g = gradient.reshape(-1, m.shape[2]).index_select(0, self.slots.places)
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
        m = m.reshape(-1, x.shape[1]).index_select(0, self.slots.places)
        return x, m, cp.reshape(-1, 1).index_select(0, self.slots.places)

    def _dense(self, packed: Tensor, shape: tuple[int, ...]) -> Tensor:
        """Return packed rows as (n, k, .), zero where there are none."""
        dense = packed.new_zeros(shape[0] * shape[1], shape[2])
        return dense.index_copy_(0, self.slots.places, packed).view(shape)

    def _beside(self, gradient: Tensor) -> Tensor:
        """Return the gradient of x from slots that are not computed, where h is x."""
        if self.slots.whole:
            return torch.zeros_like(gradient[:, 0])
        rest = gradient.flatten(0, 1).index_fill(0, self.slots.places, 0)
        return rest.view_as(gradient).sum(1)

    def _kept(self, bits: Tensor | None, like: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Return what dropout multiplies h and m by."""
        if bits is None or self.drop is None:
            return None, None
        left, right = self.drop.kept(bits, like).chunk(2, 1)
        return left, right
