"""`lrbench bench fixed_point`: the words of it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lrbench.errors import UserError

if TYPE_CHECKING:
    from lrbench.bench.fixed_point import IterationCount, LayerCost

HELP = (
    "Non-linear recurrent networks by iteration: how many iterations, and what they cost.\n\n"
    "Iterations of random tanh networks against the scale of their inputs and their spectral"
    " radius; time of forward and backward against length, beside torch's cells.\n\n"
    "For example: lrbench bench fixed_point --lengths 40,500 --figure fixed_point.svg"
)
LEAST = 8  # units of a layer that is timed


def fixed_point(
    lengths: Annotated[str, typer.Option(help="Lengths, comma-separated.")] = "40,128,512",
    draws: Annotated[int, typer.Option(help="Random networks of each kind.")] = 5,
    width: Annotated[int, typer.Option(help="Units of the layers that are timed.")] = 64,
    batch: Annotated[int, typer.Option(help="Strings side by side at 40, fewer at longer.")] = 128,
    rounds: Annotated[int, typer.Option(help="Rounds, each with a time for everything.")] = 3,
    seconds: Annotated[float, typer.Option(help="How long each is timed in a round.")] = 0.2,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    output: Annotated[
        Path | None, typer.Option(help="Write the raw numbers to this file, as JSON.")
    ] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw them to this file, SVG or PDF.")] = None,
) -> None:
    """Measure solvers of non-linear recurrences."""
    import torch

    from lrbench.bench.fixed_point import iteration_counts, layer_costs
    from lrbench.bench.fixed_point_figure import check_figure, draw_figure
    from lrbench.bench.timing import keep
    from lrbench.cli.bench_options import tell, whole_numbers
    from lrbench.runs.train.validate import resolve_device

    for name, value, least in (("draws", draws, 1), ("width", width, LEAST), ("batch", batch, 1)):
        if value < least:
            raise UserError(f"--{name} must be at least {least}, not {value}", exit_code=2)
    if figure is not None:
        check_figure(figure)
    torch.set_num_threads(1)
    chosen, where = whole_numbers("lengths", lengths), resolve_device(device)
    counts = iteration_counts(draws, tell)
    _show_iterations(counts)
    costs = layer_costs(chosen, width, batch, rounds, seconds, where, tell)
    _show_times(costs)
    if figure is not None:
        draw_figure(counts, costs, figure)
    if output is not None:
        options = {"lengths": chosen, "draws": draws, "width": width, "batch": batch}
        options |= {"rounds": rounds, "seconds": seconds, "device": str(where)}
        found = {
            "iterations": [asdict(count) for count in counts],
            "costs": [asdict(cost) for cost in costs],
        }
        keep(output, "non-linear recurrences by iteration", options, found)


def _show_iterations(counts: list[IterationCount]) -> None:
    from lrbench.console import results
    from lrbench.report.output.display import columns_table

    by_kind: dict[tuple[float, float], list[IterationCount]] = {}
    for count in counts:
        by_kind.setdefault((count.scale, count.radius), []).append(count)
    fields = {
        "inputs": [f"{scale:g}" for scale, _ in by_kind],
        "radius": [f"{radius:g}" for _, radius in by_kind],
    }
    for place, count in enumerate(next(iter(by_kind.values()))):
        mine = [kind[place] for kind in by_kind.values()]
        fields[count.surrogate] = [_told(one) for one in mine]
    columns_table(results(), fields)
    results().print(
        "iterations to 1e-6, T = 200, median of draws (in brackets as specified, from one draw;"
        " -: not within 60)\n",
        markup=False,
    )


def _told(count: IterationCount) -> str:
    text = f"{count.median:g}"
    if not all(count.converged):
        text = f"{text}, {sum(count.converged)} of {len(count.converged)} converged"
    return f"{text} ({count.specified})" if count.specified else text


def _show_times(costs: list[LayerCost]) -> None:
    from lrbench.console import results
    from lrbench.report.output.display import columns_table

    columns_table(
        results(),
        {
            "forward and backward": [cost.model for cost in costs],
            "T": [f"{cost.length:,}" for cost in costs],
            "B": [str(cost.batch) for cost in costs],
            "ms": [f"{cost.seconds * 1e3:.2f}" for cost in costs],
            "times torch's": [f"{cost.times_torch:.2f}" for cost in costs],
            "iterations": [
                "-" if cost.iterations is None else f"{cost.iterations:g}" for cost in costs
            ],
        },
    )
