"""`lrbench bench`: speed and memory, measured here and now, and what papers timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lrbench.errors import UserError

if TYPE_CHECKING:
    from lrbench.bench.fixed_point import IterationCount, LayerCost
    from lrbench.bench.tree_speed import CellCost
    from lrbench.config import Config

HELP = (
    "Measure speed and memory on this machine.\n\n"
    "Each round times everything that is compared, in turns, and medians over rounds are printed."
    " If other programs run as well, ratios are more reliable than times."
)
TRAIN_HELP = (
    "What one training update of each model costs, as a multiple of the first model's.\n\n"
    "For example: lrbench bench train --models blockdiag,s4d,lru --tasks sum. KEY=VALUE settings"
    " apply to every model."
)
MODES_HELP = (
    "Each way to evaluate a mixer, forward and backward, against a loop over single steps.\n\n"
    "For example: lrbench bench modes --models s4d,lru --lengths 40,500,5000"
)
SCAN_HELP = (
    "Which algorithm is fastest for which recurrence, forward and backward.\n\n"
    "algorithm=auto follows such a table, which was measured on another machine; --output writes"
    " yours.\n\n"
    "For example: lrbench bench scan --structures diagonal,blocks --lengths 40,512"
)
PAPER_HELP = (
    "The loop against the parallel scan, as timed by Fan, Chi & Rudnicky 2024 (section 4.5).\n\n"
    "Theirs are seconds on a GPU for what they call an instance, ours seconds for a batch of 128"
    " strings here: compare the ratios."
)
TREES_HELP = (
    "Training on single strings of ListOps, as timed by Ray Chowdhury & Caragea 2023 (Table 1).\n\n"
    "Theirs are minutes for 100 strings on a GPU: compare the ratios to RNN-GRC, which is measured"
    " beside every model. A cell that takes too long is measured on fewer strings and says so.\n\n"
    "For example: lrbench bench rir_table1 --models ebt_grc,rir_ebt_grc --lengths 900-1000"
)
FIXED_POINT_HELP = (
    "Non-linear recurrent networks by iteration: how many iterations, and what they cost.\n\n"
    "Iterations of random tanh networks against the scale of their inputs and their spectral"
    " radius; time of forward and backward against length, beside torch's cells.\n\n"
    "For example: lrbench bench fixed_point --lengths 40,500 --figure fixed_point.svg"
)
SELFCHECK_HELP = (
    "Which kernels agree with plain code on this machine, in values and gradients.\n\n"
    "A kernel is checked when a run first needs it, and not used if it fails. This command checks"
    " one layout of each kernel, and shows which kernels runs have needed before."
)

Overrides = Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", show_default=False)]
Models = Annotated[str, typer.Option(help="Models, comma-separated; default: all.")]
Rounds = Annotated[int, typer.Option(help="Number of rounds; each times everything.")]
Seconds = Annotated[float, typer.Option(help="Seconds to time each in a round.")]
Output = Annotated[Path | None, typer.Option(help="Write the raw numbers to this file, as JSON.")]
LEAST = 8  # units of a layer that is timed


def add_to(app: typer.Typer, panel: str) -> None:
    """Register the commands."""
    benches = typer.Typer(help=HELP, no_args_is_help=True)
    for name, (measure, text) in COMMANDS.items():
        benches.command(name, help=text)(measure)
    app.add_typer(benches, name="bench", rich_help_panel=panel)


def train(
    overrides: Overrides = None,
    models: Models = "",
    tasks: Annotated[str, typer.Option(help="Tasks, comma-separated.")] = "sum",
    rounds: Rounds = 3,
    seconds: Seconds = 0.5,
    output: Output = None,
) -> None:
    """Measure training updates."""
    from lrbench.bench.timing import keep
    from lrbench.bench.updates import UpdateCost, update_costs
    from lrbench.cli.hydra.compose import composed
    from lrbench.console import results
    from lrbench.report.output.display import columns_table, count

    names = chosen_mixers(models)
    costs: list[UpdateCost] = []
    for task in split(tasks):
        configs = [
            composed([f"task={task}", f"model={name}", *(overrides or [])]) for name in names
        ]
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
        options = {"rounds": rounds, "seconds": seconds, "words": overrides or []}
        keep(output, "training updates", options, {"costs": [asdict(cost) for cost in costs]})


def modes(
    overrides: Overrides = None,
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
    from lrbench.cli.hydra.compose import composed
    from lrbench.console import results
    from lrbench.registry import ENCODERS, MIXERS
    from lrbench.report.output.display import columns_table
    from lrbench.runs.train.validate import resolve_device

    costs: list[ModeCost] = []
    chosen = chosen_mixers(models)
    if encoders := [name for name in chosen if name in ENCODERS]:
        raise UserError(
            f"{', '.join(encoders)}: an encoder has one way to be computed\n"
            "modes are those of mixers: `lrbench models` lists them"
        )
    for name in chosen:
        config = composed([f"model={name}", *(overrides or [])])
        use_threads(config)
        torch.manual_seed(config.seed)
        settings = config.model.mixer  # type: ignore[attr-defined]
        mixer = MIXERS.get(name).cls(settings, config.model.width).to(resolve_device(config.device))
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
        options = {"rounds": rounds, "seconds": seconds, "words": overrides or []}
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


def fan2024_speed(
    rounds: Rounds = 3,
    seconds: Seconds = 0.5,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    output: Output = None,
) -> None:
    """Measure section 4.5."""
    import torch

    from lrbench.bench.paper_speed import paper_speeds
    from lrbench.bench.timing import keep
    from lrbench.cli.hydra.compose import composed
    from lrbench.console import results
    from lrbench.report.output.display import columns_table
    from lrbench.runs.train.validate import resolve_device

    torch.set_num_threads(1)
    where = resolve_device(device)
    found = paper_speeds(composed, rounds, seconds, where, tell)
    columns_table(
        results(),
        {
            str(where): [row.setting.paper for row in found],
            "loop s": [f"{row.sequential:.4f}" for row in found],
            "pscan s": [f"{row.pscan:.4f}" for row in found],
            "loop/pscan": [f"{row.ratio:.3f}" for row in found],
            "paper: loop": [row.paper.sequential if row.paper else "-" for row in found],
            "pscan": [row.paper.pscan if row.paper else "-" for row in found],
            "ratio": [f"{row.paper.ratio:.2f}" if row.paper else "-" for row in found],
        },
    )
    if output is not None:
        options = {"rounds": rounds, "seconds": seconds, "device": str(where)}
        content = {"settings": [asdict(row) for row in found]}
        keep(output, "section 4.5 of Fan, Chi & Rudnicky 2024", options, content)


def rir_table1(
    models: Annotated[str, typer.Option(help="Models, comma-separated; default: all.")] = "",
    lengths: Annotated[
        str, typer.Option(help="Ranges of lengths such as 200-250, comma-separated; default: all.")
    ] = "",
    strings: Annotated[int, typer.Option(help="Strings of a cell.", min=1)] = 100,
    limit_s: Annotated[float, typer.Option(help="Seconds after which a cell has enough.")] = 300,
    memory_gb: Annotated[float, typer.Option(help="What a cell may need on a CPU.")] = 12,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    output: Output = None,
) -> None:
    """Measure Table 1."""
    from lrbench.bench.timing import keep
    from lrbench.bench.tree_speed import CellLimits, chosen_lengths, chosen_rows, measured
    from lrbench.cli.hydra.compose import composed
    from lrbench.runs.train.validate import resolve_device

    where = resolve_device(device)
    limits = CellLimits(strings, limit_s, memory_gb)
    rows, ranges = chosen_rows(split(models)), chosen_lengths(split(lengths))
    options = {**asdict(limits), "device": str(where)}
    cells: list[CellCost] = []
    for place in ranges:
        for row in rows:
            cells.append(measured(composed, row, place, limits, where))
            tell(f"{place} {row.label}: {cells[-1].strings} strings {cells[-1].failed}")
            if output is not None:  # after each cell: a table takes long
                content = {"cells": [asdict(cell) for cell in cells]}
                keep(output, "Table 1 of Ray Chowdhury & Caragea 2023", options, content)
        _show_trees(place, [cell for cell in cells if cell.lengths == place])


def _show_trees(lengths: str, cells: list[CellCost]) -> None:
    from lrbench.console import results
    from lrbench.report.output.display import columns_table
    from lrbench.report.paper.times import printed_ratio, tree_speeds

    printed = tree_speeds()
    theirs = [printed_ratio(printed, cell.paper, lengths) for cell in cells]
    columns_table(
        results(),
        {
            lengths: [cell.model for cell in cells],
            "strings": [str(cell.strings) for cell in cells],
            "s a string": [
                cell.failed if cell.seconds is None else f"{cell.seconds:.3f}" for cell in cells
            ],
            "times RNN-GRC": ["-" if cell.ratio is None else f"{cell.ratio:.2f}" for cell in cells],
            "paper": [time for time, _ in theirs],
            "MiB": [
                "-" if cell.peak_bytes is None else f"{cell.peak_bytes / 2**20:,.0f}"
                for cell in cells
            ],
            "paper: GB": [memory for _, memory in theirs],
        },
    )


def fixed_point(
    lengths: Annotated[str, typer.Option(help="Lengths, comma-separated.")] = "40,128,512",
    draws: Annotated[int, typer.Option(help="Random networks of each kind.")] = 5,
    width: Annotated[int, typer.Option(help="Units of the layers that are timed.")] = 64,
    batch: Annotated[int, typer.Option(help="Strings side by side at 40, fewer at longer.")] = 128,
    rounds: Annotated[int, typer.Option(help="Number of rounds; each times everything.")] = 3,
    seconds: Annotated[float, typer.Option(help="Seconds to time each in a round.")] = 0.2,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    output: Annotated[
        Path | None, typer.Option(help="Write the raw numbers to this file, as JSON.")
    ] = None,
    figure: Annotated[Path | None, typer.Option(help="Draw them to this file, SVG or PDF.")] = None,
) -> None:
    """Measure solvers of non-linear recurrences."""
    import torch

    from lrbench.bench.fixed_point import check_figure, draw_figure, iteration_counts, layer_costs
    from lrbench.bench.timing import keep
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

    networks: dict[tuple[float, float], list[IterationCount]] = {}
    for count in counts:
        networks.setdefault((count.scale, count.radius), []).append(count)
    fields = {
        "inputs": [f"{scale:g}" for scale, _ in networks],
        "radius": [f"{radius:g}" for _, radius in networks],
    }
    for place, count in enumerate(next(iter(networks.values()))):
        mine = [counted[place] for counted in networks.values()]
        fields[count.surrogate] = [_iterations(one) for one in mine]
    columns_table(results(), fields)
    results().print(
        "iterations to 1e-6, T = 200, median of draws (in brackets as specified, from one draw;"
        " -: not within 60)\n",
        markup=False,
    )


def _iterations(count: IterationCount) -> str:
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


def chosen_mixers(models: str) -> list[str]:
    """Return the models named, or all mixers; UserError for a name that nothing has.

    All but `foreign`, which is none before its target is named.
    """
    from lrbench.plugins import load_plugins
    from lrbench.registry import ENCODERS, FOREIGN, MIXERS

    load_plugins()
    names = split(models) or [name for name in MIXERS.names() if name != FOREIGN]
    for name in names:
        if name not in ENCODERS:
            MIXERS.get(name)
    return names


def selfcheck(
    dtype: Annotated[str, typer.Option(help="float32 or float64.")] = "float32",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    again: Annotated[bool, typer.Option("--again", help="Check anew what was checked.")] = False,
    output: Output = None,
) -> None:
    """Check kernels."""
    from lrbench.bench.selfcheck import check_all, check_dtype
    from lrbench.bench.timing import keep
    from lrbench.console import results
    from lrbench.report.output.display import columns_table
    from lrbench.runs.train.validate import resolve_device

    where = resolve_device(device)
    found = check_all(check_dtype(dtype), where, again, tell)
    columns_table(
        results(),
        {
            "kernel": [outcome.kernel.name for outcome in found],
            "layout": [", ".join(map(str, outcome.kernel.layout)) for outcome in found],
            "numbers": [outcome.kernel.dtype for outcome in found],
            "s": [f"{outcome.seconds:.2f}" for outcome in found],
            "outcome": [outcome.reason or "trusted" for outcome in found],
        },
    )
    if output is not None:
        options = {"dtype": dtype, "device": str(where), "again": again}
        keep(output, "self-check of kernels", options, {"kernels": [asdict(one) for one in found]})


def split(text: str) -> list[str]:
    """Return the comma-separated words of `text`; UserError for one that is there twice."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if len(set(parts)) < len(parts):
        raise UserError(f"'{text}' names something twice", exit_code=2)
    return parts


def whole_numbers(option: str, text: str) -> list[int]:
    """Return the comma-separated positive numbers of an option; UserError for anything else."""
    parts = split(text)
    if not parts or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise UserError(f"--{option} must be numbers such as 40,500, not '{text}'", exit_code=2)
    return [int(part) for part in parts]


def use_threads(config: Config) -> None:
    """Let torch use as many threads as a run of `config` would."""
    import torch

    torch.set_num_threads(config.threads)


def tell(line: str) -> None:
    """Say on stderr how far a measurement is."""
    from lrbench.console import messages

    messages().print(line, markup=False, highlight=False)


COMMANDS: dict[str, tuple[Callable[..., None], str]] = {
    "train": (train, TRAIN_HELP),
    "modes": (modes, MODES_HELP),
    "scan": (scan, SCAN_HELP),
    "fan2024_speed": (fan2024_speed, PAPER_HELP),
    "rir_table1": (rir_table1, TREES_HELP),
    "fixed_point": (fixed_point, FIXED_POINT_HELP),
    "selfcheck": (selfcheck, SELFCHECK_HELP),
}
