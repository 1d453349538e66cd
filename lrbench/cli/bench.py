"""`lrbench bench`: speed and memory, measured here and now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from lrbench.cli.bench_fixed_point import HELP as FIXED_POINT_HELP
from lrbench.cli.bench_fixed_point import fixed_point
from lrbench.cli.bench_options import (
    Models,
    Output,
    Rounds,
    Seconds,
    Words,
    chosen_mixers,
    split,
    tell,
    use_threads,
    whole_numbers,
)
from lrbench.cli.bench_papers import PAPER_HELP, TREES_HELP, fan2024_speed, rir_table1

HELP = (
    "Measure speed and memory on this machine.\n\n"
    "What is compared takes turns, and medians of rounds are told: ratios mean more than times"
    " where other programs run as well."
)
TRAIN_HELP = (
    "What one training update of each model costs, as a multiple of the first model's.\n\n"
    "For example: lrbench bench train --models blockdiag,s4d,lru --tasks sum. KEY=VALUE words apply"
    " to every model."
)
MODES_HELP = (
    "Each way to evaluate a mixer, forward and backward, against a loop over single steps.\n\n"
    "For example: lrbench bench modes --models s4d,lru --lengths 40,500,5000"
)
SCAN_HELP = (
    "Which algorithm is fastest for which recurrence, forward and backward.\n\n"
    "algorithm=auto goes by a table like this one, which was made on another machine; --output"
    " writes yours.\n\n"
    "For example: lrbench bench scan --structures diagonal,blocks --lengths 40,512"
)


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    benches = typer.Typer(help=HELP, no_args_is_help=True)
    for name, (measure, text) in COMMANDS.items():
        benches.command(name, help=text)(measure)
    app.add_typer(benches, name="bench")


def train(
    words: Words = None,
    models: Models = "",
    tasks: Annotated[str, typer.Option(help="Tasks, comma-separated.")] = "sum",
    rounds: Rounds = 3,
    seconds: Seconds = 0.5,
    output: Output = None,
) -> None:
    """Measure training updates."""
    from lrbench.bench.timing import keep
    from lrbench.bench.updates import UpdateCost, update_costs
    from lrbench.cli.planning import composed
    from lrbench.console import results
    from lrbench.report.output.display import columns_table, count

    names = chosen_mixers(models)
    costs: list[UpdateCost] = []
    for task in split(tasks):
        configs = [composed([f"task={task}", f"model={name}", *(words or [])]) for name in names]
        use_threads(configs[0])
        found = update_costs(configs, rounds, seconds, tell)
        costs += found
        columns_table(
            results(),
            {
                task: [cost.model for cost in found],
                "parameters": [count(cost.parameters) for cost in found],
                "updates/s": [f"{1 / cost.seconds:.1f}" for cost in found],
                f"times {names[0]}": [f"{cost.ratio:.2f}" for cost in found],
                "strings/s": [f"{cost.strings_per_second:,.0f}" for cost in found],
                "outside model": [
                    "-" if cost.outside is None else f"{cost.outside:.0%}" for cost in found
                ],
                "peak": [f"+{cost.peak_bytes / 2**20:.0f} MiB" for cost in found],
            },
        )
    if output is not None:
        options = {"rounds": rounds, "seconds": seconds, "words": words or []}
        keep(output, "training updates", options, {"costs": [asdict(cost) for cost in costs]})


def modes(
    words: Words = None,
    models: Models = "",
    lengths: Annotated[str, typer.Option(help="Lengths, comma-separated.")] = "40,500",
    batch: Annotated[int, typer.Option(help="Strings side by side at 40, fewer at longer.")] = 128,
    rounds: Rounds = 3,
    seconds: Seconds = 0.2,
    output: Output = None,
) -> None:
    """Measure modes against the step loop."""
    import torch

    from lrbench.bench.modes import ModeCost, mode_costs
    from lrbench.bench.timing import keep
    from lrbench.cli.planning import composed
    from lrbench.console import results
    from lrbench.registry import MIXERS
    from lrbench.report.output.display import columns_table

    costs: list[ModeCost] = []
    for name in chosen_mixers(models):
        config = composed([f"model={name}", *(words or [])])
        use_threads(config)
        torch.manual_seed(config.seed)
        settings = config.model.mixer  # type: ignore[attr-defined]
        mixer = MIXERS.get(name).cls(settings, config.model.width)
        for length in whole_numbers("lengths", lengths):
            strings = max(1, batch * 40 // max(40, length))
            costs += mode_costs(name, mixer, length, strings, rounds, seconds, tell)
        mine = [cost for cost in costs if cost.model == name]
        columns_table(
            results(),
            {
                name: [cost.mode for cost in mine],
                "T": [f"{cost.length:,}" for cost in mine],
                "B": [str(cost.batch) for cost in mine],
                "ms": [f"{cost.seconds * 1e3:.2f}" for cost in mine],
                "faster than the loop": [f"{cost.speed_up:.2f}" for cost in mine],
            },
        )
    if output is not None:
        options = {"rounds": rounds, "seconds": seconds, "words": words or []}
        keep(output, "modes of mixers", options, {"costs": [asdict(cost) for cost in costs]})


def scan(
    structures: Annotated[
        str, typer.Option(help="diagonal, blocks, constant_blocks, .., comma-separated.")
    ] = "",
    lengths: Annotated[str, typer.Option(help="Lengths, comma-separated.")] = "40,512",
    batches: Annotated[str, typer.Option(help="Strings side by side, comma-separated.")] = "1,128",
    rounds: Rounds = 3,
    seconds: Seconds = 0.05,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    output: Annotated[
        Path | None, typer.Option(help="Write the fastest of each size, as CSV.")
    ] = None,
) -> None:
    """Measure scans."""
    import torch

    from lrbench.bench.scans import CANDIDATES, cases, scan_costs, write_table
    from lrbench.console import results
    from lrbench.report.output.display import columns_table
    from lrbench.runs.train.validate import resolve_device

    torch.set_num_threads(1)
    chosen = cases(
        split(structures), whole_numbers("batches", batches), whole_numbers("lengths", lengths)
    )
    costs = scan_costs(chosen, rounds, seconds, resolve_device(device), tell)
    first = costs[:: len(CANDIDATES)]
    fields = {
        "ms": [cost.size.structure for cost in first],
        "b": [str(cost.size.block) for cost in first],
        "table": ["yes" if cost.size.indexed else "" for cost in first],
        "T": [f"{cost.size.length:,}" for cost in first],
        "B": [str(cost.batch) for cost in first],
    }
    for place, name in enumerate(CANDIDATES):
        ms = [cost.seconds * 1e3 for cost in costs[place :: len(CANDIDATES)]]
        fields[name] = [f"{value:.2f}" for value in ms]
    best = [cost.algorithm for cost in costs if cost.times_fastest == 1.0]
    columns_table(results(), {**fields, "fastest": best})
    if output is not None:
        write_table(costs, output)


COMMANDS: dict[str, tuple[Callable[..., None], str]] = {
    "train": (train, TRAIN_HELP),
    "modes": (modes, MODES_HELP),
    "scan": (scan, SCAN_HELP),
    "fan2024_speed": (fan2024_speed, PAPER_HELP),
    "rir_table1": (rir_table1, TREES_HELP),
    "fixed_point": (fixed_point, FIXED_POINT_HELP),
}
