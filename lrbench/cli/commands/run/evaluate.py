"""`lrbench evaluate`: checkpoints at any length, of a run or of all runs of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lrbench.cli.completion import complete_table
from lrbench.errors import UserError

HELP = (
    "Score a run's checkpoint on fresh strings of any length."
    "\n\n"
    "Memory does not grow with the length. A run over a corpus can be scored on any of its splits."
    "\n\n"
    "RUN is a run's folder, the one that holds result.json, for example:"
    " lrbench evaluate outputs/sum/blockdiag/fan2024/0123456789ab/s0 --lengths 500,5003,100003"
    "\n\n"
    "Or score all runs of a table that solve their task and have no such score yet:"
    " lrbench evaluate --table length_curves --lengths 10007,20011,50021,100003"
)


def add_to(app: typer.Typer, panel: str) -> None:
    """Register the command."""
    app.command(help=HELP, rich_help_panel=panel)(evaluate)


def evaluate(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="A run's folder.")] = None,
    table: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Every run of a table instead.", autocompletion=complete_table
        ),
    ] = "",
    runs: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the runs of --table; default: outputs."),
    ] = None,
    lengths: Annotated[
        str | None, typer.Option(help="Lengths, comma-separated; default: those of the protocol.")
    ] = None,
    splits: Annotated[
        str | None,
        typer.Option(
            help="For a run over a corpus: splits, comma-separated; default: those tested."
        ),
    ] = None,
    which: Annotated[
        str,
        typer.Option(
            metavar="RULE",
            help="The rule of the checkpoint: best, id, band, last; default: the protocol's first.",
        ),
    ] = "",
    strings: Annotated[
        int | None, typer.Option(help="Strings for each length; default: 1000.")
    ] = None,
    trees: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Instead of scores: how a tree encoder's trees of N strings follow the brackets.",
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="With --table: also runs that do not solve their task.")
    ] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
) -> None:
    """Evaluate a checkpoint, or those of a table."""
    from lrbench.console import results
    from lrbench.plugins import load_plugins
    from lrbench.report.output.evaluation import evaluation_table
    from lrbench.runs.evaluate.evaluation import evaluate_run

    if (run is None) == (not table):
        raise UserError("name a run's folder or a --table, one of them", exit_code=2)
    if run is not None and (every or runs):
        raise UserError("--all and --runs go with --table, not with one run", exit_code=2)
    for option, given in (("--lengths", lengths), ("--splits", splits)):
        if given is not None and not given.strip():
            raise UserError(f"{option} names none\nleave it out for the default", exit_code=2)
    load_plugins()
    if run is None:
        for option, one in (("--splits", splits), ("--trees", trees)):
            if one is not None:
                reason = f"{option} goes with a run over a corpus, not with --table"
                raise UserError(reason, exit_code=2)
        _evaluate_table(
            table, runs or Path("outputs"), lengths or "", which, strings, every, device
        )
        return
    rows = evaluate_run(run, lengths or "", which, strings, device, splits or "", trees)
    evaluation_table(rows, results())


def _evaluate_table(
    table: str,
    runs: Path,
    lengths: str,
    which: str,
    strings: int | None,
    every: bool,
    device: str,
) -> None:
    from lrbench.console import messages, results
    from lrbench.report.output.evaluation import evaluation_table
    from lrbench.runs.evaluate.table import Wish, evaluate_table
    from lrbench.tables import load_table

    def tell(line: str) -> None:
        messages().print(line, markup=False, highlight=False, soft_wrap=True)

    wish = Wish(lengths, which, strings, every)
    for _, rows in evaluate_table(load_table(table), runs, wish, device, tell):
        evaluation_table(rows, results())
