"""`lrbench tasks`, `models`, `tables` and `protocols`: what there is, and a card of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lrbench.cli.completion import complete_table
from lrbench.cli.printed_json import AsJson, print_json
from lrbench.registry import ENCODERS, MIXERS, PROTOCOLS, TASKS

if TYPE_CHECKING:
    from lrbench.cli.commands.look.cards import Card
    from lrbench.registry import Entry, Registry

TASKS_HELP = (
    "List the tasks: name, what is asked, source; with NAME its card.\n\n"
    "A task from a plugin names its module. See strings of one with: lrbench show task=sum"
)
MODELS_HELP = (
    "List the models: name, what it is, source; with NAME its card.\n\n"
    "A card has the equations, every setting with its meaning, default and range, and what the"
    " model works with.\n\n"
    "A model from a plugin names its module. Train one with: lrbench train model=blockdiag"
)
TABLES_HELP = (
    "List the tables: name, title, source, number of cells; with NAME its card.\n\n"
    "Train the missing runs of a table with: lrbench sweep --table fan2024_table2\n\n"
    "Start a table of your own with: lrbench tables fan2024_column --yaml > mine.yaml"
)
PROTOCOLS_HELP = (
    "List the protocols: how a model is trained and tested; with NAME its card.\n\n"
    "Train with one: lrbench train protocol=grazzi2025_short task=xlstm_parity model=blockdiag"
)


def _name(complete: Callable[[], list[str]]) -> Any:
    return typer.Argument(
        metavar="[NAME]", help="Print its card.", show_default=False, autocompletion=complete
    )


def add_to(app: typer.Typer, panel: str) -> None:
    """Register the commands."""
    app.command(help=TASKS_HELP, rich_help_panel=panel)(tasks)
    app.command(help=MODELS_HELP, rich_help_panel=panel)(models)
    app.command(help=PROTOCOLS_HELP, rich_help_panel=panel)(protocols)
    app.command(help=TABLES_HELP, rich_help_panel=panel)(tables)


def tasks(name: Annotated[str | None, _name(TASKS.names)] = None, as_json: AsJson = False) -> None:
    """List the tasks, or print the card of one."""
    from lrbench.cli.commands.look.cards import task_card, trained_by

    _answer(name, as_json, task_card, [TASKS], lambda entry: trained_by(entry)[0])


def models(
    name: Annotated[str | None, _name(lambda: [*MIXERS, *ENCODERS])] = None,
    as_json: AsJson = False,
) -> None:
    """List the models, or print the card of one."""
    from lrbench.cli.commands.look.cards import model_card

    _answer(name, as_json, model_card, [MIXERS, ENCODERS], family)


def protocols(
    name: Annotated[str | None, _name(PROTOCOLS.names)] = None, as_json: AsJson = False
) -> None:
    """List the protocols, or print the card of one."""
    from lrbench.cli.commands.look.cards import protocol_card

    _answer(name, as_json, protocol_card, [PROTOCOLS], lambda entry: "")


def tables(
    name: Annotated[str | None, _name(complete_table)] = None,
    as_json: AsJson = False,
    yaml: Annotated[bool, typer.Option("--yaml", help="Print the file of table NAME.")] = False,
) -> None:
    """List the tables, or print the card or the file of one."""
    from lrbench.cli.commands.look.cards import table_card
    from lrbench.console import results
    from lrbench.errors import UserError
    from lrbench.plugins import load_plugins
    from lrbench.report.output.display import plural, say
    from lrbench.tables import load_table, table_file, table_names

    load_plugins()
    if yaml and name is None:
        raise UserError("which table?\nlrbench tables fan2024_table2 --yaml", exit_code=2)
    if yaml and name is not None:
        typer.echo(table_file(name).read_text(encoding="utf-8"), nl=False)
        return
    if name is not None:
        _print_card(table_card(load_table(name)), as_json)
        return
    specs = [load_table(each) for each in table_names()]
    if as_json:
        print_json([table_card(spec).content() for spec in specs])
        return
    width = max((len(spec.name) for spec in specs), default=0)
    texts = []
    for spec in specs:
        parts = [spec.title, *([f"({spec.source})"] if spec.source else [])]
        parts.append(f"[{plural(len(spec.cells), 'cell')}]")
        line = f"{spec.name:<{width}}  {' '.join(parts)}"
        texts.append((f"protocol {spec.protocol}", line))
    for line in grouped(texts):
        say(results(), line)


def family(entry: Entry) -> str:
    """Return the heading of a model: what it trains on, and the family that its file is in."""
    kind = "mixers" if entry.name in MIXERS else "encoders"
    folders = entry.module.split(".")[2:-1] if entry.builtin else ["plugins"]
    named = " ".join(folders).replace("_", " ") or "around a mixer"
    on = "strings and series" if kind == "mixers" else "corpora"
    return f"{kind} for {on}: {named}"


def grouped(texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield lines under their headings, (heading, line) each: headings in order, "" is none."""
    groups: dict[str, list[str]] = {}
    for heading, line in texts:
        groups.setdefault(heading, []).append(line)
    for number, heading in enumerate(sorted(groups, key=_place)):
        if number:
            yield ""
        if heading:
            yield f"# {heading}"
        yield from groups[heading]


def _place(heading: str) -> tuple[bool, bool, str]:
    """Sort mixers before encoders and strings before all else."""
    return not heading.startswith(("mixers", "strings")), heading.startswith("corpora"), heading


def lines(entries: list[Entry]) -> Iterator[str]:
    """Yield a line for each entry, the names in one column."""
    width = max((len(entry.name) for entry in entries), default=0)
    for entry in entries:
        origin = "" if entry.builtin else f" [plugin {entry.module}]"
        text = " ".join(entry.source.split()) or "(its class has no docstring)"
        yield f"{entry.name:<{width}}  {text}{origin}"


def _answer(
    name: str | None,
    as_json: bool,
    card: Callable[[str], Card],
    registries: list[Registry],
    heading: Callable[[Entry], str],
) -> None:
    """Print the card of `name`, or the list of what is registered under its headings."""
    from lrbench.console import results
    from lrbench.plugins import load_plugins
    from lrbench.report.output.display import say

    load_plugins()
    if name is not None:
        _print_card(card(name), as_json)
        return
    entries = [registry.get(each) for registry in registries for each in registry.names()]
    entries.sort(key=lambda entry: entry.name)
    if as_json:
        print_json([card(entry.name).content() for entry in entries])
        return
    for line in grouped(zip(map(heading, entries), lines(entries), strict=True)):
        say(results(), line)


def _print_card(card: Card, as_json: bool) -> None:
    from lrbench.cli.commands.look.cards import print_card
    from lrbench.console import results

    if as_json:
        print_json(card.content())
    else:
        print_card(card, results())
