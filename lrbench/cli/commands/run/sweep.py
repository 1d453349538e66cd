"""`lrbench sweep`: the cells of a table, or every combination of the values that were typed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from lrbench.cli.completion import complete

HELP = (
    "Train the cells of a table, or every combination of the given values."
    "\n\n"
    "Finished runs are skipped, interrupted runs resume, and a failed run does not stop the others."
    "\n\n"
    "For example: lrbench sweep --table fan2024_table2; or"
    " lrbench sweep task=sum,even_pair model=blockdiag seed=0,1,2 protocol.max_steps=400"
    "\n\n"
    "Settings beside --table apply to every cell; task= and model= choose among its cells. A table"
    " with a search, such as suite_v1, takes any model, and tunes each cell first."
    "\n\n"
    "Several at once: hydra/launcher=joblib hydra.launcher.n_jobs=2 (needs the extra 'parallel')."
)

Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=V1,V2", show_default=False, autocompletion=complete),
]

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="List what there is to do, and do nothing.")
]
ConfigDir = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Folder with your own presets.")
]


def add_to(app: typer.Typer, panel: str) -> None:
    """Register the command."""
    app.command(
        help=HELP, rich_help_panel=panel, context_settings={"ignore_unknown_options": True}
    )(sweep)


def sweep(
    overrides: Overrides = None,
    table: Annotated[
        str | None, typer.Option(metavar="NAME", help="A table (lrbench tables), or a YAML file.")
    ] = None,
    dry_run: DryRun = False,
    detach: Annotated[
        bool, typer.Option("--detach", help="Submit or start the runs, and return at once.")
    ] = False,
    config_dir: ConfigDir = None,
) -> None:
    """Train many cells."""
    from lrbench.sweeps.launch.crashes import survive_crashes

    if not (dry_run or detach or has_workers(overrides or ())):
        survive_crashes()  # before all else: it needs a process without threads
    from lrbench.cli.hydra.searching import needs_search, run_searched
    from lrbench.cli.hydra.sweeping import SweepRequest, run_plan
    from lrbench.plugins import load_plugins
    from lrbench.sweeps.plan.plan import make_plan
    from lrbench.sweeps.plan.report import announce, plan_table

    load_plugins()
    request = SweepRequest.read(list(overrides or []), table, config_dir)
    if needs_search(request):
        raise typer.Exit(run_searched(request, dry_run, detach))
    plan = make_plan(request.cells, request.compose, request.grouping, request.labels, bool(table))
    for task, reason in plan.without_data.items():
        announce(f"left out: the cells of task {task}: {reason}")
    if dry_run:
        plan_table(plan)
        return
    raise typer.Exit(run_plan(plan, request, detach=detach))


def has_workers(overrides: Sequence[str]) -> bool:
    """Whether a launcher starts processes for the jobs: there a crash is a worker's."""
    launcher = [word for word in overrides if word.startswith("hydra/launcher=")]
    if launcher:
        alone = "hydra.launcher.n_jobs=1" in overrides  # joblib runs such jobs in the sweep itself
        return not alone and launcher[-1] != "hydra/launcher=basic"
    return any(word.startswith("devices=") for word in overrides)
