"""`lrbench bundle`: a table with everything behind it in one archive."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lrbench.errors import UserError, unknown

HELP = (
    "Pack a table with everything behind it into one archive.\n\n"
    "The archive can be published or sent to reviewers. It has configurations, results, versions,"
    " hashes of the data, the source of plugins, and for each run the weights that the table's"
    " rule kept.\n\n"
    "The same runs give the same bytes. `lrbench verify` checks such a file.\n\n"
    "For example: lrbench bundle --table fan2024_table2 --anonymous --output table2.zip"
)


NAMED = 3  # things that are left out, by name


def add_to(app: typer.Typer, panel: str) -> None:
    """Register the command."""
    app.command(help=HELP, rich_help_panel=panel)(bundle)


def bundle(
    table: Annotated[str, typer.Option(metavar="NAME", help="A table's name or file.")] = "",
    rows: Annotated[str, typer.Option(metavar="MODELS", help="Or: these models.")] = "",
    columns: Annotated[str, typer.Option(metavar="TASKS", help="Or: these tasks.")] = "",
    runs: Annotated[Path, typer.Option(metavar="DIR", help="Folder of runs.")] = Path("outputs"),
    rule: Annotated[
        str, typer.Option(help="The rule of the checkpoint; default: the table's rule.")
    ] = "",
    fingerprint: Annotated[
        str,
        typer.Option(
            metavar="FINGERPRINTS",
            help="Which configurations, by the start of the fingerprint, if there are several.",
        ),
    ] = "",
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A .zip or .tar.gz; default: NAME.zip.")
    ] = None,
    anonymous: Annotated[
        bool, typer.Option("--anonymous", help="Remove user, host, folders, remotes, commit.")
    ] = False,
) -> None:
    """Write a bundle."""
    if table and (rows or columns):
        raise UserError("--table, or --rows and --columns: not both", exit_code=2)
    from lrbench.protocols.base import rule_names
    from lrbench.tables import load_table

    if rule and rule not in rule_names():
        raise unknown("rule", rule, rule_names(), exit_code=2)
    from lrbench.bundles.archive import packed
    from lrbench.bundles.choice import TableChoice
    from lrbench.bundles.pack import pack
    from lrbench.cli.written import check_place, write
    from lrbench.console import messages
    from lrbench.plugins import load_plugins
    from lrbench.report.output.display import plural
    from lrbench.runs.folder.versions import told_of

    load_plugins()
    spec = load_table(table) if table else None
    chosen = rule or (spec.rule if spec else "best")
    choice = TableChoice(spec, _names(rows), _names(columns), chosen)
    path = output or Path(f"{choice.name}.zip")
    packed({}, path.name)  # a wrong ending is told before anything is read
    check_place(path)
    made = pack(runs, choice, path.name, _names(fingerprint), anonymous)
    write(path, made.data)
    say = messages().print
    if made.without_checkpoint:
        count = len(made.without_checkpoint)
        say(
            f"{count} of {made.runs} runs have no '{chosen}' checkpoint to score again",
            markup=False,
        )
    for what, left in (
        ("damaged, left out", made.damaged),
        ("unfinished, left out", made.unfinished),
        (
            f"answers on all strings are of other checkpoints than '{chosen}', left out",
            made.answers_left,
        ),
    ):
        if left:
            say(_named(what, left), markup=False, soft_wrap=True)
    for told in told_of(made.not_hashed, "the fingerprints, nor in this bundle"):
        say(told, markup=False, soft_wrap=True)
    size = len(made.data) / 2**20
    parts = plural(made.runs, "run"), plural(made.files, "file"), f"{size:.1f} MiB"
    say(f"wrote {path}: {', '.join(parts)}", markup=False)
    typer.echo(f"{made.digest}  {path}")


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _named(what: str, left: list[str]) -> str:
    """Return what is left out: how many there are, and the first of them by name."""
    more = f", and {len(left) - NAMED:,} more" if len(left) > NAMED else ""
    return f"{what}: {len(left):,} ({', '.join(left[:NAMED])}{more})"
