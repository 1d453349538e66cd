"""`lrbench certify RUN`: the shortest string that a run's checkpoint gets wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lrbench.errors import UserError

if TYPE_CHECKING:
    from lrbench.runs.evaluate.certify import Certified

HELP = (
    "Search for the shortest string that a run's checkpoint gets wrong: every string up to a"
    " length, prefixes with a pattern repeated for ever, and the strings that are answered most"
    " narrowly. Accuracy on random strings cannot see what is drawn once in 2.4e8.\n\n"
    "RUN is a run's folder, the one that holds result.json, of a task that is a finite automaton"
    " (sum, parity, even_pair, mod_arith). What is found is written to its certificates/ and"
    " counterexample.json, never into result.json.\n\n"
    "The exit code is 3 where a wrong string was found and 1 where none was: that none was found"
    " proves nothing.\n\n"
    "For example: lrbench certify outputs/sum/lstm/fan2024/0123456789ab/s0"
)
WRONG, OPEN = 3, 1  # exit codes


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command(help=HELP)(certify)


def certify(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="A run's folder.")] = None,
    which: Annotated[str, typer.Option(help="Whose checkpoint: last, best, id or band.")] = "last",
    complete: Annotated[
        float, typer.Option(help="Every string is tried, up to a length that has so many.")
    ] = 2e6,
    beam: Annotated[
        int, typer.Option(help="Strings kept for each state of the task, the narrowest.")
    ] = 100,
    longest: Annotated[int, typer.Option(help="Symbols of the longest string.")] = 1000,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write here, not into the run's folder.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    check: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Put the string of a counterexample.json once more."),
    ] = None,
) -> None:
    """Certify a run."""
    from lrbench.plugins import load_plugins

    load_plugins()
    if check is not None:
        _check(check, run)
        return
    if run is None:
        raise UserError("name a run's folder, or a file with --check", exit_code=2)
    for name, value, least in (("--complete", complete, 0), ("--beam", beam, 0)):
        if not least <= value <= 1e9:
            raise UserError(f"{name} must be between {least} and 1e9, not {value}", exit_code=2)
    if not 1 <= longest <= 100_000:
        raise UserError(f"--longest must be between 1 and 100,000, not {longest}", exit_code=2)
    from lrbench.certificates.witness import SearchBudget
    from lrbench.runs.evaluate.certify import certify_run

    budget = SearchBudget(complete=int(complete), beam=beam, longest=longest)
    found = certify_run(run, which, budget, device, output)
    _show(found, run)
    raise typer.Exit(WRONG if found.verdict == "wrong" else OPEN)


def _check(file: Path, run: Path | None) -> None:
    from lrbench.console import results
    from lrbench.runs.evaluate.certify import recheck

    found = recheck(file, run)
    given = found.given or "nothing finite"
    if found.confirmed:
        say = f"confirmed: {given} instead of {found.right} on its {found.length:,} symbols"
    else:
        say = f"not confirmed: {found.right} on its {found.length:,} symbols, which is right"
    results().print(say, markup=False)
    raise typer.Exit(WRONG if found.confirmed else OPEN)


def _show(found: Certified, run: Path) -> None:
    """Print what was found, and what random strings say beside it."""
    from lrbench.certificates.record import shortened
    from lrbench.console import results
    from lrbench.runs.train.result import task_title

    record, console = found.record, results()
    searched, witness = record["searched"], record["witness"]
    config = found.run.config
    told = f"{task_title(config.task)} · {config.model.name} · {record['which']} of {run}"
    console.print(f"{told}, update {found.run.step:,}", style="bold", markup=False)
    complete = searched["complete_to"]
    if witness is None:
        lead = searched["least_margin"]
        lines = [
            f"open: no string was found that it gets wrong ({searched['seconds']:,.1f} s)",
            f"  every string to {complete:,} symbols is right; a prefix with a repeated pattern to"
            f" {searched['families_to']:,}, the most narrowly answered to {searched['beam_to']:,}",
        ]
        if lead is not None:
            lines.append(f"  the narrowest of {searched['strings']:,} answers leads by {lead:.3g}")
        lines.append("  this proves nothing for strings that were not tried")
    else:
        shown = shortened(found.task, tuple(witness["tokens"]))
        how = "the shortest there is" if witness["shortest"] else "the shortest found"
        given = witness["given"] or "nothing finite"
        lines = [
            f"wrong on {shown} ({witness['length']:,} symbols, {how}):"
            f" {given} instead of {witness['right']}",
            f"  found in {searched['seconds']:,.1f} s; every string to {complete:,} is right",
            f"  a random string of that length is this one once in {witness['one_in']:.2g}",
        ]
    if random := _on_random_strings(run, record["which"]):
        lines.append(f"  on random strings: {random}")
    lines.append(f"written: {found.file}")
    for line in lines:
        console.print(line, markup=False)


def _on_random_strings(run: Path, which: str) -> str:
    """What the final tests of a run say of the same checkpoint: '1.0000 of 10,000 at 500'."""
    from lrbench.runs.folder import files
    from lrbench.runs.folder.files import UnreadableFile

    try:
        rows = files.read_json(run / "result.json")["evaluations"]
    except (UnreadableFile, KeyError):
        return ""  # a run under way has no tests yet
    fresh = [row for row in rows if row["kind"] == "test" and row["which"] == which]
    longest = sorted(fresh, key=lambda row: int(row["length"]))[-2:]
    return ", ".join(
        f"{row['value']:.4f} of {row['n']:,} at {row['length']:,}"
        for row in longest
        if row["value"] is not None
    )
