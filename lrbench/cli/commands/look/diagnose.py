"""`lrbench diagnose RUN`: what a checkpoint does inside, in the terminal or as a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lrbench.cli.written import check_place, write

if TYPE_CHECKING:
    from rich.console import Console

    from lrbench.diagnosis.findings import Diagnosis

HELP = (
    "Look into a run: accuracy by length and state, spectra, its automaton.\n\n"
    "It prints accuracy and margins (the right logit minus the largest other one) by length and by"
    " the task's state, how far apart the model's states are, which layer is the first to lose the"
    " task's states, saturation, eigenvalues of each symbol's matrix (linear recurrences) or"
    " products of Jacobians (other models), an extracted automaton, and what lrbench certify"
    " found.\n\n"
    "RUN is a run's folder, the one that holds result.json, of a task that is a finite automaton"
    " (sum, parity, mod_arith, group, dfa and others). It proves nothing: an automaton that is"
    " equal on what was asked may be wrong on a string of 12 symbols, which lrbench certify"
    " finds.\n\n"
    "For example: lrbench diagnose outputs/sum/lstm/fan2024/0123456789ab/s0 --html page.html"
)


def add_to(app: typer.Typer, panel: str) -> None:
    """Register the command."""
    app.command(help=HELP, rich_help_panel=panel)(diagnose)


def diagnose(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run's folder.")],
    which: Annotated[
        str, typer.Option(help="The rule of the checkpoint: last, best, id or band.")
    ] = "last",
    lengths: Annotated[
        str, typer.Option(help="Lengths of random strings; default: 40,500,5003.")
    ] = "",
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a page with pictures.")
    ] = None,
    as_json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write every number.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
) -> None:
    """Diagnose a run."""
    if html is not None:
        from lrbench.report.figures.draw import require_matplotlib

        require_matplotlib()
    for file in (html, as_json):
        if file is not None:
            check_place(file)
    from lrbench.console import messages, results
    from lrbench.plugins import load_plugins
    from lrbench.runs.evaluate.diagnose import diagnose_run

    load_plugins()
    with messages().status("") as line:  # on a terminal alone
        found = diagnose_run(
            run, which, lengths, device, lambda part: line.update(f"looking at {part}")
        )
    try:  # the files first: the reader of what is printed (head, less) may leave early
        if html is not None:
            from lrbench.diagnosis.page import page

            _write(html, page(found))
        if as_json is not None:
            from lrbench.diagnosis.findings import as_json as content

            _write(as_json, json.dumps(content(found), indent=1) + "\n")
    finally:
        _show(found, results())


def _show(found: Diagnosis, console: Console) -> None:
    """Print the sentences, then the tables."""
    from lrbench.diagnosis.findings import in_short, tables
    from lrbench.report.output.display import columns_table, say

    say(console, f"{found.title} · {' · '.join(found.about)}", "bold")
    for line in in_short(found):
        say(console, line)
    for table in tables(found):
        console.print()
        say(console, table.title, "bold")
        titles = [column.title for column in table.columns]
        texts = [[row[place].text for row in table.rows] for place in range(len(titles))]
        columns_table(console, dict(zip(titles, texts, strict=True)))
        for note in table.notes:
            say(console, note, "dim")


def _write(file: Path, text: str) -> None:
    from lrbench.console import messages

    write(file, text.encode())
    messages().print(f"written: {file}", markup=False, soft_wrap=True)
