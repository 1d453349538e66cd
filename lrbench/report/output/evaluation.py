"""The output of `lrbench evaluate`: a line for each length, or split."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from lrbench.metrics import metric_of
from lrbench.records import Evaluation
from lrbench.report.output.display import columns_table, interval, number, say
from lrbench.report.output.summary import Columns, at_positions


def evaluation_table(rows: Sequence[Evaluation], console: Console) -> None:
    """Print one line a length, or a split, for `lrbench evaluate`.

    Each row has `length`, `n`, `metric` and `value`, and where known `chance`, `peak_mib` (peak
    memory), `seconds`, `exact` (the share of strings right everywhere), and of tasks that are asked
    at every position `token`, `sequence` and `prefix`. Rows with a `baseline` are of splits. Below
    it is said which checkpoint that was.
    """
    if not rows:
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
    known = [row for row in rows if "checkpoint_step" in row]
    for rule, step in dict.fromkeys((row["which"], row["checkpoint_step"]) for row in known):
        say(console, f"the checkpoint of rule {rule}, of update {step:,}", "dim")
    names = dict.fromkeys(str(name) for row in rows if (name := row.get("baseline")))
    if names:
        say(console, f"baseline: the best of those that were measured: {', '.join(names)}", "dim")
