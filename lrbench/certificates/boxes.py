"""Boxes that hold every state a network can be in: the search for a proof of all lengths.

The set of states at a node of a graph (graphs.py) is a box, an interval for each carried number.
Boxes grow from the start: the image of a box by a symbol goes into the box of the next node, until
nothing grows (closed) or a box holds states that would answer wrongly (blown up).

What this finds is believed by nobody: the checker (check/), written apart, has the last word.
Theory: docs/certificates.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lrbench.certificates.graphs import ProofGraph
from lrbench.certificates.images import Cells, Numbers, images, images_and_keeping, leads
from lrbench.tasks.machine import NOWHERE, Machine

PATIENCE, MOST_ROUNDS = 3, 400
WIDEN_FROM, WIDEN_BY, WIDEN_LEAST = 3, 0.05, 1e-5
SLACK, RELATIVE_SLACK = 1e-9, 1e-6  # that images are widened by, for the checker's own rounding
FURTHEST = 1 + 1e-3  # to which outputs are widened: they are below one but for rounding
LARGEST = 1e3  # a number that gets here has no bound
STEEP, WIDE, KEPT = 0.5, 0.1, 0.999  # slope of tanh, width of an interval, part that a gate keeps


@dataclass(frozen=True)
class Boxes:
    """Closed boxes lo, hi (V, D): every image lies inside, every answer leads."""

    nodes: ProofGraph
    lo: Numbers
    hi: Numbers
    rounds: int


@dataclass(frozen=True)
class BlownUp:
    """Boxes that did not close, and what stands in the way.

    word: the first string, in breadth-first order, at whose node something does; None where nothing
    was seen. cause: what it is, of which unit.
    """

    nodes: ProofGraph
    rounds: int
    word: tuple[int, ...] | None
    cause: str


def closed_boxes(net: Cells, machine: Machine, nodes: ProofGraph) -> Boxes | BlownUp:
    """Grow boxes from the start until they hold all their images, or answers are lost."""
    count, size = len(nodes), net.carried
    lo, hi = np.full((count, size), np.inf), np.full((count, size), -np.inf)
    lo[0] = hi[0] = 0.0
    targets = machine.targets[nodes.states]
    lost = np.zeros(count, int)
    dirty = np.array([0])
    for rounds in range(1, MOST_ROUNDS + 1):
        new_lo, new_hi = lo.copy(), hi.copy()
        for symbol in range(machine.symbols):
            to = nodes.following[dirty, symbol]
            going = to != NOWHERE
            if going.any():
                least, most = _with_slack(*images(net, symbol, lo[dirty[going]], hi[dirty[going]]))
                np.minimum.at(new_lo, to[going], least)
                np.maximum.at(new_hi, to[going], most)
        down, up = new_lo < lo, new_hi > hi
        dirty = np.nonzero((down | up).any(1))[0]
        lo, hi = new_lo, new_hi
        if rounds >= WIDEN_FROM and len(dirty):
            width = WIDEN_BY * (hi[dirty] - lo[dirty]) + WIDEN_LEAST
            lo[dirty] = -_widened(net, -lo[dirty], np.where(down[dirty], width, 0))
            hi[dirty] = _widened(net, hi[dirty], np.where(up[dirty], width, 0))
        behind = dirty[_behind(net, targets[dirty], lo[dirty], hi[dirty])]
        lost[behind] += 1
        if not len(dirty):
            entered = np.unique(nodes.following[nodes.following != NOWHERE])
            if not _behind(net, targets[entered], lo[entered], hi[entered]).any():
                return Boxes(nodes, lo, hi, rounds)
            break
        if (lost > PATIENCE).any() or max(-lo[dirty].min(), hi[dirty].max()) > LARGEST:
            break
    return BlownUp(nodes, rounds, *_in_the_way(net, machine, nodes, lo, hi))


def _widened(net: Cells, sides: Numbers, by: Numbers) -> Numbers:
    """Return upper sides moved up, those of outputs no further than anything is."""
    limit = np.where(net.outputs, FURTHEST, np.inf)
    return np.maximum(sides, np.minimum(sides + by, limit))


def _behind(net: Cells, answers: NDArray[np.int64], lo: Numbers, hi: Numbers) -> NDArray[np.bool_]:
    """Return whether (N,) a box has an answer that does not lead."""
    found = np.zeros(len(lo), bool)
    rows = np.nonzero(answers >= 0)[0]
    lead = leads(net.head, answers[rows], lo[rows][:, net.read], hi[rows][:, net.read])
    found[rows] = ~(lead > 0)
    return found


def _with_slack(lo: Numbers, hi: Numbers) -> tuple[Numbers, Numbers]:
    slack = SLACK + RELATIVE_SLACK * (hi - lo)
    return lo - slack, hi + slack


def _in_the_way(
    net: Cells, machine: Machine, nodes: ProofGraph, lo: Numbers, hi: Numbers
) -> tuple[tuple[int, ...] | None, str]:
    """Return the first word whose box is wide where errors grow or stay, and what does it.

    They grow where tanh is steep, and stay where a gate may be one.
    """
    there = np.nonzero(np.isfinite(lo).all(1))[0]  # others are nodes that no round has reached
    lo, hi = lo[there], hi[there]
    nearest = np.where((lo < 0) & (hi > 0), 0, np.minimum(np.abs(lo), np.abs(hi)))
    steep = (1 - nearest**2 > STEEP) & net.outputs
    keeps = np.zeros_like(lo)
    for symbol in range(machine.symbols):
        to = nodes.following[there, symbol] != NOWHERE
        keeps[to] = np.maximum(keeps[to], images_and_keeping(net, symbol, lo[to], hi[to])[1])
    found = (steep | (keeps > KEPT)) & (hi - lo > WIDE)
    for row in np.nonzero(found.any(1))[0]:
        held = found[row] & (keeps[row] > KEPT)
        place = int(np.nonzero(held if held.any() else found[row])[0][0])
        cause = f"{net.named(place)} is not saturated"
        if held.any() and net.kind == "gru":
            cause = f"{net.named(place)} keeps its errors, its update gate reaching one,"
        elif held.any():
            cause = f"{net.named(place)} has no bound, its forget gate reaching one,"
        return nodes.words[there[row]], cause
    return None, ""
