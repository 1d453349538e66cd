"""`lrbench publish`: a table's page with its records, numbers and figures, without torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lrbench.checks import shown
from lrbench.cli.completion import complete_table
from lrbench.cli.given import refuse
from lrbench.errors import UserError

if TYPE_CHECKING:
    from lrbench.tables import TableSpec

HELP = (
    "Publish a table as results/TABLE: small files of its runs and a page.\n\n"
    "The page (README.md), runs.csv and figures are made from those files and from notes.yaml,"
    " which you write. Every number on the page comes from a run.\n\n"
    "For example: lrbench publish fan2024_table2; some cells only: lrbench publish"
    " fan2024_table2 task=sum model=lstm,lru; after a change of notes.yaml:"
    " lrbench publish --rebuild results"
)

NAMED = 5  # files that could not be used, in full
OF_RUNS = ("runs", "output", "fingerprint", "force")  # options without a meaning for --rebuild
MEASURED_PAGES = "python -m benchmarks.pages"


def add_to(app: typer.Typer, panel: str) -> None:
    """Register the command."""
    app.command(help=HELP, rich_help_panel=panel)(publish)


def publish(
    ctx: typer.Context,
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE",
            show_default=False,
            help="Name of the table.",
            autocompletion=complete_table,
        ),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=V1,V2]...", show_default=False, help="Which cells: task= and model=."
        ),
    ] = None,
    runs: Annotated[Path, typer.Option(metavar="DIR", help="Folder of runs.")] = Path("outputs"),
    output: Annotated[Path, typer.Option(metavar="DIR", help="Folder of published tables.")] = Path(
        "results"
    ),
    fingerprint: Annotated[
        str, typer.Option(metavar="F,G", help="Which configurations, if there are several.")
    ] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Replace published runs that have other content.")
    ] = False,
    certificates: Annotated[
        bool,
        typer.Option(
            "--certificates",
            help="Add only what lrbench certify found for published runs, or for such runs"
            " trained again.",
        ),
    ] = False,
    rebuild: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Rebuild pages from what is in results, or in one table's folder.",
        ),
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --rebuild: also fill the tables of this page."),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="With --rebuild: write nothing, name what differs, exit 1."),
    ] = False,
) -> None:
    """Publish a table, or make published ones again."""
    if (table is None) == (rebuild is None):
        raise UserError("name a table to publish, or --rebuild DIR; one of them", exit_code=2)
    if rebuild is None and (check or page):
        raise UserError("--check and --page go with --rebuild DIR", exit_code=2)
    if rebuild is not None and certificates:
        raise UserError("--certificates goes with a table to publish", exit_code=2)
    if rebuild is not None:
        refuse(ctx, OF_RUNS, "a table to publish, not with --rebuild DIR")
        raise typer.Exit(_rebuild(rebuild, page, check))
    choose = tuple(fingerprint.replace(",", " ").split())
    _publish(str(table), overrides or [], runs, output, choose, force, certificates)


def _publish(
    table: str,
    overrides: list[str],
    runs: Path,
    output: Path,
    choose: tuple[str, ...],
    force: bool,
    certificates: bool,
) -> None:
    from lrbench.cli.commands.extend.bench import COMMANDS
    from lrbench.console import messages
    from lrbench.publish.layout import RECORDS, is_measured
    from lrbench.publish.publication import publish
    from lrbench.report.figures.draw import require_matplotlib
    from lrbench.report.output.display import plural
    from lrbench.tables import table_names

    if is_measured(output / table) or (table in COMMANDS and table not in table_names()):
        raise UserError(
            f"{table} is measured, not trained: the raw output of lrbench bench goes into"
            f" '{output / table / RECORDS}'\n"
            f"its page is then made, in a checkout, by: {MEASURED_PAGES} {output / table}"
        )
    spec = _chosen(table, overrides)
    require_matplotlib()
    copied = publish(spec, runs, output, choose, force, certificates)
    folder = output / spec.name
    console = messages()
    console.print(
        f"{plural(len(copied.added), 'run')} copied to {folder}, {len(copied.same)} there already",
        markup=False,
    )
    if copied.kept:
        console.print(
            f"{plural(len(copied.kept), 'run')} published with a result, and without one in"
            f" {runs}: left as published",
            markup=False,
            soft_wrap=True,
        )
    if copied.unsearched:
        _tell_unsearched(copied.unsearched)
    _tell_problems(copied.problems)
    _rebuild(folder, None, check=False)


def _tell_unsearched(runs: list[str]) -> None:
    """Say which published runs have no certificate to add."""
    from lrbench.console import messages
    from lrbench.report.output.display import plural

    more = f", and {len(runs) - NAMED:,} more" if len(runs) > NAMED else ""
    messages().print(
        f"warning: {plural(len(runs), 'run')} without a certificate:"
        f" {', '.join(runs[:NAMED])}{more}; lrbench certify RUN makes one",
        markup=False,
        soft_wrap=True,
    )


def _tell_problems(problems: list[str]) -> None:
    """Say which files among the runs are on no page."""
    from lrbench.console import messages

    for line in problems[:NAMED]:
        messages().print(f"warning: {line}", markup=False, soft_wrap=True)
    if len(problems) > NAMED:
        messages().print(f"warning: and {len(problems) - NAMED:,} more", markup=False)


def _chosen(table: str, overrides: list[str]) -> TableSpec:
    """The table, with the cells that the words choose."""
    from lrbench.publish.layout import named_spec
    from lrbench.sweeps.plan.expansion import SELECTING, chosen_cells

    for override in overrides:
        key, _, values = override.partition("=")
        if key not in SELECTING or not values:
            raise UserError(
                f"'{shown(override)}' does not choose among the cells of a table\n"
                f"{' and '.join(f'{key}=V1,V2' for key in SELECTING)} do",
                exit_code=2,
            )
    return chosen_cells(named_spec(table), overrides)


def _rebuild(place: Path, page: Path | None, check: bool) -> int:
    """Return the exit code."""
    from lrbench.console import messages
    from lrbench.publish.rebuild import rebuild

    console = messages()
    changes = rebuild(place, page, check)
    for line in changes.done:
        console.print(line, markup=False, soft_wrap=True)
    findings = list(changes.findings())
    for line in findings:
        console.print(line, markup=False, soft_wrap=True)
    for line in changes.warnings:
        console.print(f"warning: {line}", markup=False, soft_wrap=True)
    if changes.measured:
        names = ", ".join(folder.absolute().name for folder in changes.measured)
        console.print(
            f"measured, left to make tables ({MEASURED_PAGES}): {names}",
            markup=False,
            soft_wrap=True,
        )
    if not findings and not changes.done:
        console.print(f"{place}: as its runs and notes make it", markup=False)
    if findings and check:
        console.print(f"lrbench publish --rebuild {place} makes them again", markup=False)
    return int(bool(findings) and check)
