"""Boxes that hold every state a tanh network can be in: the search for a proof of all lengths.

A node is a state of the task with the last j symbols, after a tree of all words of up to j symbols.
The set of states at a node is a box, an interval a unit. Boxes grow from the start: the image of a
box by a symbol goes into the box of the next node, until nothing grows (closed) or a box holds
states that would answer wrongly (blown up). Why the last symbols: a contracting network forgets
errors but remembers what it read last, so the states of one answer are many small clouds.

What this finds is believed by nobody: check.py, which was written apart, has the last word.
Theory: docs/certificates.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from lrbench.tasks.machine import NOWHERE, Machine

Numbers = NDArray[np.float64]

UNIT = 2.0**-24  # half a unit in the last place of 1 in float32
PATIENCE, MOST_ROUNDS = 3, 400
WIDEN_FROM, WIDEN_BY, WIDEN_LEAST = 3, 0.05, 1e-5
SLACK, RELATIVE_SLACK = 1e-9, 1e-6  # that images are widened by, for the checker's own rounding


@dataclass(frozen=True)
class TanhStack:
    """A stack of tanh layers over symbols, read by LayerNorm and a linear map, in float64.

    table (S, E): the vector of each symbol. layers: W (n, E or n), U (n, n), W's and U's biases
    added up, |b| + |c|. scale and shift (n,), weight (C, n), bias (C,): norm and head.
    """

    table: Numbers
    layers: tuple[tuple[Numbers, Numbers, Numbers, Numbers], ...]
    scale: Numbers
    shift: Numbers
    weight: Numbers
    bias: Numbers
    eps: float

    @property
    def units(self) -> int:
        """Numbers of the carried state: D = L n."""
        return sum(len(u) for _, u, _, _ in self.layers)


def stack_of(model: nn.Module, config: dict[str, Any]) -> TanhStack | str:
    """Return what boxes need of a model, or why no proof by boxes is sought for it.

    config: the `model` node of its configuration.
    """
    mixer, stack = config.get("mixer", {}), config.get("backbone", {})
    if config.get("name") != "rnn" or mixer.get("nonlinearity") != "tanh":
        return f"no proof is sought for {config.get('name')}: today boxes are for rnn with tanh"
    if stack.get("name") != "bare" or not stack.get("norm") or stack.get("hidden"):
        return "no proof is sought for this stack: boxes need bare, with norm and a linear head"
    state = {name: value.detach().cpu() for name, value in model.state_dict().items()}
    if any(str(value.dtype) != "torch.float32" for value in state.values()):
        return "no proof is sought for weights that are not float32"
    w = {name: value.double().numpy() for name, value in state.items()}
    layers = []
    for i in range(int(config["layers"])):
        matrix, own, b, c = (
            w[f"mixers.{i}.network.{part}"]
            for part in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
        )
        layers.append((matrix, own, b + c, np.abs(b) + np.abs(c)))
    table = w.get("embedding.weight", np.eye(layers[0][0].shape[1]))
    norm, head = (w["norm.weight"], w["norm.bias"]), (w["head.0.weight"], w["head.0.bias"])
    return TanhStack(table, tuple(layers), *norm, *head, 1e-5)


def images(net: TanhStack, symbol: int, lo: Numbers, hi: Numbers) -> tuple[Numbers, Numbers]:
    """Return boxes (N, D) around what float32 makes of boxes (N, D) by a symbol."""
    low_in = high_in = net.table[symbol][None]
    lows, highs, at = [], [], 0
    for w, u, bias, size in net.layers:
        n = len(u)
        low, high = lo[:, at : at + n], hi[:, at : at + n]
        at += n
        positive, negative = np.maximum(w, 0), np.minimum(w, 0)
        own_positive, own_negative = np.maximum(u, 0), np.minimum(u, 0)
        least = low_in @ positive.T + high_in @ negative.T + bias
        least = least + low @ own_positive.T + high @ own_negative.T
        most = high_in @ positive.T + low_in @ negative.T + bias
        most = most + high @ own_positive.T + low @ own_negative.T
        terms = 2 * max(w.shape) + 2 * n + 8
        reach = np.maximum(np.abs(low), np.abs(high)) @ np.abs(u).T
        reach = reach + np.maximum(np.abs(low_in), np.abs(high_in)) @ np.abs(w).T + size
        rounding = terms * UNIT / (1 - terms * UNIT) * reach + 1e-20
        low_in = np.tanh(least - rounding) - 8 * UNIT
        high_in = np.tanh(most + rounding) + 8 * UNIT
        lows.append(low_in)
        highs.append(high_in)
    return np.concatenate(lows, axis=1), np.concatenate(highs, axis=1)


def leads(net: TanhStack, answers: NDArray[np.int64], lo: Numbers, hi: Numbers) -> Numbers:
    """Return by how much (N,) the right logits lead in boxes, before rounding; <= 0: they do not.

    The head's weights are linear in the centred state, over its standard deviation.
    """
    n = len(net.scale)
    lo, hi = lo[:, -n:], hi[:, -n:]
    middle, radius = (lo + hi) / 2, (hi - lo) / 2
    centred = middle - middle.mean(1, keepdims=True)
    spread = radius * (1 - 1 / n) + (radius.sum(1, keepdims=True) - radius) / n
    nearest = np.maximum(np.abs(centred) - spread, 0)
    sigma_lo = np.sqrt((nearest**2).mean(1) + net.eps)
    sigma_hi = np.sqrt(((np.abs(centred) + spread) ** 2).mean(1) + net.eps)
    least = np.full(len(lo), np.inf)
    for answer in np.unique(answers):
        rows = answers == answer
        for other in range(len(net.weight)):
            if other == answer:
                continue
            apart = net.weight[answer] - net.weight[other]
            v = apart * net.scale
            v = v - v.mean()
            k = apart @ net.shift + net.bias[answer] - net.bias[other]
            lead = middle[rows] @ v - radius[rows] @ np.abs(v)
            lead = lead + np.minimum(k * sigma_lo[rows], k * sigma_hi[rows])
            least[rows] = np.minimum(least[rows], lead / sigma_hi[rows])
    return least


@dataclass(frozen=True)
class ProofGraph:
    """The graph of a proof: `following` (V, S), `NOWHERE` where no valid string goes on.

    states (V,): the task's state at each node. words: a string that leads there. depth: how many of
    the last symbols a node knows.
    """

    following: NDArray[np.int32]
    states: NDArray[np.int64]
    words: list[tuple[int, ...]]
    depth: int

    def __len__(self) -> int:
        return len(self.states)


def nodes_of(machine: Machine, depth: int, most: int) -> ProofGraph | None:
    """Return the graph that knows the last `depth` symbols; None if it has more than `most` nodes.

    Words of up to `depth` symbols are a tree from node 0; from there on a node is a state of the
    task with the last symbols.
    """
    table = machine.table
    number: dict[Any, int] = {(): 0}
    words: list[tuple[int, ...]] = [()]
    states, rows = [machine.start], []
    for node, word in enumerate(words):  # grows
        row = []
        for symbol in range(machine.symbols):
            to = int(table[states[node], symbol])
            if to == NOWHERE:
                row.append(NOWHERE)
                continue
            longer = (*word, symbol)
            short = len(longer) <= depth
            name = longer if short else (to, longer[len(longer) - depth :])
            if name not in number:
                if len(words) == most:
                    return None
                number[name] = len(words)
                words.append(longer)
                states.append(to)
            row.append(number[name])
        rows.append(row)
    return ProofGraph(np.array(rows, np.int32), np.array(states), words, depth)


@dataclass(frozen=True)
class Boxes:
    """Closed boxes lo, hi (V, D): every image lies inside, every answer leads."""

    nodes: ProofGraph
    lo: Numbers
    hi: Numbers
    rounds: int


@dataclass(frozen=True)
class BlownUp:
    """Boxes that did not close, and what stands in the way: a unit that is not saturated.

    word: the shortest string at whose node unit `unit` of the state has a wide interval where tanh
    is steep; None where no unit has.
    """

    nodes: int
    depth: int
    rounds: int
    word: tuple[int, ...] | None
    unit: int


def closed_boxes(net: TanhStack, machine: Machine, nodes: ProofGraph) -> Boxes | BlownUp:
    """Grow boxes from the start until they hold all their images, or answers are lost."""
    count, size = len(nodes), net.units
    lo, hi = np.full((count, size), np.inf), np.full((count, size), -np.inf)
    lo[0] = hi[0] = 0.0
    asked = machine.asked[nodes.states]
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
        if rounds >= WIDEN_FROM and len(dirty):
            width = WIDEN_BY * (new_hi[dirty] - new_lo[dirty]) + WIDEN_LEAST
            new_lo[dirty] -= np.where(down[dirty], width, 0)
            new_hi[dirty] += np.where(up[dirty], width, 0)
        lo, hi = new_lo, new_hi
        judged = dirty[asked[dirty] >= 0]
        if len(judged):
            lost[judged] += leads(net, asked[judged], lo[judged], hi[judged]) <= 0
        if not len(dirty):
            entered = np.unique(nodes.following[nodes.following != NOWHERE])
            judged = entered[asked[entered] >= 0]
            if (leads(net, asked[judged], lo[judged], hi[judged]) > 0).all():
                return Boxes(nodes, lo, hi, rounds)
            break
        if (lost > PATIENCE).any():
            break
    return BlownUp(count, nodes.depth, rounds, *_steep(nodes, lo, hi))


def _with_slack(lo: Numbers, hi: Numbers) -> tuple[Numbers, Numbers]:
    slack = SLACK + RELATIVE_SLACK * (hi - lo)
    return lo - slack, hi + slack


def _steep(nodes: ProofGraph, lo: Numbers, hi: Numbers) -> tuple[tuple[int, ...] | None, int]:
    """Return the first word, and its unit, that has a wide interval where tanh is steep."""
    nearest = np.where((lo < 0) & (hi > 0), 0, np.minimum(np.abs(lo), np.abs(hi)))
    with np.errstate(invalid="ignore"):  # nodes that no round has reached are empty
        found = (1 - nearest**2 > 0.5) & (hi - lo > 0.1)
    for node in np.nonzero(found.any(1))[0]:
        return nodes.words[node], int(np.nonzero(found[node])[0][0])
    return None, -1
