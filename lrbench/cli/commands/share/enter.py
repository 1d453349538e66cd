"""`lrbench enter MODEL`: the runs of a model in a suite, checked by its rules and packed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from lrbench.errors import UserError, unknown

HELP = (
    "Pack a model's runs of a suite as an entry.\n\n"
    "The rules are checked first (docs/suite.md): the suite's settings and test strings, every"
    " task, every seed from 0 on, a complete search, the learning rate that it chose, and for each"
    " run a search for wrong strings. `lrbench verify` checks the same, scores the checkpoints"
    " again, and gives them their wrong strings.\n\n"
    "Runs with other settings than the suite's are a model of the division open; of its rules only"
    " those on test strings, tasks, seeds and searches for wrong strings count.\n\n"
    "For example: lrbench sweep --table suite_v1 model=lstm; lrbench enter lstm"
)
SHOWN = 8  # violations, in full


def add_to(app: typer.Typer, panel: str) -> None:
    """Register the command."""
    app.command(help=HELP, rich_help_panel=panel)(enter)


def enter(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A model, as lrbench report names its row.")
    ],
    suite: Annotated[str, typer.Option(metavar="NAME", help="Name of the suite.")] = "suite_v1",
    runs: Annotated[Path, typer.Option(metavar="DIR", help="Folder of runs.")] = Path("outputs"),
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A .zip or .tar.gz; default: SUITE_MODEL.zip."),
    ] = None,
) -> None:
    """Check and pack an entry."""
    from lrbench.bundles.archive import packed
    from lrbench.bundles.choice import TableChoice
    from lrbench.bundles.pack import pack
    from lrbench.cli.written import check_place, write
    from lrbench.console import messages
    from lrbench.plugins import load_plugins
    from lrbench.report.runs.collect import collect
    from lrbench.report.suite.entries import suite_of
    from lrbench.report.suite.lock import read_lock
    from lrbench.report.suite.rules import violations
    from lrbench.tables import SUITE, load_table

    load_plugins()
    spec = load_table(suite)
    if spec.kind != SUITE:
        raise UserError(f"table '{suite}' is no suite\nlrbench tables shows what each one is")
    path = output or Path(f"{suite}_{re.sub(r'[^A-Za-z0-9.-]+', '_', model).strip('_')}.zip")
    packed({}, path.name)  # refuses a wrong ending before anything is read
    check_place(path)
    lock = read_lock(suite)
    found = suite_of(collect(runs), spec, lock, spec.rule)
    labels = {entry.label for entry in found.entries}
    if not labels:
        raise UserError(
            f"no run of {suite} in {runs}\nfirst: lrbench sweep --table {suite} model={model}"
        )
    if model not in labels:
        raise unknown(f"model (among the runs of {suite})", model, sorted(labels), exit_code=1)
    wrong = violations(found, lock, model)
    if wrong:
        more = [f"and {len(wrong) - SHOWN} more"] if len(wrong) > SHOWN else []
        lines = [f"{model} is no entry of {suite} yet:", *wrong[:SHOWN], *more]
        raise UserError("\n".join([*lines, f"lrbench sweep --table {suite} does what is missing"]))
    made = pack(runs, TableChoice(spec, (model,), (), spec.rule), path.name)
    entry = next(entry for entry in found.entries if entry.label == model)
    scored = {run.folder for run in entry.every_run if run.tested}
    _refuse_lost(sorted(scored.intersection(made.without_checkpoint)), spec.rule, runs)
    write(path, made.data)
    size = len(made.data) / 2**20
    messages().print(
        f"wrote {path}: division {entry.division}, {made.runs} runs, {made.files} files,"
        f" {size:.1f} MiB",
        markup=False,
    )
    typer.echo(f"{made.digest}  {path}")


def _refuse_lost(lost: list[str], rule: str, runs: Path) -> None:
    """Raise UserError where runs that have scores have no weights: `verify` needs them."""
    if lost:
        more = f", and {len(lost) - SHOWN} more" if len(lost) > SHOWN else ""
        raise UserError(
            f"no checkpoints/{rule}.pt below {runs} in {', '.join(lost[:SHOWN])}{more}\n"
            "lrbench verify scores the weights of every run: train these runs again (force=true)"
        )
