"""What a person sees at the end of a run, and after `lrbench evaluate`.

Printed to the console that is passed in (stdout's): styled on a terminal, the same words in plain
text otherwise, readable in 80 columns.
"""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from lrbench.metrics import METRICS, metric_of
from lrbench.protocols.base import declared
from lrbench.records import POSITIONS
from lrbench.report.output.cells import duration
from lrbench.report.output.display import columns_table, count, interval, number, plural, say, wrap
from lrbench.report.output.split_summary import split_evaluation_table, split_lines
from lrbench.report.paper.reference import Reference, lookup_run
from lrbench.report.runs.record import best_baseline, guessing_at
from lrbench.tables import RULES

PAPER_RULE = "best"
FURTHER = (5_003, 50_021, 500_009)  # primes, so of no special residue, and odd for mod_arith

Groups = list[tuple[str, ...]]


def run_summary(
    result: dict[str, Any], folder: Path, console: Console, references: Path | None = None
) -> None:
    """Print what the run in `folder` can do, from its result.json.

    The paper's number is looked up in `references` (default: the project's own reference tables).
    """
    for line in wrap(_header(result), " · ", console.width):
        say(console, line, "bold")
    if result["status"] == "diverged":
        say(console, _diverged(result), "bold red")
    if declared(result["protocol"]).by_split:
        split_lines(result, folder, console, references)
        return
    rows = [row for row in result["evaluations"] if _is_fresh(row)]
    if rows:
        console.print()
        _accuracies(result, rows, lookup_run(result, references), console)
    longer = [] if result.get("horizon") == {} else rows  # a corpus has no longer strings
    told = [*_look(result), *_horizons(result), *_positions(result), *_further(folder, longer)]
    for label, text in told:
        say(console, text, label=f"{label:<13} ")


def evaluation_table(rows: Sequence[dict[str, Any]], console: Console) -> None:
    """Print one line a length, for `lrbench evaluate`.

    Each row has `length`, `n`, `metric` and `value`, and where known `chance`, `peak_mib` (peak
    memory) and `seconds`. Rows with a `baseline` are of splits, one line each.
    """
    if rows and "baseline" in rows[0]:
        split_evaluation_table(rows, console)
        return
    metric = metric_of({"evaluations": rows})
    columns = {
        "length": [f"{row['length']:,}" for row in rows],
        "strings": [f"{row['n']:,}" for row in rows],
        metric.title: [f"{row['value']:.4f}" for row in rows],
    }
    if metric.counts:
        columns["95 % interval"] = [interval(row["value"], row["n"]) for row in rows]
    columns |= {
        "chance": [number(row, "chance", ".3f") for row in rows],
        "memory MiB": [number(row, "peak_mib", ",.0f") for row in rows],
        "seconds": [number(row, "seconds", ",.1f") for row in rows],
    }
    columns_table(console, columns)


def _is_fresh(row: dict[str, Any]) -> bool:
    return row["kind"] == "test" and row["metric"] in METRICS and row["value"] is not None


def _header(result: dict[str, Any]) -> list[str]:
    """The parts of the first lines: what was trained, how, on what."""
    what = [part for part in (result["model"], *_size(result)) if part]
    where = [result.get("device"), _counted(result, "threads", "thread")]
    parts = [
        result.get("task_title") or result["task"],
        ", ".join(what),
        result["protocol"],
        f"seed {result['seed']}",
        ", ".join(part for part in where if part),
        plural(result["steps"], "update")
        + (f" in {duration(result['train_seconds'])}" if result.get("train_seconds") else ""),
    ]
    return [part for part in parts if part]


def _size(result: dict[str, Any]) -> Iterable[str]:
    model = result["config"].get("model") or {}
    mixer = model.get("mixer") or {}
    yield plural(model["layers"], "layer") if model.get("layers") else ""
    size, blocks = mixer.get("block_size"), mixer.get("blocks")
    if size and not blocks and model.get("width"):
        blocks = model["width"] // size
    yield f"{blocks} blocks of {size}" if size and blocks else ""
    yield f"{count(result['parameters'])} parameters" if result.get("parameters") else ""
    yield f"state {result['state_size']:,} floats" if result.get("state_size") else ""


def _counted(result: dict[str, Any], name: str, noun: str) -> str:
    return plural(result[name], noun) if result.get(name) else ""


def _diverged(result: dict[str, Any]) -> str:
    kept = any(_is_fresh(row) for row in result["evaluations"])
    return f"diverged at update {result['steps']:,}: training was no longer finite; " + (
        "below: checkpoints from before" if kept else "nothing to test"
    )


def _groups(result: dict[str, Any], rows: list[dict[str, Any]]) -> Groups:
    """Rules with the same checkpoint, in one group: they are one model and were scored once."""
    steps = result.get("checkpoints") or {}
    scored = {row["which"] for row in rows}
    groups: dict[Any, tuple[str, ...]] = {}
    for rule in (*RULES, *sorted(scored.difference(RULES))):
        if rule in scored or rule in steps:
            key = steps.get(rule, rule)
            groups[key] = (*groups.get(key, ()), rule)
    return [group for group in groups.values() if scored.intersection(group)]


def _value(rows: list[dict[str, Any]], group: tuple[str, ...], length: int) -> Any:
    found = [row for row in rows if row["length"] == length and row["which"] in group]
    return found[0] if found else None


def _accuracies(
    result: dict[str, Any],
    rows: list[dict[str, Any]],
    paper: Reference | None,
    console: Console,
) -> None:
    lengths, metric = sorted({row["length"] for row in rows}), metric_of(result)
    groups = _groups(result, rows)
    tests = [row["length"] for row in rows if row["split"] == "test"]
    columns = {
        "length": [f"{length:,}" for length in lengths],
        "": [_split(rows, length) for length in lengths],
    }
    for index, group in enumerate(groups):
        found = [_value(rows, group, length) for length in lengths]
        columns["=".join(group)] = [f"{row['value']:.4f}" if row else "-" for row in found]
        if index == 0 and metric.counts:  # one interval: the first group holds the paper's rule
            columns["95 % interval"] = [
                interval(row["value"], row["n"]) if row else "-" for row in found
            ]
    columns["chance"] = [
        number(best_baseline(result, length) or {}, "value", ".3f") for length in lengths
    ]
    guessing = [guessing_at(result, PAPER_RULE, length) or {} for length in lengths]
    if metric.counts:
        columns["guessing"] = [number(row, "value", ".3f") for row in guessing]
    columns["paper"] = [paper.at(length) if paper else "-" for length in lengths]
    columns_table(console, columns, lengths.index(tests[0]) if tests else -1)
    for caption in _captions(result, rows, groups):
        for line in textwrap.wrap(caption, console.width):
            say(console, line, "dim")


def _split(rows: list[dict[str, Any]], length: int) -> str:
    splits = {row["split"] for row in rows if row["length"] == length}
    return "test" if "test" in splits else "train" if "train_length" in splits else ""


def _captions(result: dict[str, Any], rows: list[dict[str, Any]], groups: Groups) -> Iterable[str]:
    sizes: dict[int, list[int]] = {}
    for row in rows:
        lengths = sizes.setdefault(row["n"], [])
        lengths += [] if row["length"] in lengths else [row["length"]]
    most, *others = sorted(sizes, key=lambda n: -len(sizes[n]))
    told = [f"{n:,} at {' and '.join(f'{length:,}' for length in sizes[n])}" for n in others]
    strings = f"{most:,} fresh strings a length" + (f", {', '.join(told)}" if told else "")
    metric = metric_of(result)
    where = "at the final position" if metric.counts else "at every position, lower is better"
    yield f"{strings}; {metric.title} {where}"
    known = [row for row in result.get("guessing") or [] if row["rule"] == PAPER_RULE]
    for guess in [row for row in known if row.get("looks") and row.get("strings")][:1]:
        looks = f"best of {plural(guess['looks'], 'look')} at {guess['strings']:,} strings"
        yield f"guessing: a guesser under the paper's rule, {looks}"
    steps = result.get("checkpoints") or {}
    taken = [f"{'='.join(g)} {steps[g[0]]:,}" for g in groups if steps.get(g[0]) is not None]
    if len(groups) > 1 and metric.counts:
        yield f"95 % interval: of {'='.join(groups[0])}"
    if len(taken) > 1:
        yield f"checkpoints, by update: {', '.join(taken)}"


def _look(result: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """The look that the paper's rule reports: a perfect one, or the best there was."""
    looks = [r for r in result["evaluations"] if (r["kind"], r["which"]) == ("look", PAPER_RULE)]
    look = next((r for r in looks if r["split"] == "test" and r["metric"] in METRICS), None)
    strings = f"{look['n']:,} strings at {look['length']:,}" if look else ""
    perfect = result.get("perfect_look")
    if perfect:
        seconds = perfect.get("seconds")
        when = f"update {perfect['step']:,}"
        when += f" ({duration(seconds)})" if seconds is not None else ""
        ended = "; training ended there" if result.get("stopped") == "perfect" else ""
        yield "perfect look", ", ".join(part for part in (when, strings) if part) + ended
    elif look and look["value"] is not None:
        step = (result.get("checkpoints") or {}).get(PAPER_RULE)
        when = f" at update {step:,}" if step is not None else ""
        yield "best look", f"{look['value']:.4f}{when}, {strings}"


def _horizons(result: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """The horizon of the paper's rule, and those of other rules where they differ from it."""
    told: list[str] = []
    for rule, horizon in (result.get("horizon") or {}).items():
        if horizon["text"] in told:
            continue
        how = ", ".join(horizon[name] for name in ("dtype", "mode") if horizon.get(name))
        whose = f" of {rule}" if told else ""
        yield f"horizon{whose}", horizon["text"] + (f" ({how})" if how else "")
        again = horizon.get("float64")
        if again:
            why = "rounding" if again["verdict"] == "rounding" else "the rule, not rounding"
            yield "", f"float64 gives {again['value']:.4f} at {again['length']:,}: it is {why}"
        told.append(horizon["text"])


def _positions(result: dict[str, Any]) -> Iterable[tuple[str, str]]:
    """What the last checkpoint says at every position, of tasks that were scored there."""
    rows = [row for row in result["evaluations"] if row["split"] == POSITIONS]
    which = "last" if any(row["which"] == "last" for row in rows) else PAPER_RULE
    mine = [row for row in rows if row["which"] == which and row["value"] is not None]
    curve = {row["length"]: row["value"] for row in mine if row["metric"] == "prefix"}
    if not curve:
        return
    longest = max(curve)
    at = {row["metric"]: row["value"] for row in mine if row["length"] == longest}
    yield (
        "positions",
        f"token {at['token']:.4f}, sequence {at['sequence']:.4f} at {longest:,} ({which})",
    )
    steps = [length for length in curve if length.bit_count() == 1 or length == longest]
    yield "prefix", ", ".join(f"{curve[length]:.3f} to {length:,}" for length in sorted(steps)[-6:])


def _further(folder: Path, rows: list[dict[str, Any]]) -> Iterable[tuple[str, str]]:
    """The command that looks at lengths beyond those tested."""
    if not rows:
        return
    longest = max(row["length"] for row in rows)
    further = [length for length in FURTHER if length > longest][:2] or [10 * longest + 1]
    lengths = ",".join(map(str, further))
    yield "look further", f"lrbench evaluate {shlex.quote(str(folder))} --lengths {lengths}"
