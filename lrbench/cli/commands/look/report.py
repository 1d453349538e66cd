"""`lrbench report`: tables and figures of the runs in a folder, without importing torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lrbench.checks import shown
from lrbench.cli.completion import complete_table
from lrbench.cli.printed_json import AsJson, print_json
from lrbench.cli.written import unwritable, write
from lrbench.errors import UserError, unknown
from lrbench.locations import published_dir
from lrbench.plugins import load_plugins
from lrbench.protocols.base import rule_names
from lrbench.report import PARTS

if TYPE_CHECKING:
    from lrbench.report.runs.collection import Collection
    from lrbench.report.tables.request import Request
    from lrbench.tables import TableSpec

HELP = (
    "Print tables of runs: ours, the paper's, chance and guessing.\n\n"
    "Only JSON files are read. Files that cannot be used are named below the tables; with csv, on"
    " stderr.\n\n"
    "For example: lrbench report --table fan2024_table2 --format html --output table2.html"
)

FORMATS = ("markdown", "csv", "latex", "html")
ENDINGS = {".md": "markdown", ".csv": "csv", ".tex": "latex", ".html": "html", ".htm": "html"}
PLAIN = ("", ".txt")  # endings of a file for any format
MOST_DIGITS = 10


def add_to(app: typer.Typer, panel: str) -> None:
    """Register the command."""
    app.command(help=HELP, rich_help_panel=panel)(report)


def report(
    runs: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="Folder of runs, or a published table (its runs.csv). Repeat --runs to read"
            " several together. Default: outputs.",
        ),
    ] = None,
    table: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="A paper's table (lrbench tables), or your own YAML file.",
            autocompletion=complete_table,
        ),
    ] = "",
    published: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="A published table that came with lrbench; with --runs, your runs are added."
            " --table defaults to the same one.",
            autocompletion=lambda: published_names(),
        ),
    ] = "",
    rows: Annotated[
        str, typer.Option(metavar="A,B", help="Models, for a table of your own; default: all.")
    ] = "",
    columns: Annotated[
        str, typer.Option(metavar="X,Y", help="Tasks, for a table of your own; default: all.")
    ] = "",
    rule: Annotated[
        str,
        typer.Option(
            metavar="|".join(rule_names()),
            help="The rule whose checkpoint counts, in such tables and in figures.",
            autocompletion=lambda: list(rule_names()),
        ),
    ] = "",
    fingerprint: Annotated[
        str,
        typer.Option(
            metavar="F,G", help="Which configurations to show where several compete for a cell."
        ),
    ] = "",
    format: Annotated[
        str,
        typer.Option(
            metavar="|".join(FORMATS),
            help="Default: by the ending of the file's name, else markdown; on a terminal, a table"
            " that fits it. csv without a table has one row for each number.",
            autocompletion=lambda: list(FORMATS),
        ),
    ] = "",
    digits: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Decimals of accuracies: 4; with --compact, and of a suite or walks, 3.",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write here instead of to stdout.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write figures here too: SVG, PDF, PNG.")
    ] = None,
    part: Annotated[
        str,
        typer.Option(
            metavar="|".join(PARTS),
            help="Only these tables: the paper's layout, what it rests on, cost, pairs of models.",
            autocompletion=lambda: list(PARTS),
        ),
    ] = "",
    compact: Annotated[
        bool,
        typer.Option(
            "--compact",
            help="A cell a model and task: on fresh strings / at the training length / paper.",
        ),
    ] = False,
    wide: Annotated[
        bool, typer.Option("--wide", help="On a terminal: every column, whatever its width.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print or write the report."""
    from lrbench.report.tables.request import Request

    folders = list(runs or [])
    if published:
        folders.append(published_table(published))
        table = table or ("" if rows or columns else published)
    if as_json and (format or output or figures):
        raise UserError(
            "--json goes without --format, --output and --figures\n"
            "to keep it, write: lrbench report --json > report.json",
            exit_code=2,
        )
    ending = ENDINGS.get(output.suffix.lower(), "") if output else ""
    if format in FORMATS and ending not in ("", format):
        raise UserError(
            f"--output {shown(output)} is a file for {ending}, and --format says {format}\n"
            "leave --format out, or name a file that ends otherwise",
            exit_code=2,
        )
    if output and not format and not ending and output.suffix.lower() not in PLAIN:
        raise UserError(
            f"--output {shown(output)}: a file for {', '.join(FORMATS)} ends with"
            f" {', '.join(ENDINGS)}\nname one of these, or --format; or write:"
            " lrbench report --json > report.json",
            exit_code=2,
        )
    window = on_terminal() and output is None and not format and not as_json
    if wide and not window:
        raise UserError(
            "--wide is for a terminal; markdown, csv, latex and html have every column",
            exit_code=2,
        )
    format = format or ending or FORMATS[0]
    if compact and (part or not table):
        raise UserError(
            "--compact is one small table of a paper's: it goes with --table, without --part",
            exit_code=2,
        )
    _check(format, rule, digits, part, table, [*_names(rows), *_names(columns)])
    if figures or format == "html":
        from lrbench.report.figures.draw import require_matplotlib

        require_matplotlib()
    elif rule and not (table or rows or columns):
        raise UserError(
            "--rule goes with --table, --rows, --columns, --figures or --format html\n"
            "without them the table has a column for each rule",
            exit_code=2,
        )
    request = Request(
        table=_load(table) if table else None,
        rows=_names(rows),
        columns=_names(columns),
        rule=rule,
        fingerprints=_names(fingerprint),
        digits=digits,
        part=part,
        compact=compact,
    )
    from lrbench.report.runs.collect import collect
    from lrbench.report.runs.finding import no_garbage

    with no_garbage():
        folders = folders or [Path("outputs")]
        collection = collect(*folders)
        _refuse_nothing(collection, folders, request)
        request = _of_these_runs(request, collection, (runs or []) if published else [])
        if as_json:
            _print_objects(collection, request)
        elif window:
            _show(collection, request, figures, wide)
        else:
            _make(collection, request, format, output, figures)


def published_names() -> list[str]:
    """The tables whose runs came with lrbench, in a wheel or in a checkout."""
    from lrbench.tables import table_names

    found = {path.parent.name for path in published_dir().glob("*/runs.csv")}
    return sorted(found & set(table_names()))  # tables of measured times hold no runs


def published_table(name: str) -> Path:
    """Return the folder of a published table. Raises UserError for an unknown name."""
    names = published_names()
    if name not in names:
        raise unknown("published table", name, names, exit_code=2)
    return published_dir() / name


def on_terminal() -> bool:
    """Whether stdout is a terminal."""
    from lrbench.console import results

    return results().is_terminal


def _show(collection: Collection, request: Request, figures: Path | None, wide: bool) -> None:
    """Print the tables so that they fit the window."""
    from lrbench.console import results
    from lrbench.report.output.terminal import print_tables
    from lrbench.report.tables.notes import reading_texts
    from lrbench.report.tables.request import tables_of

    print_tables(tables_of(collection, request), reading_texts(collection), results(), wide)
    if figures:
        _write_figures(collection, request, figures)


def _check(
    format: str, rule: str, digits: int | None, part: str, table: str, names: Sequence[str]
) -> None:
    """Raise UserError for what cannot be meant, before anything is read."""
    if format not in FORMATS:
        raise unknown("format", format, FORMATS, exit_code=2)
    if rule and rule not in rule_names():
        load_plugins()  # theirs may have it
    if rule and rule not in rule_names():
        raise unknown("rule", rule, rule_names(), exit_code=2)
    if part and part not in PARTS:
        raise unknown("part", part, PARTS, exit_code=2)
    if digits is not None and not 1 <= digits <= MOST_DIGITS:
        raise UserError(f"--digits must be 1 to {MOST_DIGITS}, not {digits}", exit_code=2)
    if table and names:
        raise UserError(
            "--table has rows and columns of its own: leave out --rows and --columns, or --table",
            exit_code=2,
        )


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in text.replace(",", " ").split()))


def _load(name: str) -> TableSpec:
    """Return the table; a name that is not among lrbench's own may be a plugin's."""
    from lrbench.tables import load_table, table_names

    if name not in table_names():
        load_plugins()
    return load_table(name)


def _of_these_runs(request: Request, collection: Collection, own: Sequence[Path]) -> Request:
    """Return the request with a table that knows which of the runs fill its cells.

    Of a published table with runs of the user's `own` it has a row more for each model that only
    they have.
    """
    from lrbench.report.runs.collect import collect
    from lrbench.report.tables.request import with_rows_of

    if request.table is None:
        return request
    table = fingerprinted_table(request.table, collection)
    return replace(request, table=with_rows_of(table, collect(*own)) if own else table)


def fingerprinted_table(table: TableSpec, collection: Collection) -> TableSpec:
    """Return the table with what its cells are, composed where runs are of others."""
    from lrbench.report.grids.selection import others_there

    others = others_there(collection, table)
    if not others:  # then torch and Hydra are not needed
        return table
    from lrbench.cli.hydra.compose import composed
    from lrbench.cli.hydra.sharing import SharedComposition
    from lrbench.sweeps.plan.filling import fingerprinted

    return fingerprinted(table, others, SharedComposition(composed))


def _print_objects(collection: Collection, request: Request) -> None:
    from lrbench.report.output.objects import to_objects

    print_json(to_objects(collection, request))


def _make(
    collection: Collection,
    request: Request,
    format: str,
    output: Path | None,
    figures: Path | None,
) -> None:
    from lrbench.console import messages
    from lrbench.report.output.render import render

    text = render(collection, format, request=request)
    if format == "csv":
        _name_problems(collection)
    if figures:
        _write_figures(collection, request, figures)
    if output is None:
        _print(text, format)
    else:
        write(output, text.encode())
        messages().print(f"wrote {output}", markup=False)


def _print(text: str, format: str) -> None:
    from lrbench.console import results
    from lrbench.report.output.display import plain

    if format == "html":  # the page says that it is UTF-8, and ASCII always is
        text = text.encode("ascii", "xmlcharrefreplace").decode()
    typer.echo(plain(results(), text), nl=False)


def _write_figures(collection: Collection, request: Request, folder: Path) -> None:
    """Write every figure, drawn whole before the first file is made."""
    from lrbench.console import messages
    from lrbench.report.figures.draw import drawings

    drawn = list(drawings(collection, request, ("svg", "pdf", "png")))
    if not drawn:
        raise UserError(
            f"no figure to draw: no run has an accuracy on fresh strings by rule {request.one_rule}"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    for drawing in drawn:
        for suffix, content in drawing.files.items():
            write(folder / f"{drawing.name}.{suffix}", content)
    names = " ".join(drawing.name for drawing in drawn)
    messages().print(f"wrote to {folder}, as svg, pdf and png: {names}", markup=False)


def _refuse_nothing(collection: Collection, runs: Sequence[Path], request: Request) -> None:
    """Raise UserError where no run has ended yet, saying what was found instead.

    A table of which lrbench has no model is the paper's numbers alone.
    """
    if len(collection.runs) or collection.under_way:
        return
    if request.table and not request.table.cells:
        return
    from lrbench.report.runs.files import RUN_FOLDER

    found = [f"not used: {path}: {reason}" for path, reason in collection.problems]
    found += [f"no result yet: {folder}" for folder in collection.unfinished]
    found += [
        f"not read: {one.parent}: a run's folder is called s0, s1 and so on"
        for folder in runs
        for one in sorted((*folder.glob("result.json"), *folder.glob("*/result.json")))
        if not RUN_FOLDER.fullmatch(one.absolute().parent.name)
    ]
    more = f"... and {len(found) - 2} more" if len(found) > 3 else ""
    where = " or ".join(f"'{folder}'" for folder in runs)
    lines = [f"no finished run in {where}", *found[: 2 if more else 3], more]
    make = (
        f"sweep --table {request.table.name}" if request.table else "train task=sum model=blockdiag"
    )
    fix = f"make one with: lrbench {make}; or name another with --runs DIR"
    raise UserError("\n".join(filter(None, [*lines, fix])))


def _name_problems(collection: Collection) -> None:
    """Name on stderr what a csv file has no place for."""
    from lrbench.console import messages

    for path, reason in collection.problems:
        messages().print(f"not used: {path}: {reason}", markup=False)
