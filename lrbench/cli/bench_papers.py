"""`lrbench bench fan2024_speed` and `rir_table1`: what papers timed, timed here."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lrbench.cli.bench_options import Output, Rounds, Seconds, split, tell

if TYPE_CHECKING:
    from lrbench.bench.tree_speed import CellCost

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
    from lrbench.cli.planning import composed
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
    from lrbench.bench.tree_speed import Limits, chosen_lengths, chosen_rows, measured
    from lrbench.cli.planning import composed
    from lrbench.runs.train.validate import resolve_device

    where = resolve_device(device)
    limits = Limits(strings, limit_s, memory_gb)
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
    from lrbench.report.paper.times import told, tree_speeds

    printed = tree_speeds()
    theirs = [told(printed, cell.paper, lengths) for cell in cells]
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
