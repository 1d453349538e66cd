"""`lrbench evaluate RUN`: a run's checkpoint at any length, in constant memory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HELP = (
    "Score a run's checkpoint on fresh strings of any length, in constant memory; that of"
    " a run over a corpus on any of its splits."
    "\n\n"
    "RUN is a run's folder, the one that holds result.json, for example:"
    " lrbench evaluate outputs/sum/blockdiag/fan2024/0123456789ab/s0 --lengths 500,5003,100003"
)


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(help=HELP)(evaluate)


def evaluate(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")],
    lengths: Annotated[
        str, typer.Option(help="Lengths, comma-separated; default: those of the protocol.")
    ] = "",
    splits: Annotated[
        str,
        typer.Option(
            help="Of a run over a corpus: splits, comma-separated; default: those tested."
        ),
    ] = "",
    which: Annotated[str, typer.Option(help="Whose checkpoint: best, id, band or last.")] = "best",
    strings: Annotated[
        int | None, typer.Option(help="Strings for each length; default: 1000.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
) -> None:
    """Evaluate a checkpoint."""
    from lrbench.console import results
    from lrbench.plugins import load_plugins
    from lrbench.report.summary import evaluation_table
    from lrbench.runs.evaluation import evaluate_run

    load_plugins()
    rows = evaluate_run(run, lengths, which, strings, device, splits)
    evaluation_table(rows, results())
