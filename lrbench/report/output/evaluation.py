"""The output of `lrbench evaluate`: a line for each length, or split."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from lrbench.metrics import metric_of
from lrbench.records import TREES, Evaluation
from lrbench.report.output.display import columns_table, interval, number, say
from lrbench.report.output.summary import Columns, at_positions

TREE_TITLES = {
    "trees": "trees",
    "brackets": "brackets",
    "trees_unmarked": "trees, unmarked",
    "brackets_unmarked": "brackets, unmarked",
}
TREE_LEGEND = (
    "trees: the share of strings whose tree has every bracket inside the string as a node;"
    " brackets: the share of these brackets; unmarked: the same without the symbols that only open"
    " or close; in parentheses: the best of three trees that do not look at the string (left to"
    " right, right to left, balanced)"
)


def evaluation_table(rows: Sequence[Evaluation], console: Console) -> None:
    """Print one line a length, or a split, for `lrbench evaluate`.

    Each row has `length`, `n`, `metric` and `value`, and where known `chance`, `peak_mib` (peak
    memory), `seconds`, `exact` (the share of strings right everywhere), and of tasks that are asked
    at every position `token`, `sequence` and `prefix`. Rows with a `baseline` are of splits. Below
    it is said which checkpoint that was.
    """
    if not rows:
        return
    if rows[0].get("kind") == TREES:
        _tree_table(rows, console)
        return
    metric, on_splits = metric_of({"evaluations": rows}), "baseline" in rows[0]
    columns: Columns = {} if on_splits else {"length": [f"{row['length']:,}" for row in rows]}
    if on_splits:
        columns[""] = [row["split"] for row in rows]
    columns["strings"] = [f"{row['n']:,}" for row in rows]
    columns[metric.title] = [f"{row['value']:.4f}" for row in rows]
    if metric.counts:
        columns["95 % interval"] = [interval(row["value"], row["n"]) for row in rows]
    if any("exact" in row for row in rows):
        columns["exact"] = [number(row, "exact", ".4f") for row in rows]
    chance = "baseline" if on_splits else "chance"
    for title, key, form in (
        (chance, "chance", ".3f"),
        ("memory MiB", "peak_mib", ",.0f"),
        ("seconds", "seconds", ",.1f"),
    ):
        columns[title] = [number(row, key, form) for row in rows]
    columns_table(console, columns)
    for row in rows:
        if "prefix" in row:
            for label, text in at_positions(row["token"], row["sequence"], dict(row["prefix"])):
                say(console, text, label=f"{label:<13} ")
    _checkpoints(rows, console)
    names = dict.fromkeys(str(name) for row in rows if (name := row.get("baseline")))
    if names:
        say(console, f"baseline: the best of those that were measured: {', '.join(names)}", "dim")


def _checkpoints(rows: Sequence[Evaluation], console: Console) -> None:
    known = [row for row in rows if "checkpoint_step" in row]
    for rule, step in dict.fromkeys((row["which"], row["checkpoint_step"]) for row in known):
        say(console, f"the checkpoint of rule {rule}, of update {step:,}", "dim")


def _tree_table(rows: Sequence[Evaluation], console: Console) -> None:
    """Print a line a split: what its trees are worth, and the best tree that looks at nothing."""
    of_split: dict[str, dict[str, Evaluation]] = {}
    for row in rows:
        of_split.setdefault(row["split"], {})[row["metric"]] = row
    columns: Columns = {"": list(of_split)}
    columns["strings"] = [f"{one['trees']['n']:,}" for one in of_split.values()]
    for metric, title in TREE_TITLES.items():
        values = [one[metric] for one in of_split.values()]
        columns[title] = [f"{row['value']:.3f} ({number(row, 'chance', '.3f')})" for row in values]
    columns_table(console, columns)
    _checkpoints(rows, console)
    say(console, TREE_LEGEND, "dim")
