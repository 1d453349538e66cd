"""`lrbench status`: the cells below a folder, how far each run is and how long it still takes."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lrbench.checks import shown
from lrbench.cli.printed_json import AsJson, print_json
from lrbench.errors import UserError

if TYPE_CHECKING:
    from rich.console import Console

    from lrbench.sweeps.plan.status import RunStatus

HELP = (
    "Show which runs are running, have ended, failed or stopped, or wait to begin.\n\n"
    "Only files are read, so it works beside any sweep, in any shell. The time left is training"
    " time, estimated from the speed of each run's newest updates. A sweep writes its planned runs"
    " to OUTPUT_DIR/.sweeps; those that have not begun are shown as waiting.\n\n"
    "For example: lrbench status outputs --watch"
)
EVERY = 2.0  # seconds, of --watch


def add_to(app: typer.Typer, panel: str) -> None:
    """Register the command."""
    app.command(help=HELP, rich_help_panel=panel)(status)


def status(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[RUNS]", help="Folder of runs; default: outputs.", show_default=False
        ),
    ] = None,
    runs: Annotated[
        Path | None, typer.Option("--runs", help="The same, as of `report`.", show_default=False)
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Refresh until nothing is running.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print how runs stand."""
    from lrbench.console import messages, results
    from lrbench.disk import unlisted
    from lrbench.sweeps.plan.status import statuses

    if watch and as_json:
        raise UserError("--json is one look: leave out --watch", exit_code=2)
    if folder is not None and runs is not None:
        raise UserError("RUNS and --runs say the same: leave out one", exit_code=2)
    place = folder or runs or Path("outputs")

    def tell(line: str) -> None:
        messages().print(line, markup=False, highlight=False, soft_wrap=True)

    found = statuses(place, tell)
    for hidden, reason in unlisted(place).items():
        why = f"cannot be read ({reason}): some runs may be missing"
        tell(f"the folder '{shown(hidden, 200)}' {why}")
    if as_json:
        print_json({"runs": [asdict(run) for run in found]})
        return
    console = results()
    _show(found, console)
    while watch and any(run.state == "running" for run in found):
        time.sleep(EVERY)
        found = statuses(place, tell)
        if console.is_terminal:
            console.clear()
        else:
            console.print()
        _show(found, console)


def _show(runs: list[RunStatus], console: Console) -> None:
    from lrbench.report.output.display import columns_table, plural, say
    from lrbench.sweeps.plan.status import STATES, counts

    if not runs:
        say(console, "no run found")
        return
    cells: dict[str, list[RunStatus]] = {}
    for run in runs:
        cells.setdefault(run.cell, []).append(run)
    used = [state for state, _ in counts(runs)]
    columns = {"": list(cells)}
    for state in (state for state in STATES if state in used):
        columns[state] = [str(sum(r.state == state for r in each)) for each in cells.values()]
    columns_table(console, columns)
    for run in runs:
        if run.state in ("running", "failed"):
            say(console, _line(run))
    told = ", ".join(f"{number} {state}" for state, number in counts(runs))
    say(console, f"{plural(len(runs), 'run')}: {told}{_left(runs)}")


def _line(run: RunStatus) -> str:
    """Return what is said of one that is running or has failed."""
    from lrbench.report.output.cells import duration

    parts = [f"{run.state}: {run.task} · {run.model} · seed {run.seed}"]
    if run.state == "failed":
        why = [shown(run.message, 100)] if run.message else []
        return " · ".join([*parts, *why, run.folder])
    if run.update is not None:
        most = f"/{run.updates:,}" if run.updates is not None else ""
        parts.append(f"update {run.update:,}{most}")
    if run.update is not None and run.updates == run.update:
        parts.append("examination")
    elif run.rate:
        parts.append(f"{run.rate:.1f} updates/s")
    if run.left:
        parts.append(f"up to about {duration(run.left)} of training left")
    return " · ".join(parts)


def _left(runs: list[RunStatus]) -> str:
    """Return how long those that have not ended take, as many at a time as now."""
    from lrbench.report.output.cells import duration

    at_once = sum(run.state == "running" for run in runs)
    going = [run for run in runs if run.state in ("running", "stopped", "waiting")]
    known = [run.left for run in going if run.left is not None]
    if not at_once or not sum(known):
        return ""
    more = "" if len(known) == len(going) else ", not counting those without a rate"
    longest = duration(max(max(known), sum(known) / at_once))
    return f"; up to about {longest} of training left{more}"
