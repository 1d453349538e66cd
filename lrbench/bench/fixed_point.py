"""`lrbench bench fixed_point`: how many iterations non-linear recurrences need, and what they cost.

Iterations: random Elman networks of 8 units with A of a given spectral radius, inputs that are
normal of a given scale, 200 positions, float64, until no state changes by more than 1e-6. The
median of several draws stands beside the figures in the specification that this project began
with, which are of one draw each.

Times: forward and backward of one layer as it is initialised, against torch's cells.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lrbench.bench.modes import training_of
from lrbench.bench.timing import Call, alternate
from lrbench.errors import UserError
from lrbench.mixers.base import Mixer
from lrbench.mixers.nonlinear.elman import Elman
from lrbench.mixers.nonlinear.fixed_point import Limits, Solution, solve
from lrbench.mixers.nonlinear.fixed_point_surrogates import SURROGATES, Surrogate
from lrbench.registry import MIXERS
from lrbench.report.figures.axes import STYLE
from lrbench.report.figures.draw import NO_METADATA, require_matplotlib
from lrbench.report.figures.panels import COLOURS, MARKERS
from lrbench.report.figures.portable_svg import portable_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

UNITS, LENGTH, TOLERANCE = 8, 200, 1e-6
# (scale of the inputs, spectral radius of A): iterations of jacobi, plain, taylor and newton as
# specified, "-" for more than 60 or an overflow
SPECIFIED: dict[tuple[float, float], tuple[str, ...]] = {
    (0.05, 0.5): ("19", "3", "3", "2"),
    (0.05, 0.9): ("-", "7", "7", "3"),
    (0.3, 0.9): ("-", "-", "41", "5"),
    (1.0, 0.5): ("14", "17", "7", "3"),
    (1.0, 0.9): ("42", "-", "-", "6"),
    (1.0, 1.8): ("", "", "", "14"),
}
FORMATS = ("svg", "pdf")
MODELS = (
    "rnn",
    "elman",
    *(f"elman_{name}_solve" for name in ("plain", "taylor", "newton", "quasi")),
    "gru",
    "gru_seed",
    *(f"gru_{name}_solve" for name in ("plain", "newton")),
)


@dataclass(frozen=True)
class IterationCount:
    """Iterations of one surrogate for one kind of network: each draw, and their median."""

    scale: float
    radius: float
    surrogate: str
    iterations: list[int]
    converged: list[bool]
    specified: str

    @property
    def median(self) -> float:
        return median(self.iterations)


@dataclass(frozen=True)
class LayerCost:
    """Seconds of forward and backward of a layer, over those of torch's cell, and iterations."""

    model: str
    length: int
    batch: int
    seconds: float
    times_torch: float
    iterations: float | None
    rounds: list[float]


def iteration_counts(
    draws: int,
    tell: Callable[[str], None] = lambda line: None,
    length: int = LENGTH,
) -> list[IterationCount]:
    """Count iterations for each kind of network and each surrogate, on `draws` networks."""
    found = []
    for (scale, radius), specified in SPECIFIED.items():
        printed = dict(zip(SURROGATES, specified, strict=False))
        networks = [network(scale, radius, seed, length) for seed in range(draws)]
        for name, surrogate in SURROGATES.items():
            solutions = [_solved(surrogate, *drawn) for drawn in networks]
            found.append(
                IterationCount(
                    scale,
                    radius,
                    name,
                    [solution.iterations for solution in solutions],
                    [solution.converged for solution in solutions],
                    printed.get(name, ""),
                )
            )
        tell(f"inputs {scale:g}, radius {radius:g}")
    return found


def network(scale: float, radius: float, seed: int, length: int) -> tuple[Elman, Tensor]:
    """Return an Elman network of a spectral radius and inputs (T, 1, N) of a scale."""
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(UNITS, UNITS, generator=generator, dtype=torch.float64)
    matrix *= radius / torch.linalg.eigvals(matrix).abs().max()
    drive = torch.randn(length, 1, UNITS, generator=generator, dtype=torch.float64)
    return Elman(matrix), scale * drive


def _solved(surrogate: Surrogate, recurrence: Elman, drive: Tensor) -> Solution:
    limits = Limits(atol=TOLERANCE, rtol=0.0)
    return solve(recurrence, surrogate, drive, torch.zeros_like(drive[0]), limits)


def layer_costs(
    lengths: Sequence[int],
    width: int,
    batch: int,
    rounds: int,
    seconds: float,
    device: torch.device,
    tell: Callable[[str], None] = lambda line: None,
) -> list[LayerCost]:
    """Measure every model at every length, in turn; `batch` strings at 40, fewer at longer."""
    found = []
    for length in lengths:
        strings = max(1, batch * 40 // max(40, length))
        u = torch.randn(strings, length, width, generator=torch.Generator().manual_seed(0))
        u = u.to(device).requires_grad_()
        mixers = {name: drawn(name, width).to(device) for name in MODELS}
        calls: dict[str, Call] = {
            name: training_of(partial(mixer.outputs, u), mixer, u) for name, mixer in mixers.items()
        }
        if device.type == "cuda":
            calls = {name: partial(_waited, call) for name, call in calls.items()}
        measured = alternate(calls, rounds, seconds)
        for name, mixer in mixers.items():
            cell = "gru" if name.startswith("gru") else "rnn"
            iterations = mixer.telemetry().get("iterations", (0.0, 0))
            found.append(
                LayerCost(
                    model=name,
                    length=length,
                    batch=strings,
                    seconds=measured.time(name),
                    times_torch=measured.ratio(name, cell),
                    iterations=iterations[0] / iterations[1] if iterations[1] else None,
                    rounds=measured.seconds[name],
                )
            )
        tell(f"T {length:,}")
    return found


def drawn(name: str, width: int) -> Mixer:
    """Return a layer with the weights of seed 0."""
    entry = MIXERS.get(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        mixer: Mixer = entry.cls(entry.config(), width)
    return mixer


def _waited(call: Call) -> None:
    call()
    torch.cuda.synchronize()


def check_figure(path: Path) -> None:
    """Raise UserError, before anything is measured, for a file that could not be drawn."""
    if path.suffix.lstrip(".") not in FORMATS:
        raise UserError(f"--figure '{path}' must end in .svg or .pdf", exit_code=2)
    require_matplotlib()


def draw_figure(counts: Sequence[IterationCount], costs: Sequence[LayerCost], path: Path) -> None:
    """Write both panels to `path`. Raises UserError where that is refused."""
    import matplotlib
    from matplotlib.figure import Figure

    settings: dict[Any, Any] = {**matplotlib.rcParamsDefault, "backend": "agg", **STYLE}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(7.0, 3.8), layout="constrained")
        left, right = figure.subplots(1, 2)
        _iterations(left, counts)
        _times(right, costs)
        suffix, drawn = path.suffix.lstrip("."), io.BytesIO()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            figure.savefig(drawn, format=suffix, metadata=NO_METADATA[suffix])
            made = drawn.getvalue()
            path.write_bytes(portable_svg(made) if suffix == "svg" else made)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UserError(f"--figure '{path}': {reason}") from error


def _iterations(axes: Axes, counts: Sequence[IterationCount]) -> None:
    """A line a surrogate over the kinds of networks: the median of draws."""
    networks = list(dict.fromkeys((count.scale, count.radius) for count in counts))
    for number, name in enumerate(dict.fromkeys(count.surrogate for count in counts)):
        mine = [count.median for count in counts if count.surrogate == name]
        axes.plot(range(len(networks)), mine, label=name, **_style(number))
    axes.axhline(LENGTH, color="#6e6e6e", linewidth=0.8, linestyle=(0, (1, 1.5)))
    axes.set_yscale("log")
    _plain_ticks(axes.yaxis, (2, 5, 10, 20, 50, 100, 200))
    axes.set_xticks(range(len(networks)), [f"{scale:g}\n{radius:g}" for scale, radius in networks])
    axes.set_xlabel("scale of the inputs, spectral radius of A")
    axes.set_ylabel(f"iterations, T = {LENGTH}")
    _legend_below(axes, 3)


def _times(axes: Axes, costs: Sequence[LayerCost]) -> None:
    """A line a model over lengths: time a symbol, forward and backward."""
    reached: list[float] = []
    for number, name in enumerate(dict.fromkeys(cost.model for cost in costs)):
        mine = [cost for cost in costs if cost.model == name]
        per_symbol = [cost.seconds * 1e6 / (cost.length * cost.batch) for cost in mine]
        axes.plot([cost.length for cost in mine], per_symbol, label=name, **_style(number))
        reached += per_symbol
    axes.set_xscale("log")
    axes.set_yscale("log")
    low, high = min(reached), max(reached)
    steps = (digit * 10.0**power for power in range(-3, 7) for digit in (1, 2, 5))
    _plain_ticks(axes.yaxis, [step for step in steps if low / 2 < step < high * 2])
    _plain_ticks(axes.xaxis, sorted({cost.length for cost in costs}))
    axes.set_xlabel("length T (log scale)")
    axes.set_ylabel("microseconds a symbol")
    _legend_below(axes, 2)


def _plain_ticks(axis: Axis, ticks: Sequence[float]) -> None:
    """Put plain numbers at some places of a logarithmic axis, and nothing between."""
    axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_ticks([], minor=True)


def _legend_below(axes: Axes, columns: int) -> None:
    axes.legend(ncols=columns, loc="upper center", bbox_to_anchor=(0.5, -0.24))


def _style(number: int) -> dict[str, Any]:
    marker = MARKERS[(number + number // len(COLOURS)) % len(MARKERS)]
    colour = COLOURS[number % len(COLOURS)]
    return {"color": colour, "marker": marker, "markersize": 3.2, "linewidth": 1.2}
