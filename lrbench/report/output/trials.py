"""The summary of several runs of one cell: a column for each seed, and their mean."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from lrbench.records import Evaluation, Result
from lrbench.report.output.display import columns_table, header, plural, say, say_wrapped, wrap
from lrbench.report.output.summary import Columns, Line, Summary, layout_of
from lrbench.statistics import mean, t_interval

MOST_SEEDS = 5  # that have a column each
LEVELS = ("chance", "baseline", "paper")  # columns of one run that are the same for all


def trials_summary(
    ended: Sequence[tuple[Result, Path]], console: Console, references: Path | None = None
) -> None:
    """Print what runs of one cell can do together: a sentence a run, and one table.

    `ended` are results of one configuration, each with its folder. Of runs that diverged the
    checkpoints from before count, and a line says so. The paper's number is looked up in
    `references` (default: the project's own reference tables).
    """
    layouts = [layout_of(result, folder, references) for result, folder in ended]
    seeds = [str(result["seed"]) for result, _ in ended]
    for (rules, said), whose in _sentences(layouts, seeds).items():
        named = [_named(whose)] if len(whose) < len(seeds) else []
        label = ", ".join([*named, *([rules] if rules else [])])
        say_wrapped(console, f"{label}: {said}" if label else said, "bold")
    first = ended[0][0]
    parts = [part for part in header(first) if not part.startswith("seed ")]
    parts[-1] = plural(len(ended), "run")  # each has its own number of updates and seconds
    for line in wrap(parts, " · ", console.width):
        say(console, line)
    for layout, seed in zip(layouts, seeds, strict=True):
        if layout.result["status"] == "diverged":
            say(console, f"seed {seed}: {layout.diverged()}", "bold red")
    scored = [layout for layout in layouts if layout.rows]
    if scored:
        console.print()
        columns_table(console, _columns(layouts, seeds), scored[0].bold_row())
        rule = layouts[0].rule
        say_wrapped(
            console,
            f"{layouts[0].metric.title} of the checkpoint of the rule {rule}, a column a seed;"
            f" mean, and its 95 % interval (Student's t over runs)",
            "dim",
        )
    runs = ended[0][1]
    for _ in range(5):  # task, model, protocol, fingerprint, seed
        runs = runs.parent
    say(console, f"lrbench report --runs {shlex.quote(str(runs))}", label=f"{'all numbers':<13} ")


def _sentences(layouts: Sequence[Summary], seeds: Sequence[str]) -> dict[Line, list[str]]:
    """Which seeds each sentence, of the checkpoint of some rules, is true of."""
    found: dict[Line, list[str]] = {}
    for layout, seed in zip(layouts, seeds, strict=True):
        for said in layout.sentences():
            found.setdefault(said, []).append(seed)
    return found


def _named(seeds: Sequence[str]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)}"


def _columns(layouts: Sequence[Summary], seeds: Sequence[str]) -> Columns:
    """The columns that all runs share, a column a seed where they are few, mean and interval."""
    one = next(layout for layout in layouts if layout.rows)
    places = [layout.places() for layout in layouts]
    lines = list(one.places())
    shared = one.columns()
    columns: Columns = {title: shared[title] for title in ("length", "") if title in shared}
    values = {
        line: [
            _value(layout, there.get(line, ()))
            for layout, there in zip(layouts, places, strict=True)
        ]
        for line in lines
    }
    if len(seeds) <= MOST_SEEDS:
        for index, seed in enumerate(seeds):
            columns[f"seed {seed}"] = [_shown(values[line][index]) for line in lines]
    known = {line: [v for v in values[line] if v is not None] for line in lines}
    columns["mean"] = [_shown(mean(known[line]) if known[line] else None) for line in lines]
    columns["95 % interval"] = [_interval(known[line], one.metric.counts) for line in lines]
    return columns | {title: shared[title] for title in LEVELS if title in shared}


def _value(layout: Summary, rows: Sequence[Evaluation]) -> float | None:
    """The score of the checkpoint that the paper's rule kept."""
    group = next((g for g in layout.groups if layout.rule in g), ())
    return next((row["value"] for row in rows if row["which"] in group), None)


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _interval(values: Sequence[float], counts: bool) -> str:
    """The interval of a mean; shares stay within 0 and 1."""
    if len(values) < 2:
        return "-"
    low, high = t_interval(values)
    if counts:
        low, high = max(0.0, low), min(1.0, high)
    return f"[{low:.4f}, {high:.4f}]"
