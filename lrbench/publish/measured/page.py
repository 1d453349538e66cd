"""README.md of a measured table and its figures, from its runs.csv, settings.json and notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lrbench.publish.layout import FIGURES, NOTES, NUMBERS, PAGE, RECORDS, SETTINGS, Files
from lrbench.publish.making import commits, machine, versions
from lrbench.publish.measured.figure import Plot, svg
from lrbench.publish.measured.kind import FACTOR, Compared, Kind, Row, Settings
from lrbench.publish.notes import Disagreement, Notes, check_patterns, read_notes
from lrbench.report.cells import Table, escape, to_markdown

HEAD = f"<!-- made by lrbench publish from {NUMBERS}, {SETTINGS} and {NOTES}; edit those -->"
NOT_YET = "Not looked into yet."


def measured_page(
    kind: Kind, folder: Path, rows: Sequence[Row], settings: Settings, references: Path | None
) -> Files:
    """Return README.md and figures/*.svg; UserError for notes that may not stand there."""
    notes = read_notes(folder / NOTES)
    compared = kind.compared(rows, settings, references)
    check_patterns(folder / NOTES, notes, [one.cell for one in compared])
    plots = kind.plots(rows, settings)
    tables = kind.tables(rows, settings, references)
    name = folder.absolute().name
    text = "\n".join(_lines(kind, name, tables, plots, compared, notes, settings))
    return {PAGE: text.encode(), **{f"{FIGURES}/{one.name}.svg": svg(one) for one in plots}}


def _lines(
    kind: Kind,
    name: str,
    tables: Sequence[Table],
    plots: Sequence[Plot],
    compared: Sequence[Compared],
    notes: Notes,
    settings: Settings,
) -> Iterator[str]:
    yield from (HEAD, f"# {escape(kind.title)}", "")
    yield f"Source: {kind.source}. Every number of ours below is from [{NUMBERS}]({NUMBERS})."
    yield ""
    yield f"{kind.numbers}\n"
    if notes.about:
        yield f"{notes.about}\n"
    yield from (to_markdown(table) for table in tables)
    for plot in plots:
        yield f"![{escape(plot.caption)}]({FIGURES}/{plot.name}.svg)\n"
    yield "## Where our ratios and the paper's differ\n"
    yield from _differences(compared, notes)
    yield "## How it was made\n"
    yield from _making(kind, name, notes, settings)


def _differences(compared: Sequence[Compared], notes: Notes) -> Iterator[str]:
    """An item for each ratio that differs, and below those of one note what it says."""
    groups: dict[Disagreement | None, list[Compared]] = {}
    for one in compared:
        if one.differs:
            groups.setdefault(notes.on(one.cell), []).append(one)
    if not groups:
        yield f"Nowhere by more than a factor of {FACTOR:g}.\n"
        return
    many = sum(map(len, groups.values()))
    yield f"By more than a factor of {FACTOR:g}, {many} of {len(compared)}:\n"
    for note, group in sorted(groups.items(), key=lambda item: item[0] is None):
        for one in group:
            yield f"- **{escape(one.cell)}**: ours {_ratio(one.ours)}, paper {_ratio(one.paper)}"
        told = f"Checked: {note.checked} Believed: {note.believed}" if note else NOT_YET
        yield f"\n  {' '.join(told.split())}\n"


def _making(kind: Kind, name: str, notes: Notes, settings: Settings) -> Iterator[str]:
    measured = settings["measurements"]
    found: list[dict[str, Any]] = [one["environment"] for one in measured]
    yield "```sh"
    yield from notes.commands
    yield from dict.fromkeys(_command(kind, one, name) for one in found)
    yield f"lrbench publish --rebuild results/{name}    # this page, from its {NUMBERS}"
    yield "```\n"
    days = sorted({str(one.get("date"))[:10] for one in found})
    for title, told in (
        ("dates", days),
        ("commits", [commits(found, "files")]),
        ("machines", sorted(set(map(machine, found)))),
        ("versions", sorted(set(map(versions, found)))),
    ):
        yield f"- {title}: {escape('; '.join(told))}"
    yield f"- records: [{RECORDS}]({RECORDS}), from which {NUMBERS} and {SETTINGS} are made\n"


def _command(kind: Kind, environment: dict[str, Any], name: str) -> str:
    """The command of a record, with its output where it is kept here."""
    words = list(environment.get("command") or [])[kind.own :]
    switch = "LRBENCH_COMPILED=0 " if environment.get("compiled") is False else ""
    if "--output" in words:
        place = words.index("--output") + 1
        words[place:] = [f"results/{name}/{RECORDS}/{Path(words[place]).name}", *words[place + 1 :]]
    return switch + " ".join([kind.command, *words])


def _ratio(value: float) -> str:
    return f"{value:.3g}"
