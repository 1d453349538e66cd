"""`lrbench export`: runs that have been trained, given to TensorBoard, wandb or Trackio."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HELP = (
    "Send runs to TensorBoard, Weights & Biases or Trackio, from their files.\n\n"
    "RUN is a run's folder, or a folder of runs. Exported are losses and evaluations during"
    " training by update, and the scores on fresh strings. For a run that was already exported, or"
    " trained with track=NAME, only the rest is sent: nothing is there twice.\n\n"
    "TensorBoard: RUN/tensorboard, shown by tensorboard --logdir. wandb: its server, or with"
    " WANDB_MODE=offline RUN/wandb. Trackio: its database on this machine.\n\n"
    "For example: lrbench export outputs/sum --to tensorboard"
)


def add_to(app: typer.Typer, panel: str) -> None:
    """Register the command."""
    app.command(help=HELP, rich_help_panel=panel)(export)


def export(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="A run, or a folder of runs.")],
    to: Annotated[str, typer.Option(metavar="NAME", help="tensorboard, wandb or trackio.")],
    new: Annotated[
        bool, typer.Option("--new", help="Create new runs, even if wandb or Trackio know them.")
    ] = False,
) -> None:
    """Export runs."""
    from lrbench.console import messages
    from lrbench.runs.track.export import export_runs

    done = export_runs(runs, to, new, lambda line: messages().print(line, markup=False))
    typer.echo(f"{len(done)} {'run' if len(done) == 1 else 'runs'} given to {to}")
