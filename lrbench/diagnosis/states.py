"""The states that a model is in on random strings, by position: how far apart, how right.

Strings are read symbol by symbol once, to the longest length, in constant memory. At every position
the answers are looked at; before each length asked for, the states of the last positions are kept
for a moment, and looked at together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from lrbench.certificates.reader import SymbolReader
from lrbench.diagnosis.extraction import NOT_FINITE
from lrbench.mixers.states import leaves
from lrbench.tasks.base import Task
from lrbench.tasks.machine import Machine
from lrbench.tasks.stream import Stream

Numbers = NDArray[np.float64]
Rows = NDArray[np.int64]

STRINGS = 256
WINDOW = 32  # positions whose states are looked at together, up to a length
MOST_FLOATS = 1 << 24  # of them; of wide states fewer positions are kept
SUFFIXES = (0, 1, 2, 3)  # last symbols that are known of a state
FEWEST = 8  # states of one kind that have a radius
SEPARATES = 0.99  # nearest-centre accuracy from which a layer tells the task's states apart
PIECE = 256  # positions that are drawn at a time
GROWTH = 1.25  # of a bin of positions to the next


@dataclass(frozen=True)
class Bin:
    """Positions first..last (1-based) of all strings, those that were asked.

    margin: logit of the right answer minus the largest other, mean and least; None: none is finite.
    norms: the mean 2-norm of each part of the state.
    """

    first: int
    last: int
    asked: int  # positions with an answer; a key of the JSON of `lrbench diagnose`
    right: int
    mean_margin: float | None
    least_margin: float | None
    norms: tuple[float, ...]


@dataclass(frozen=True)
class Saturation:
    """How near to ±1 the numbers of a part of the state are. largest: the largest |h|.

    Shares are None where some number is beyond one: such a part does not saturate.
    """

    part: str
    largest: float
    above_99: float | None
    above_90: float | None
    below_50: float | None


@dataclass(frozen=True)
class Radius:
    """States of one layer that agree in the task's state and their last `suffix` symbols.

    groups: how many kinds were seen often enough; typical: the root mean square distance to their
    own mean, over all of them; largest: the greatest distance of a state to its kind's mean. None
    where no kind was seen so often.
    """

    suffix: int
    groups: int
    typical: float | None
    largest: float | None


@dataclass(frozen=True)
class LayerStates:
    """One layer's states at a length.

    apart: the least distance between the means of two states of the task. nearest: of half the
    strings, the share whose nearest mean of the other half, among those of the same last symbol, is
    that of their own state of the task. nearest_first: the same with the means of the first length.
    """

    layer: int
    radii: tuple[Radius, ...]
    apart: float | None
    nearest: float | None
    nearest_first: float | None


@dataclass(frozen=True)
class AtLength:
    """What is seen at the positions up to a length.

    by_state: (asked, right) for each state of the task; confusion: (right class, class given, how
    often) of those that came, given `NOT_FINITE` where a logit is none; layers, saturation and
    norms are empty where states are not looked at. mean_margin, least_margin, norms: as in `Bin`.
    """

    length: int
    positions: int
    by_state: tuple[tuple[int, int], ...]
    confusion: tuple[tuple[int, int, int], ...]
    saturation: tuple[Saturation, ...]
    layers: tuple[LayerStates, ...]
    picture: tuple[tuple[float, float, int], ...] = ()  # states in a plane, and the task's
    mean_margin: float | None = None
    least_margin: float | None = None
    norms: tuple[float, ...] = ()


@dataclass(frozen=True)
class Survey:
    """Everything that random strings show. `parts` names the parts of the carried state."""

    strings: int
    parts: tuple[str, ...]
    bins: tuple[Bin, ...]
    lengths: tuple[AtLength, ...]

    def first_lost(self) -> tuple[int, tuple[int, ...]] | None:
        """Return the first length at which layers stop to separate the states, and which.

        They did at the length before it. None where none does, or none ever did.
        """
        for before, after in zip(self.lengths, self.lengths[1:], strict=False):
            lost = tuple(
                new.layer
                for old, new in zip(before.layers, after.layers, strict=True)
                if _separates(old) and not _separates(new)
            )
            if lost:
                return after.length, lost
        return None

    def separating(self) -> tuple[int, ...]:
        """Return the layers that separate the task's states at the first length."""
        return tuple(one.layer for one in self.lengths[0].layers if _separates(one))


def _separates(layer: LayerStates) -> bool:
    return layer.nearest is not None and layer.nearest >= SEPARATES


def survey(
    model: nn.Module,
    task: Task,
    machine: Machine,
    lengths: Sequence[int],
    stream: Stream,
    device: torch.device | str = "cpu",
    strings: int = STRINGS,
) -> Survey:
    """Read random strings of a task to the longest of `lengths` and look at states and answers.

    `lengths` increase and are valid lengths of the task. Of a model whose state grows with the
    string states are not looked at: `parts` is empty. Raises UserError as `search` does.
    """
    reader = SymbolReader(model, device)
    reader.check_that_strings_stand_alone(machine)
    numbers = reader.numbers(machine.symbols)
    fixed = getattr(model, "state_size", 0) is not None
    window = max(1, min(WINDOW, MOST_FLOATS // (strings * numbers)))
    ends = {n: task.positions(n) for n in lengths}
    looked = _Survey(machine, ends, window if fixed else WINDOW, fixed, strings)
    state: Any = None
    at = np.full(strings, machine.start)
    last: Rows = np.full((strings, max(SUFFIXES)), -1)
    table = machine.table
    position = 0
    for piece in task.segments(stream, strings, lengths[-1], PIECE, "cpu"):
        for tokens in piece.tokens.T:
            position += 1
            logits, state = reader.step(tokens.contiguous(), state)
            at = table[at, tokens.numpy()]
            last = np.concatenate([last[:, 1:], tokens.numpy()[:, None]], axis=1)
            looked.step(position, logits, state, at, last)
    return looked.survey()


def margins_along(
    model: nn.Module, machine: Machine, word: Sequence[int], device: torch.device | str = "cpu"
) -> tuple[float | None, ...]:
    """Return by how much the right answer leads after each symbol of a valid string, in logits.

    None where nothing is asked, or a logit is not finite.
    """
    reader, state = SymbolReader(model, device), None
    found: list[float | None] = []
    for symbol, at in zip(word, machine.walk(word), strict=True):
        logits, state = reader.step(torch.tensor([symbol]), state)
        margins, _ = _judged(logits, machine.targets[[at]])
        scored = machine.answers[at] is not None and math.isfinite(margins[0])
        found.append(float(margins[0]) if scored else None)
    return tuple(found)


class _Survey:
    """What was seen so far: sums over bins of positions, and the windows that are open."""

    def __init__(
        self, machine: Machine, ends: Mapping[int, int], window: int, fixed: bool, strings: int
    ) -> None:
        """ends: the last position of a string of each length, both increasing."""
        self.machine, self.fixed, self.strings = machine, fixed, strings
        self.targets = machine.targets
        self.windows = {
            n: _Window(max(1, end - min(window, (end + 1) // 2) + 1), end)
            for n, end in ends.items()
        }
        self.edges = _edges(max(ends.values()))
        self.parts: tuple[str, ...] = ()
        self.bins: list[Bin] = []
        self.open = _OpenBin()
        self.done: list[AtLength] = []
        self.centres: list[dict[tuple[int, int], Numbers]] = []  # of the first length, by layer
        self.plane: tuple[Numbers, Numbers] | None = None  # of the first length's last layer

    def step(self, position: int, logits: Tensor, state: Any, at: Rows, last: Rows) -> None:
        """Look at one position of all strings."""
        margins, given = _judged(logits, self.targets[at])
        scored, right = self.targets[at] >= 0, given == self.targets[at]
        bin_ = self.open
        bin_.positions += 1
        bin_.scored += int(scored.sum())
        bin_.right += int(right.sum())
        bin_.margins.append(margins[scored])
        if self.fixed:
            numbers = [_real(leaf) for layer in state for leaf in leaves(layer)]
            if not self.parts:
                self.parts = _names(state)
            bin_.norms.append(
                torch.stack([torch.linalg.vector_norm(x, dim=1).mean() for x in numbers])
            )
        if position == self.edges[len(self.bins)]:
            self.bins.append(bin_.closed(position))
            self.open = _OpenBin()
        for length, window in self.windows.items():
            if window.first <= position <= window.end:
                window.add(state if self.fixed else None, at, last, given, margins)
                if position == window.end:
                    self._close(length, window)

    def survey(self) -> Survey:
        return Survey(self.strings, self.parts, tuple(self.bins), tuple(self.done))

    def _close(self, length: int, window: _Window) -> None:
        """Look at a window's states together, and forget them."""
        at, last, rows = (np.concatenate(part) for part in (window.at, window.last, window.rows))
        given, targets = np.concatenate(window.given), self.targets[at]
        scored, right = targets >= 0, given == targets
        pairs = np.stack((targets[scored], given[scored]), 1)
        kinds, counts = np.unique(pairs, axis=0, return_counts=True)
        kinds_and_counts = zip(kinds.tolist(), counts.tolist(), strict=True)
        confusion = tuple((wanted, got, count) for (wanted, got), count in kinds_and_counts)
        by_state = tuple(
            (int(scored[at == q].sum()), int(right[at == q].sum()))
            for q in range(self.machine.states)
        )
        saturation: list[Saturation] = []
        layers: list[LayerStates] = []
        picture: tuple[tuple[float, float, int], ...] = ()
        norms: list[float] = []
        if self.fixed:
            names = iter(self.parts)
            for number, layer in enumerate(window.layers, 1):
                parts = [torch.cat(leaf).double().numpy() for leaf in layer]
                saturation += [_saturation(next(names), part) for part in parts]
                norms += [float(np.linalg.norm(part, axis=1).mean()) for part in parts]
                x = np.concatenate(parts, axis=1)
                first = self.centres[number - 1] if self.done else None
                looked, centres = _layer_states(number, x, at, last, rows, first)
                if not self.done:
                    self.centres.append(centres)
                layers.append(looked)
            picture = self._picture(x, at, rows)
        self.done.append(
            AtLength(
                length,
                window.end - window.first + 1,
                by_state,
                confusion,
                tuple(saturation),
                tuple(layers),
                picture,
                *_mean_and_least(np.concatenate(window.margins)[scored]),
                tuple(norms),
            )
        )
        window.forget()

    def _picture(
        self, x: Numbers, at: Rows, rows: Rows, most: int = 400
    ) -> tuple[tuple[float, float, int], ...]:
        """Return states of the last layer in the plane of the first length's two widest axes."""
        kept = np.isfinite(x).all(1)
        x, at = x[kept], at[kept]
        if len(x) < 3 or x.shape[1] < 2:
            return ()
        if self.plane is None:
            mean = x.mean(0)
            some = x[:: max(1, len(x) // 1000)] - mean
            _, _, axes = np.linalg.svd(some, full_matrices=False)
            ends = axes[:2][np.arange(2), np.abs(axes[:2]).argmax(1)]
            self.plane = mean, (axes[:2] * np.sign(ends)[:, None]).T
        mean, axes = self.plane
        flat_ = (x[-most:] - mean) @ axes
        return tuple(
            (float(a), float(b), int(q)) for (a, b), q in zip(flat_, at[-most:], strict=True)
        )


@dataclass
class _OpenBin:
    positions: int = 0
    scored: int = 0
    right: int = 0
    margins: list[Numbers] = field(default_factory=list)
    norms: list[Tensor] = field(default_factory=list)

    def closed(self, last: int) -> Bin:
        norms = torch.stack(self.norms).double().mean(0).tolist() if self.norms else []
        return Bin(
            last - self.positions + 1,
            last,
            self.scored,
            self.right,
            *_mean_and_least(np.concatenate(self.margins)),
            tuple(norms),
        )


@dataclass
class _Window:
    """The states of positions `first` to `end`: by layer, by part, a tensor (B, numbers) each."""

    first: int
    end: int
    layers: list[list[list[Tensor]]] = field(default_factory=list)
    at: list[Rows] = field(default_factory=list)
    last: list[Rows] = field(default_factory=list)
    rows: list[Rows] = field(default_factory=list)
    given: list[Rows] = field(default_factory=list)
    margins: list[Numbers] = field(default_factory=list)

    def add(self, state: Any, at: Rows, last: Rows, given: Rows, margins: Numbers) -> None:
        self.at.append(at)
        self.last.append(last)
        self.rows.append(np.arange(len(at)))
        self.given.append(given)
        self.margins.append(margins)
        if state is None:
            return
        for number, layer in enumerate(state):
            if number == len(self.layers):
                self.layers.append([[] for _ in leaves(layer)])
            for part, leaf in zip(self.layers[number], leaves(layer), strict=True):
                part.append(_real(leaf).cpu())

    def forget(self) -> None:
        for part in (self.layers, self.at, self.last, self.rows, self.given, self.margins):
            part.clear()


def _mean_and_least(margins: Numbers) -> tuple[float | None, float | None]:
    """Return the mean and the least of those that are finite, None where none is."""
    finite = margins[np.isfinite(margins)]
    return (float(finite.mean()), float(finite.min())) if len(finite) else (None, None)


def _judged(logits: Tensor, right: Rows) -> tuple[Numbers, Rows]:
    """Return the margins of right answers (B,), and the classes that are given.

    `right` are classes, negative where nothing is asked. What is not finite leads by -inf, and
    gives `NOT_FINITE`.
    """
    values = logits.detach().cpu().double().numpy()
    answers = np.maximum(right, 0)
    rows = np.arange(len(right))
    rivals = values.copy()
    rivals[rows, answers] = -np.inf
    finite = np.isfinite(values).all(1)
    with np.errstate(invalid="ignore"):
        margins = np.where(finite, values[rows, answers] - rivals.max(1), -np.inf)
    return margins, np.where(finite, values.argmax(1), NOT_FINITE)


def _layer_states(
    number: int,
    x: Numbers,
    at: Rows,
    last: Rows,
    rows: Rows,
    first: dict[tuple[int, int], Numbers] | None,
) -> tuple[LayerStates, dict[tuple[int, int], Numbers]]:
    """Look at states x (N, D) of one layer; return what is seen, and the means by kind.

    Strings of even `rows` give the means, those of odd ones are told by them.
    """
    finite = np.isfinite(x).all(1)
    x, at, last, rows = x[finite], at[finite], last[finite], rows[finite]
    if not len(x):
        return LayerStates(number, (), None, None, None), {}
    radii = tuple(_radius(x, at, last, suffix) for suffix in SUFFIXES)
    means = [x[at == q].mean(0) for q in np.unique(at)]
    gaps = [np.linalg.norm(a - b) for i, a in enumerate(means) for b in means[:i]]
    fitted, held_out = rows % 2 == 0, rows % 2 == 1
    centres = {
        (int(symbol), int(q)): x[chosen].mean(0)
        for q, symbol in np.unique(np.stack([at, last[:, -1]], 1), axis=0)
        if (chosen := fitted & (at == q) & (last[:, -1] == symbol)).any()
    }
    nearest = _nearest(x[held_out], at[held_out], last[held_out, -1], centres)
    drifted = _nearest(
        x[held_out], at[held_out], last[held_out, -1], centres if first is None else first
    )
    apart = float(min(gaps)) if gaps else None
    return LayerStates(number, radii, apart, nearest, drifted), centres


def _radius(x: Numbers, at: Rows, last: Rows, suffix: int) -> Radius:
    """Return how wide the clouds of states are that agree in task state and last symbols."""
    known = last[:, last.shape[1] - suffix :]
    _, cloud = np.unique(np.concatenate([at[:, None], known], 1), axis=0, return_inverse=True)
    cloud = cloud.reshape(-1)
    counts = np.bincount(cloud)
    sums = np.zeros((len(counts), x.shape[1]))
    np.add.at(sums, cloud, x)
    away = np.linalg.norm(x - (sums / counts[:, None])[cloud], axis=1)
    often = counts[cloud] >= FEWEST
    if not often.any():
        return Radius(suffix, 0, None, None)
    # a mean of n states lies nearer to them than the true one, by a factor of sqrt(1 - 1/n)
    wider = counts[cloud] / np.maximum(1, counts[cloud] - 1)
    typical = float(np.sqrt((away**2 * wider)[often].mean()))
    groups = int((counts >= FEWEST).sum())
    return Radius(suffix, groups, typical, float(away[often].max()))


def _nearest(
    x: Numbers, at: Rows, symbol: Rows, centres: dict[tuple[int, int], Numbers]
) -> float | None:
    """Return how many states are nearest to the mean of their own state of the task."""
    right = 0
    for one in np.unique(symbol):
        here = symbol == one
        means = [(q, mean) for (s, q), mean in centres.items() if s == one]
        if means:
            away = [((x[here] - mean) ** 2).sum(1) for _, mean in means]
            nearest = np.array([q for q, _ in means])[np.argmin(away, axis=0)]
            right += int((nearest == at[here]).sum())
    return right / len(x) if len(x) else None


def _saturation(part: str, x: Numbers) -> Saturation:
    size = np.abs(x[np.isfinite(x).all(1)])
    largest = float(size.max()) if size.size else math.inf
    if largest > 1 + 1e-6:
        return Saturation(part, largest, None, None, None)
    shares = (float(np.mean(size > 0.99)), float(np.mean(size > 0.9)), float(np.mean(size < 0.5)))
    return Saturation(part, largest, *shares)


def _real(leaf: Tensor) -> Tensor:
    """Return a tensor of carried states as real numbers (B, n)."""
    real = torch.view_as_real(leaf) if leaf.is_complex() else leaf
    real = real if real.is_floating_point() else real.double()
    return real.detach().reshape(len(leaf), -1)


def _names(state: Sequence[Any]) -> tuple[str, ...]:
    """Return 'layer 1' for a layer's state, 'layer 1, 2 of 2' where it has several parts."""
    names = []
    for number, layer in enumerate(state, 1):
        parts = len(leaves(layer))
        fields = sorted(layer) if isinstance(layer, dict) else getattr(layer, "_fields", ())
        for part in range(1, parts + 1):
            more = f", {part} of {parts}" if len(fields) != parts else f", {fields[part - 1]}"
            names.append(f"layer {number}" + (more if parts > 1 else ""))
    return tuple(names)


def _edges(longest: int) -> list[int]:
    """Return the last positions of bins that widen by a factor, to the longest length."""
    edges: list[int] = []
    width = 8.0
    while not edges or edges[-1] < longest:
        edges.append(min(longest, round(width)))
        width *= GROWTH
    return edges
