"""The gradient of beam trees: of what is left of a search, and of nothing else.

Results and logits are those that the search has found. The backward goes through the pairs that
count, higher ones first (or later steps, with fresh dropout), some hundred at a time, and computes
what is inside the cell again: kept are vectors of nodes only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from lrbench.encoders.base import Dropout, dropping
from lrbench.encoders.trees.beam_tree_cells import pieces, telling
from lrbench.encoders.trees.beam_tree_records import Found, Pool, Search
from lrbench.encoders.trees.beam_tree_search import fresh_bits
from lrbench.encoders.trees.beam_tree_trace import Layer, Trace, trace
from lrbench.scan.closed_form import ClosedForm, one_by_one


@dataclass(frozen=True)
class Group:
    """Pairs whose children are known before any of them: children (n, 2), bits of their dropout.

    nodes (k,), at (k,): numbers of nodes that are parents of these pairs, and of which.
    """

    children: Tensor
    nodes: Tensor
    at: Tensor
    bits: Callable[[], Tensor | None]


def differentiable(how: Search, found: Found, leaves: Tensor) -> tuple[Tensor, Tensor]:
    """Return roots (N, B, d) and scores (N, B) as functions of leaves (n, d) and parameters."""
    shape = found.valid.shape
    if not found.steps:
        return leaves[found.roots], found.scores
    traced = trace(found)
    if how.fresh:
        groups, logits, entries = _by_step(how, traced), _logits(traced), None
    else:
        groups, numbers, entries = _by_height(found.pool, traced)
        logits = how.scorer(found.pool.vectors[numbers]).squeeze(1).detach()
    values = torch.cat([found.pool.vectors[found.roots].flatten(), logits])
    drop = dropping(how.cell.dropout) if how.draws is not None and how.cell.dropout else None
    form = _form(how, found, groups, values, drop)
    result = form(leaves, how.scorer.weight, how.scorer.bias, *how.cell.weights())
    roots, e = result.split([len(values) - len(logits), len(logits)])
    scores = traced.scores(e if entries is None else e.index_select(0, entries), shape)
    return roots.view(*shape, -1), scores


def _by_height(pool: Pool, traced: Trace) -> tuple[list[Group], Tensor, Tensor]:
    """Return groups of equal height, the numbers of their pairs, and which of these entries are."""
    entries = torch.cat([layer.of_owners(layer.step.table)[layer.real] for layer in traced.layers])
    wanted = torch.zeros(pool.used, dtype=torch.bool, device=entries.device)
    wanted[entries] = True
    numbers = wanted.nonzero().squeeze(1)
    heights, order = pool.heights[numbers].sort(stable=True)
    numbers = numbers[order]
    places = torch.zeros(pool.used, dtype=torch.int64, device=entries.device)
    places[numbers] = torch.arange(len(numbers), device=entries.device)
    sizes = torch.bincount(heights)[1:].tolist()
    groups = [_of_height(pool, some) for some in numbers.split(sizes)]
    return groups, numbers, places[entries]


def _of_height(pool: Pool, numbers: Tensor) -> Group:
    at = torch.arange(len(numbers), device=numbers.device)
    bits = pool.bits
    return Group(
        pool.children[numbers], numbers, at, lambda: None if bits is None else bits[numbers]
    )


def _by_step(how: Search, traced: Trace) -> list[Group]:
    """Return the pairs of each step; their bits are drawn again."""
    return [_of_step(how, layer, t) for t, layer in enumerate(traced.layers)]


def _of_step(how: Search, layer: Layer, t: int) -> Group:
    nodes = layer.of_owners(layer.step.table)[:, : layer.real.shape[1] + 1]
    children = torch.stack([nodes[:, :-1][layer.real], nodes[:, 1:][layer.real]], 1)

    def bits() -> Tensor | None:
        rows, beams, nodes = layer.step.table.shape
        real = torch.zeros(rows, beams, nodes - 1, dtype=torch.bool, device=children.device)
        owners = layer.owners
        real[owners[:, 0], owners[:, 1], : layer.real.shape[1]] = layer.real
        return fresh_bits(how, t, real.shape, real.flatten().nonzero().squeeze(1))

    return Group(children, layer.nodes, layer.at - layer.entries, bits)


def _logits(traced: Trace) -> Tensor:
    found = []
    for layer in traced.layers:
        assert layer.step.logits is not None
        mine = layer.of_owners(layer.step.logits)[:, : layer.real.shape[1]]
        found.append(mine[layer.real])
    return torch.cat(found)


def _form(
    how: Search, found: Found, groups: list[Group], values: Tensor, drop: Dropout | None
) -> ClosedForm:
    """Return (leaves, w, b, the cell's weights) -> values: roots, flat, and logits of all pairs."""
    cell, roots, pool = how.cell.form(drop), found.roots.flatten(), found.pool

    def forward(*inputs: Tensor) -> tuple[Tensor, ...]:
        return (values,)

    def backward(leaves: Tensor, w: Tensor, b: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
        *weights, gradient = others
        ends = gradient[: len(roots) * leaves.shape[1]].view(len(roots), -1)
        of_logits = gradient[ends.numel() :]
        of_nodes = leaves.new_zeros(pool.used, leaves.shape[1]).index_add_(0, roots, ends)
        sums = [torch.zeros_like(weight) for weight in (w, *weights)]
        last = len(of_logits)
        for group in reversed(groups):
            first = last - len(group.children)
            slopes = of_logits[first:last]
            upstream = slopes[:, None] * w
            # the same pair may be told more than once: what is written is the same
            upstream[group.at] = slopes[group.at, None] * w + of_nodes[group.nodes]
            bits, some = group.bits(), telling(upstream)
            for at in (some[piece] for piece in pieces(some)):
                pairs = pool.pairs(group.children[at])
                rest = [] if bits is None else [bits[at]]
                y, *kept = cell.forward(*weights, pairs, *rest)
                *changes, sides = cell.backward(*weights, pairs, *rest, *kept, upstream[at])
                for total, change in zip(sums, (slopes[at] @ y, *changes), strict=True):
                    total += change
                of_nodes.index_add_(0, group.children[at].flatten(), sides.view(-1, w.shape[1]))
            last = first
        return of_nodes[: len(leaves)], sums[0], of_logits.sum().view_as(b), *sums[1:]

    return ClosedForm(forward, backward, one_by_one, needs_result=False)
