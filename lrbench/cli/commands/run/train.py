"""`lrbench train`: one cell, `trials` runs of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lrbench.cli.completion import complete
from lrbench.cli.printed_json import AsJson, print_json
from lrbench.errors import UserError

if TYPE_CHECKING:
    from lrbench.runs.train.result import Outcome

# \b keeps the lines as they are
COMMON = """\b
task=sum                  the task (lrbench tasks)
model=blockdiag           the model (lrbench models)
model.width=64            features per position
model.layers=1            number of layers
protocol=fan2024          how it is trained and tested (lrbench protocols)
protocol.max_steps=40000  largest number of updates
protocol.stop=perfect     stop at the first perfect evaluation; or: never
optim.lr=1e-4             learning rate
seed=0                    seed of weights and training; trials=5: five seeds
device=auto               cpu, cuda, or auto: cuda if available
threads=1                 torch threads, on a CPU
output_dir=outputs        the folder that runs are written to"""

HELP = (
    "Train one model on one task and test it at many lengths."
    "\n\n"
    "KEY=VALUE settings, for example: task=mod_arith model=blockdiag seed=3 trials=5 optim.lr=3e-4"
    "\n\n"
    f"{COMMON}"
    "\n\n"
    "The settings of a task, model or protocol: lrbench tasks NAME, models NAME, protocols NAME."
    " All settings of this run: lrbench train --cfg job."
    "\n\n"
    "The same command again trains only what is missing; force=true trains again and keeps the old"
    " result until the new one is complete."
)

Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", show_default=False, autocompletion=complete),
]


def add_to(app: typer.Typer, panel: str) -> None:
    """Register the command."""
    app.command(
        help=HELP, rich_help_panel=panel, context_settings={"ignore_unknown_options": True}
    )(train)


def train(overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Train one cell."""
    from lrbench.cli.hydra.compose import run_hydra
    from lrbench.cli.hydra.overrides import split
    from lrbench.config import Config
    from lrbench.console import messages

    exit_codes: list[int] = []
    if as_json and split(list(overrides or [])).flags:
        raise UserError("train: --json goes with settings alone, KEY=VALUE", exit_code=2)

    def job(config: Config) -> None:
        from lrbench.runs.evaluate.ending import search_after_training
        from lrbench.runs.train.job import run_cell
        from lrbench.runs.train.result import report_outcomes

        outcomes = run_cell(config)
        search_after_training(config, outcomes)
        exit_codes.append(report_outcomes(outcomes, messages() if as_json else None))
        if as_json:
            print_json({"runs": [ended(outcome) for outcome in outcomes]})

    run_hydra(list(overrides or []), job)
    if any(exit_codes):
        raise typer.Exit(max(exit_codes))


def ended(outcome: Outcome) -> dict[str, Any]:
    """Return the end of a run as JSON has it; a run that failed has a message and no result."""
    return {
        "seed": outcome.seed,
        "status": outcome.status,
        "folder": str(outcome.folder),
        "result": outcome.result,
        "message": outcome.message or None,
    }
