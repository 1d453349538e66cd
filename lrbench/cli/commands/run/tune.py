"""`lrbench tune`: the same small search for any model, chosen at the training length."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lrbench.cli.commands.run.sweep import ConfigDir, DryRun, Overrides, has_workers

HELP = (
    "Try every combination of --grid, and write the best as a preset."
    "\n\n"
    "For each model and task, selection uses validation strings of the training length, never the"
    " test length. For a corpus it uses the dev split, never a test split. Tests at the end play no"
    " part in the selection and are as short as possible, unless you set them:"
    " protocol.test_size=10000, protocol.test.strings=N, protocol.test_splits=[..]."
    "\n\n"
    "For example: lrbench tune task=sum,even_pair model=blockdiag,blockdiag_release seed=0,1"
    " protocol.max_steps=2000 --grid optim.lr=1e-4,3e-4,1e-3"
    "\n\n"
    "The preset is OUTPUT_DIR/tuned/preset/model/PROTOCOL_TASK_MODEL.yaml; lrbench train"
    " --config-dir OUTPUT_DIR/tuned uses it. All runs train their whole budget. The same command"
    " again trains only what is missing. Give tune its own output_dir, so that the runs of the"
    " search stay out of the tables of your results."
)


def add_to(app: typer.Typer, panel: str) -> None:
    """Register the command."""
    app.command(
        help=HELP, rich_help_panel=panel, context_settings={"ignore_unknown_options": True}
    )(tune)


def tune(
    overrides: Overrides = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=V1,V2", help="Values to choose from; repeat --grid to combine settings."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for the preset, if there is only one.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing preset with other values.")
    ] = False,
    dry_run: DryRun = False,
    config_dir: ConfigDir = None,
) -> None:
    """Search, choose, and keep the choice."""
    from lrbench.sweeps.launch.crashes import survive_crashes

    if not (dry_run or has_workers(overrides or ())):
        survive_crashes()  # before all else: it needs a process without threads
    from lrbench.cli.hydra.tuning import Search
    from lrbench.plugins import load_plugins

    load_plugins()
    search = Search.read(list(grid or []), list(overrides or []), config_dir, output)
    if dry_run:
        search.explain()
        return
    raise typer.Exit(search.run(force))
