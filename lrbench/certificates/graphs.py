"""Graphs of a proof: the strings that share a node, and so a box.

Every node has one state of the task. Beyond that, strings are distinguished in one of two ways:

    suffixes   by their last j symbols, after a tree of the first words
    gathered   by where they lead: a string goes to the first node of its task state whose own
               first string is led, by every next symbol, to within a distance of where it is led

The second needs few nodes where the network forgets, and many where it remembers, for example a
symbol long past, or two attractors under one symbol.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrbench.certificates.images import Cells, Numbers, images
from lrbench.tasks.machine import NOWHERE, Machine

MOST_NUMBERS = 1 << 26  # that nodes are compared by, at once: 256 MiB

Word = tuple[int, ...]


@dataclass(frozen=True)
class ProofGraph:
    """The graph of a proof: `following` (V, S), `NOWHERE` where no valid string goes on.

    states (V,): the task's state at each node. words: a string that leads there, none shorter.
    depth: how many of the last symbols a node knows, of suffixes. within: the distance, of gathered
    nodes.
    """

    following: NDArray[np.int32]
    states: NDArray[np.int64]
    words: list[Word]
    depth: int = 0
    within: float | None = None

    def __len__(self) -> int:
        return len(self.states)


@dataclass
class _Growing:
    """Nodes in breadth-first order while their edges are being found."""

    states: list[int]
    words: list[Word] = field(default_factory=lambda: [()])
    rows: list[list[int]] = field(default_factory=list)

    def add(self, before: int, symbol: int, state: int) -> int:
        self.states.append(state)
        self.words.append((*self.words[before], symbol))
        return len(self.states) - 1

    def graph(self, **more: Any) -> ProofGraph:
        return ProofGraph(np.array(self.rows, np.int32), np.array(self.states), self.words, **more)


def suffix_graph(machine: Machine, depth: int, most: int) -> ProofGraph | None:
    """Return the graph that knows the last `depth` symbols; None if it has more than `most` nodes.

    Words of up to `depth` symbols are a tree from node 0; from there on a node is a state of the
    task with the last symbols.
    """
    table = machine.table
    nodes = _Growing([machine.start])
    number: dict[Any, int] = {}
    contexts: list[Any] = [()]
    for node, _ in enumerate(contexts):  # grows
        row = []
        for symbol in range(machine.symbols):
            to = int(table[nodes.states[node], symbol])
            if to == NOWHERE:
                row.append(NOWHERE)
                continue
            word = nodes.words[node]
            short = len(word) < depth
            name: Any = (*word, symbol) if short else (to, _last((*word, symbol), depth))
            if name not in number:
                if len(contexts) == most:
                    return None
                number[name] = nodes.add(node, symbol, to)
                contexts.append(name)
            row.append(number[name])
        nodes.rows.append(row)
    return nodes.graph(depth=depth)


def _last(word: Word, depth: int) -> Word:
    return word[len(word) - depth :]


def gathered_graph(net: Cells, machine: Machine, within: float, most: int) -> ProofGraph | None:
    """Return the graph of strings gathered by where they lead; None beyond `most` nodes.

    Where two strings lead is compared by all states that are one symbol further, in the largest
    difference of any carried number. A node that no node is near enough to is a new one.
    """
    symbols, size, table = machine.symbols, net.carried, machine.table
    most = min(most, max(1, MOST_NUMBERS // (symbols * size)))
    nodes = _Growing([machine.start])
    leading = np.zeros((most, symbols * size), np.float32)  # of each node
    leading[0] = _one_further(net, symbols, np.zeros((1, size)))
    of_state: dict[int, list[int]] = {}  # the start is gathered with nothing: its state is no box
    done = 0
    while done < len(nodes.states):
        frontier = range(done, len(nodes.states))
        for first in range(frontier.start, frontier.stop, max(1, most // symbols)):
            part = range(first, min(frontier.stop, first + max(1, most // symbols)))
            reached = leading[part.start : part.stop].astype(float).reshape(-1, size)
            further = _one_further(net, symbols, reached).reshape(len(part), symbols, -1)
            for node in part:
                row = []
                for symbol in range(symbols):
                    to = int(table[nodes.states[node], symbol])
                    if to == NOWHERE:
                        row.append(NOWHERE)
                        continue
                    mine, led = of_state.setdefault(to, []), further[node - first, symbol]
                    apart = np.abs(leading[mine] - led).max(1) if mine else np.array([np.inf])
                    if apart.min() > within:
                        if len(nodes.states) == most:
                            return None
                        leading[len(nodes.states)] = led
                        mine.append(nodes.add(node, symbol, to))
                        row.append(mine[-1])
                    else:
                        row.append(mine[int(apart.argmin())])
                nodes.rows.append(row)
        done = frontier.stop
    return nodes.graph(within=within)


def _one_further(net: Cells, symbols: int, states: Numbers) -> NDArray[np.float32]:
    """Return the states (N, S D) that each symbol leads to from states (N, D)."""
    after = [sum(images(net, symbol, states, states)) / 2 for symbol in range(symbols)]
    return np.concatenate(after, 1).astype(np.float32)
