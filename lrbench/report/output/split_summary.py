"""The end of a run over a corpus, and what `lrbench evaluate` says of it: a line a split."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from lrbench.report.output.display import columns_table, interval, number, plural, say
from lrbench.report.paper.reference import Reference, Split, faithful_on, lookup_on
from lrbench.report.runs.record import baselines_by_split

RULES = ("best", "last")
MOST = 3  # further splits that are named
FURTHER = {
    "listops": (
        *("args_10", "args_15", "args_iid", "lra_test", "near_iid"),
        *(f"len_{low}_{low + 100}" for low in range(200, 1000, 100)),
    ),
    "logic": tuple(f"test_{operators}" for operators in (*range(12, 6, -1), *range(7))),
}


def split_lines(
    result: dict[str, Any], folder: Path, console: Console, references: Path | None = None
) -> None:
    """Print what a run can do on each test split, its dev score, and why it ended."""
    rows = [row for row in result["evaluations"] if _is_test(row)]
    if rows:
        console.print()
        _accuracies(result, rows, console, references)
    for label, text in [*_dev(result), *_end(result), *_further(result, folder, rows)]:
        say(console, text, label=f"{label:<13} ")


def split_evaluation_table(rows: Sequence[dict[str, Any]], console: Console) -> None:
    """Print one line a split, for `lrbench evaluate`; rows as `evaluation_table` has them."""
    columns = {
        "": [row["split"] for row in rows],
        "strings": [f"{row['n']:,}" for row in rows],
        "accuracy": [f"{row['value']:.4f}" for row in rows],
        "95 % interval": [interval(row["value"], row["n"]) for row in rows],
        "baseline": [number(row, "chance", ".3f") for row in rows],
        "memory MiB": [number(row, "peak_mib", ",.0f") for row in rows],
        "seconds": [number(row, "seconds", ",.1f") for row in rows],
    }
    columns_table(console, columns)
    names = dict.fromkeys(str(row["baseline"]) for row in rows if row["baseline"])
    if names:
        say(console, f"baseline: the best of those that were measured: {', '.join(names)}", "dim")


def _is_test(row: dict[str, Any]) -> bool:
    return row["kind"] == "test" and row["metric"] == "accuracy" and row["value"] is not None


def _accuracies(
    result: dict[str, Any], rows: list[dict[str, Any]], console: Console, references: Path | None
) -> None:
    splits = list(dict.fromkeys(row["split"] for row in rows))
    found = {(row["which"], row["split"]): row for row in rows}
    levels, numbers = baselines_by_split(result), _papers(result, splits, references)
    columns = {"": splits}
    columns["strings"] = [
        f"{next(row['n'] for row in rows if row['split'] == split):,}" for split in splits
    ]
    for index, group in enumerate(_groups(result, rows)):
        mine = [found.get((group[0], split)) for split in splits]
        columns["=".join(group)] = [f"{row['value']:.4f}" if row else "-" for row in mine]
        if index == 0:
            columns["95 % interval"] = [
                interval(row["value"], row["n"]) if row else "-" for row in mine
            ]
    best = [max(levels.get(split, {}).items(), key=_value, default=None) for split in splits]
    columns["baseline"] = [_named(each[1][0], each[0]) if each else "-" for each in best]
    columns["paper"] = [each.text if each else "-" for each in numbers]
    columns_table(console, columns)
    for caption in _captions(result, numbers):
        for line in textwrap.wrap(caption, console.width):
            say(console, line, "dim")


def _captions(result: dict[str, Any], numbers: Sequence[Reference | None]) -> Iterable[str]:
    yield "accuracy on whole splits; baseline: the best of those that were measured"
    steps = result.get("checkpoints") or {}
    if len({steps.get(rule) for rule in RULES}) > 1:
        told = [f"{rule} {steps[rule]:,}" for rule in RULES if steps.get(rule) is not None]
        yield f"95 % interval: of best; checkpoints, by update: {', '.join(told)}"
    for paper in [each for each in numbers if each][:1]:
        yield f"paper: {paper.model} in {paper.source}, {paper.aggregation}"


def _groups(result: dict[str, Any], rows: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """The rules that were scored; best and last are one where they kept the same update."""
    steps, scored = result.get("checkpoints") or {}, {row["which"] for row in rows}
    there = [rule for rule in RULES if rule in scored]
    if len(there) == 2 and steps.get("best") is not None and steps["best"] == steps.get("last"):
        return [RULES]
    return [(rule,) for rule in there]


def _papers(
    result: dict[str, Any], splits: Iterable[str], references: Path | None
) -> list[Reference | None]:
    task, model = result["task"], result["model"]
    source = str(_protocol(result).get("train_split") or "train")
    asked = [Split(task, name, source) for name in splits]
    config = result["config"].get("task")
    settings = {f"task.{key}": v for key, v in config.items()} if isinstance(config, dict) else {}
    return [
        lookup_on(split, model, folder=references) if faithful_on(split, settings) else None
        for split in asked
    ]


def _dev(result: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """The look at the dev split by which the best checkpoint was chosen."""
    looks = [
        row
        for row in result["evaluations"]
        if (row["kind"], row["which"]) == ("look", "best") and row["value"] is not None
    ]
    if not looks:
        return
    told = ", ".join(f"{row['metric']} {row['value']:.4f}" for row in looks)
    step = (result.get("checkpoints") or {}).get("best")
    when = f" at update {step:,}" if step is not None else ""
    chosen = _protocol(result).get("select_by")
    how = f" (by {chosen})" if chosen else ""
    yield f"best {looks[0]['split']}", f"{told}{when}, {looks[0]['n']:,} strings{how}"


def _end(result: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """How many epochs it was, and why no more."""
    protocol, epochs = _protocol(result), result.get("epochs")
    after = f"after {epochs:.3g} epochs" if epochs is not None else ""
    if result.get("stopped") == "patience":
        why = f"the dev score no better for more than {protocol.get('patience')} (patience)"
    elif result.get("stopped") == "budget":
        updates = protocol.get("max_steps")
        most = plural(updates, "update") if updates else f"{protocol.get('epochs')} epochs"
        why = f"its budget of {most} was used up"
    else:
        why = ""
    if after or why:
        yield "ended", ": ".join(part for part in (after, why) if part)


def _further(
    result: dict[str, Any], folder: Path, rows: list[dict[str, Any]]
) -> Iterable[tuple[str, str]]:
    """The command that looks at splits that were not tested."""
    tested = {row["split"] for row in rows}
    further = [name for name in FURTHER.get(result["task"], ()) if name not in tested][:MOST]
    if rows and further:
        splits = ",".join(further)
        yield "look further", f"lrbench evaluate {shlex.quote(str(folder))} --splits {splits}"


def _protocol(result: dict[str, Any]) -> dict[str, Any]:
    found = result["config"].get("protocol")
    return found if isinstance(found, dict) else {}


def _named(value: float | None, name: str | None) -> str:
    return "-" if value is None else f"{value:.3f} {name}"


def _value(item: tuple[str, tuple[float, int | None]]) -> float:
    return item[1][0]
