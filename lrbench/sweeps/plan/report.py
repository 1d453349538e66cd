"""The messages of a sweep: its work and expected time, the end of each run, a final table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from rich.console import Console

from lrbench.checks import shown
from lrbench.console import interactive, messages, results, stderr
from lrbench.machine import available_cores
from lrbench.metrics import METRICS
from lrbench.protocols.base import declared
from lrbench.records import Result
from lrbench.report.output.cells import duration, spread
from lrbench.report.output.display import columns_table, plural, say
from lrbench.sweeps.plan.expected import Estimate, machine_ratio
from lrbench.sweeps.plan.ledger import End
from lrbench.sweeps.plan.plan import Plan, PlannedRun

PARALLEL = "hydra/launcher=joblib"
UNKNOWN = "unknown"
COLUMNS = ("finished", "elsewhere", "skipped", "diverged", "failed")


def announce(text: str) -> None:
    """Print a line on stderr, above a live bar if there is one."""
    if interactive():
        messages().print(text, markup=False)
    else:
        print(text, file=stderr(), flush=True)


def line_of(end: End, score: Callable[[Result], str]) -> str:
    """Return what is said of a run that ended: task, model, seed, score or why not, seconds."""
    parts = [end.run.name]
    if end.status == "failed":
        parts.append(f"failed: {shown(end.message.partition(chr(10))[0], 200)}")
    elif end.result is not None:
        parts += [text for text in (_status(end), score(end.result)) if text]
    if end.seconds is not None:
        parts.append(duration(end.seconds))
    return " · ".join(parts)


def accuracy(result: Result, rule: str) -> str:
    """Return '0.998 at 500' on fresh strings of the first test length, by this rule.

    By the paper's rule where the protocol has no such rule. Of a task that is scored by an error,
    that error; over a corpus '0.591 on near_iid'.
    """
    found = _score(result, rule)
    return f"{found[0]:.3f} {found[1]}" if found else ""


def _score(result: Result, rule: str) -> tuple[float, str] | None:
    """The score on fresh strings of the first test length or split, and where that is."""
    protocol = declared(result["protocol"])
    settings = result["config"].get("protocol") or {}
    lengths, splits = settings.get("test_lengths") or [], settings.get("test_splits") or []
    which = rule if rule in protocol.rules else protocol.usual_rule
    for row in result["evaluations"]:
        fresh = row["kind"] == "test" and row["metric"] in METRICS and row["which"] == which
        if not fresh or row["value"] is None:
            continue
        if protocol.by_split and row["split"] in splits[:1]:
            return row["value"], f"on {row['split']}"
        here = row["length"] in lengths[:1] if lengths else row["split"] == "test"
        if not protocol.by_split and here:
            return row["value"], f"at {row['length']}"
    return None


def plan_table(plan: Plan) -> None:
    """Print the cells with what is finished, to do, and how long that may take."""
    console, estimate = results(), Estimate(plan)
    to_do = {id(run) for run in plan.to_do}
    cells: dict[str, list[PlannedRun]] = {}
    for run in plan.runs:
        cells.setdefault(run.label, []).append(run)
    missing = {label: [run for run in runs if id(run) in to_do] for label, runs in cells.items()}
    columns = {
        "": list(cells),
        "finished": [str(len(cells[label]) - len(runs)) for label, runs in missing.items()],
        "to do": [str(len(runs)) for runs in missing.values()],
        "up to about": [_expected(runs, estimate) for runs in missing.values()],
    }
    columns_table(console, columns)
    everything = [run for runs in missing.values() for run in runs]
    finished = len(plan.runs) - len(everything)
    line = f"{plural(len(plan.runs), 'run')}: {finished} finished, {len(everything)} to do"
    expected = [estimate.of(run) for run in everything]
    longest = _expected(everything, estimate)
    if longest == UNKNOWN:
        line += "; no run like them tells how long they take"
    elif everything:
        bound = "" if None in expected else "up to about "
        line += f"; one after the other {bound}{longest}"
    say(console, line)
    known = [each for each in expected if each is not None]
    cores = available_cores()
    if known and cores > 1 and len(everything) > 1:
        least = max(sum(each.seconds for each in known) / cores, max(known).seconds)
        say(console, f"on {cores} cores at once about {duration(least)}: {PARALLEL}")
    if any(not each.whole for each in known):
        say(console, "updates alone, where no run here tells how long an examination takes")
    if any(each.published for each in known):
        ratio = machine_ratio()
        say(
            console,
            f"~: guessed from published runs of the model; this machine takes {ratio:.2f} times as"
            " long for an update that both know",
        )


def _expected(runs: Sequence[PlannedRun], estimate: Estimate) -> str:
    expected = [estimate.of(run) for run in runs]
    known = [each for each in expected if each is not None]
    if not runs:
        return "-"
    if not known:
        return UNKNOWN
    mark = "~" if any(each.published for each in known) else ""
    more = "more than " if len(known) < len(runs) else ""
    return f"{more}{mark}{duration(sum(each.seconds for each in known))}"


def end_table(
    ends: Iterable[End], open_runs: int, console: Console, rule: str = "", following: str = ""
) -> None:
    """Print how many runs of each cell ended how, and below why some failed.

    With a `rule` also what they scored by it; `following` is the command to go on with.
    """
    ends = list(ends)
    cells: dict[str, Counter[str]] = {}
    scores: dict[str, list[tuple[float, str]]] = {}
    for end in ends:
        cells.setdefault(end.run.label, Counter())[end.status] += 1
        found = _score(end.result, rule) if rule and end.result is not None else None
        scores.setdefault(end.run.label, []).extend([found] if found else [])
    used = [name for name in COLUMNS if any(count[name] for count in cells.values())]
    columns = {"": list(cells)}
    for name in used:
        columns[_heading(name)] = [str(count[name]) for count in cells.values()]
    if any(scores.values()):
        columns[f"by the rule {rule}"] = [_spread(found) for found in scores.values()]
    if ends:
        columns_table(console, columns)
    for line in failures(ends):
        say(console, line)
    if open_runs:
        say(console, f"not done: {open_runs}")
    if following and any(scores.values()):
        say(console, following, label="all numbers   ")


def failures(ends: Sequence[End]) -> Iterable[str]:
    """Yield a line for each run that failed: which, why, where its log is."""
    for end in ends:
        if end.status == "failed":
            where = end.log or end.run.run.folder
            yield f"failed: {end.run.name}: {shown(end.message.partition(chr(10))[0], 300)}"
            yield f"        {where}"


def _spread(scores: Sequence[tuple[float, str]]) -> str:
    """Mean ± sample std (n) of the runs of a cell, and where they were scored."""
    if not scores:
        return "-"
    return f"{spread([value for value, _ in scores], 3).text} {scores[0][1]}"


def _status(end: End) -> str:
    return end.status if end.status == "diverged" else ""


def _heading(status: str) -> str:
    return "by another" if status == "elsewhere" else status
