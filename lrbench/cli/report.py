"""`lrbench report`: a table of the runs in a folder, without importing torch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lrbench.errors import UserError, unknown

if TYPE_CHECKING:
    from lrbench.report.collect import Collection

HELP = (
    "Print a table of the runs below a folder: ours, the paper's, chance and guessing.\n\n"
    "Only json files are read. Those that cannot be used are named below the table, and for csv on"
    " stderr.\n\n"
    "For example: lrbench report --runs outputs/sum --format csv --output runs.csv"
)

FORMATS = ("markdown", "csv")


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(help=HELP)(report)


def report(
    runs: Annotated[Path, typer.Option(metavar="DIR", help="Folder of runs.")] = Path("outputs"),
    format: Annotated[
        str,
        typer.Option(
            metavar="|".join(FORMATS),
            help="Tables to read, or every number, a row each.",
            autocompletion=lambda: list(FORMATS),
        ),
    ] = FORMATS[0],
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write here instead of to stdout.")
    ] = None,
) -> None:
    """Print or write the report."""
    if format not in FORMATS:
        raise unknown("format", format, FORMATS, exit_code=2)
    from lrbench.console import messages, results
    from lrbench.report.collect import collect
    from lrbench.report.display import plain
    from lrbench.report.render import render

    collection = collect(runs)
    _refuse_nothing(collection, runs)
    text = render(collection, format)
    if format == "csv":
        _name_problems(collection)
    if output is None:
        typer.echo(plain(results(), text), nl=False)
    else:
        write(output, text)
        messages().print(f"wrote {output}", markup=False)


def write(path: Path, text: str) -> None:
    """Write a file, whole or not at all; UserError where that cannot be done."""
    from lrbench.runs.files import write_bytes

    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")  # a pipe or a terminal cannot be replaced
        else:
            write_bytes(path.resolve(), text.encode())
    except OSError as error:
        raise UserError(
            f"cannot write '{path}': {(error.strerror or str(error)).lower()}"
            "\nname a file in a folder that exists and that you may write to"
        ) from error


def _refuse_nothing(collection: Collection, runs: Path) -> None:
    """Raise UserError where no run has ended yet, saying what was found instead."""
    if len(collection.runs):
        return
    found = [f"not used: {path}: {reason}" for path, reason in collection.problems]
    found += [f"no result yet: {folder}" for folder in collection.unfinished]
    more = f"... and {len(found) - 2} more" if len(found) > 3 else ""
    lines = [f"no finished run in '{runs}'", *found[: 2 if more else 3], more]
    fix = "make one with: lrbench train task=sum model=blockdiag; or name another with --runs DIR"
    raise UserError("\n".join(filter(None, [*lines, fix])))


def _name_problems(collection: Collection) -> None:
    """Name on stderr what a csv file has no place for."""
    from lrbench.console import messages

    for path, reason in collection.problems:
        messages().print(f"not used: {path}: {reason}", markup=False)
