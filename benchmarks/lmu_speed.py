"""Training steps of Legendre memory units: the original, its linear version, the parallel one.

    python -m benchmarks.lmu_speed [--networks psmnist mackey_glass] [--lengths 98 196 392 784]
                                   [--batch 32] [--write]

The networks are those of Chilkuri & Eliasmith 2021 (arXiv:2102.11417), section 4.6 and Figure 1,
at their sizes and lengths, with made-up inputs. A step is forward, loss, backward and Adam. Each
round times every side in turn, so that each gives its own ratios. Batches are smaller than is
usual on a GPU, so that a whole table takes minutes on a CPU; the batch is printed.

    lmu_loop  the original, Eq. 15-17, with the backward that autograd makes of the loop
    lmu       the same with our closed-form backward
    lti_loop  the linear recurrence, Eq. 19, by autograd; where only the last position is read this
              is `lti`, for a backward without weights in it has nothing to save
    lti       Eq. 19 with our backward          fft    Eq. 26
    chunk     32 positions at once (ours)       final  Eq. 25, where only the last position is read

`fft` and `chunk` make the outputs of all positions even where the last alone is read.

The paper's ratios were measured on a GPU (GTX 1080) in Keras, where each step of a loop costs some
kernel launches whatever its size. On a CPU arithmetic counts, and a ratio here says how much less
of it the parallel forms need.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from lrbench.bench.timing import Rounds, alternate, keep
from lrbench.mixers.legendre.lmu import LMU, LMUConfig
from lrbench.mixers.legendre.lmu_parallel import DelayMixer, LMUParallel, LMUParallelConfig
from lrbench.training.memory import keep_freed_memory

RESULTS = Path(__file__).resolve().parent / "results"
Update = Callable[[], float]
ORIGINAL = ("lmu_loop", "lmu")


@dataclass(frozen=True)
class Network:
    """One experiment of the paper: sizes of our model and of the original it is compared with."""

    name: str
    length: int
    order: int
    theta: float
    outputs: int
    hidden: int
    classes: int
    last: bool
    lmu_order: int
    lmu_units: int
    batch: int
    parallel: str  # the side that the paper's ratio is about
    paper: float

    @property
    def sides(self) -> tuple[str, ...]:
        rest = (
            ("lti", "fft", "chunk", "final") if self.last else ("lti_loop", "lti", "fft", "chunk")
        )
        return (*ORIGINAL, *rest)


NETWORKS = {
    "psmnist": Network("psmnist", 784, 468, 784, 346, 0, 10, True, 256, 212, 32, "final", 220),
    # units of the original: as many parameters (17,136) as ours (17,243), footnote 10
    "mackey_glass": Network(
        "mackey_glass", 5000, 40, 50, 140, 80, 1, False, 40, 111, 16, "fft", 64
    ),
}


def training_step(network: Network, side: str, seed: int = 0) -> Update:
    """Return the function that makes one training step of `side` and returns its loss."""
    torch.manual_seed(seed)
    x = torch.randn(network.batch, network.length, 1)
    mixer, read = _mixer(network, side)
    head = _head(mixer.out_width, 0 if side in ORIGINAL else network.hidden, network.classes)
    optimiser = torch.optim.Adam([*mixer.parameters(), *head.parameters()])

    def update() -> float:
        optimiser.zero_grad()
        value = _loss(head(read(x)), x)
        value.backward()
        optimiser.step()
        return value.item()

    return update


def _mixer(network: Network, side: str) -> tuple[Any, Callable[[Tensor], Tensor]]:
    """Return the mixer and what it gives the head: (B, d_o), or (B, T, d_o)."""
    if side in ORIGINAL:
        lmu = LMU(LMUConfig(network.lmu_order, network.theta, network.lmu_units), 1)
        every = (lambda x: plain_lmu(lmu, x)) if side == "lmu_loop" else (lambda x: lmu(x)[0])
        return lmu, (lambda x: every(x)[:, -1]) if network.last else every
    ours = LMUParallel(LMUParallelConfig(network.order, network.theta, outputs=network.outputs), 1)
    if side == "lti_loop" or (side == "lti" and network.last):
        return ours, lambda x: plain_lti(ours, x, network.last)
    if network.last:
        return ours, lambda x: ours.last(x, None, side)[0]
    return ours, lambda x: ours(x, None, side)[0]


def _head(width: int, hidden: int, classes: int) -> nn.Module:
    if not hidden:
        return nn.Linear(width, classes)
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, classes))


def _loss(logits: Tensor, x: Tensor) -> Tensor:
    """Predict the sign of the first input, or each input."""
    if logits.dim() == 2:
        return cross_entropy(logits, (x[:, 0, 0] > 0).long())
    return mse_loss(logits, x)


def plain_lmu(mixer: LMU, x: Tensor) -> Tensor:
    """Return h (B, T, d_h) by a loop that autograd follows, Eq. 15-17."""
    a, b = mixer.network.matrices(x)
    h, m = mixer.initial_state(len(x))
    e_h, e_m = mixer.feedback[: mixer.units], mixer.feedback[mixer.units :]
    drive, inner = mixer.encoder(x)[..., 0].unbind(1), mixer.skip(x).unbind(1)
    outputs = []
    for driven, at in zip(drive, inner, strict=True):
        u = driven + h @ e_h + m @ e_m
        m = m @ a.T + u[:, None] * b
        h = torch.tanh(at + mixer.recurrent(h) + mixer.memory(m))
        outputs.append(h)
    return torch.stack(outputs, 1)


def plain_lti(mixer: DelayMixer, x: Tensor, last: bool) -> Tensor:
    """Return o by a loop that autograd follows, Eq. 19, at the last position or at each."""
    a, b = mixer.network.matrices(x)
    m, states = mixer.initial_state(len(x)), []
    for u in mixer.encode(x).unbind(1):
        m = m @ a.T + u[..., None] * b
        if not last:
            states.append(m)
    read = m.flatten(1) if last else torch.stack(states, 1).flatten(2)
    return torch.relu(mixer.memory(read) + mixer.skip(x[:, -1] if last else x))


def measure(
    network: Network, rounds: int, seconds: float, sides: tuple[str, ...] | None = None
) -> Rounds:
    """Time every side in turn, in each of `rounds`."""
    sides = sides or network.sides
    return alternate({side: training_step(network, side) for side in sides}, rounds, seconds)


def summary(network: Network, measured: Rounds) -> list[dict[str, Any]]:
    """Return one row a side: seconds a step, and how many times faster than each original."""
    rows = []
    for side in measured.seconds:
        row: dict[str, Any] = {"network": network.name, "side": side, "batch": network.batch}
        row["seconds"] = measured.time(side)
        for original in ORIGINAL:
            ratios = measured.ratios(original, side)
            row[f"times_{original}"] = median(ratios)
            row[f"times_{original}_range"] = [min(ratios), max(ratios)]
        row["paper"] = network.paper if side == network.parallel else None
        rows.append(row)
    return rows


def printed(network: Network, rows: list[dict[str, Any]]) -> str:
    """Return the table a person reads about one network."""
    lines = [
        f"{network.name}: n={network.length}, batch {network.batch}; a training step",
        f"  {'':9} {'ms':>9} {'x lmu_loop':>11} {'x lmu':>8} {'range':>15} {'paper':>6}",
    ]
    for row in rows:
        low, high = row["times_lmu_range"]
        paper = f"{row['paper']:g}" if row["paper"] else ""
        lines.append(
            f"  {row['side']:9} {1000 * row['seconds']:9.2f} {row['times_lmu_loop']:11.2f}"
            f" {row['times_lmu']:8.2f} {f'{low:.2f}..{high:.2f}':>15} {paper:>6}"
        )
    return "\n".join(lines)


def against_length(
    network: Network, lengths: list[int], rounds: int, seconds: float
) -> list[dict[str, Any]]:
    """Return seconds a step of the linear and parallel sides by length: Figure 1 right."""
    sides = tuple(side for side in network.sides if side not in ORIGINAL)
    rows = []
    for length in lengths:
        measured = measure(replace(network, length=length), rounds, seconds, sides)
        for side in sides:
            row = {"network": network.name, "side": side, "length": length, "batch": network.batch}
            rows.append(row | {"seconds": measured.time(side)})
    return rows


def parse(words: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--networks", nargs="+", choices=list(NETWORKS), default=list(NETWORKS))
    parser.add_argument("--lengths", nargs="*", type=int, default=[98, 196, 392, 784, 1568])
    parser.add_argument("--batch", type=int, help="32 for psmnist, 16 for mackey_glass")
    parser.add_argument("--rounds", type=int, default=3, help="at least 3")
    parser.add_argument("--seconds", type=float, default=1.0, help="per side and round")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write results/lmu_speed*")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    """Measure, print, and with `--write` keep the raw numbers."""
    options = parse(words)
    torch.set_num_threads(options.threads)
    keep_freed_memory()
    networks: dict[str, Any] = {}
    curve: list[dict[str, Any]] = []
    for name in options.networks:
        network = NETWORKS[name]
        network = replace(network, batch=options.batch or network.batch)
        measured = measure(network, options.rounds, options.seconds)
        rows = summary(network, measured)
        print(printed(network, rows), flush=True)
        networks[name] = {"sizes": asdict(network), "rows": rows, "rounds": measured.seconds}
        curve += against_length(network, options.lengths, options.rounds, options.seconds / 4)
    for row in curve:
        print(f"{row['network']:12} {row['side']:9} n={row['length']:<6} {row['seconds']:.4f} s")
    if options.write:
        settings = {key: value for key, value in vars(options).items() if key != "write"}
        what = "training steps of lmu and lmu_parallel"
        keep(RESULTS / "lmu_speed.json", what, settings, {"networks": networks})
        _write_curve(curve)


def _write_curve(curve: list[dict[str, Any]]) -> None:
    if not curve:
        return
    with (RESULTS / "lmu_speed_length.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(curve[0]))
        writer.writeheader()
        writer.writerows(curve)


if __name__ == "__main__":
    main()
