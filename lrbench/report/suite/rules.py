"""The rules for entries of a suite: what an entry lacks, and what may not be in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lrbench.protocols.base import declared
from lrbench.report.output.display import plural
from lrbench.report.runs.columns import BY_CLOCK
from lrbench.report.suite.entries import (
    MAIN,
    Suite,
    SuiteEntry,
    SuiteRun,
    Tried,
    chosen_rates,
)
from lrbench.report.suite.lock import Lock, LockedTask

SEEDS = (0, 1, 2)  # every entry has these; further ones follow without a gap
MOST_SEEDS = 1000
# Rows that were published before the suite said how far to search; their weights are gone.
BY_CLOCK_ONCE = frozenset(
    ["blockdiag", "deltanet [-1,1]", "deltaproduct 2 [-1,1]", "rnn", "transformer (no positions)"]
)
MOST_PARAMETERS, MOST_STATE = 2_000_000, 65_536


def violations(suite: Suite, lock: Lock, label: str, by_clock: bool = False) -> list[str]:
    """Return what keeps a model from being an entry of its division; nothing where it may be one.

    In the division open only the tasks, seeds, test strings and searches for wrong strings count.
    by_clock: of the rows in BY_CLOCK_ONCE searches for wrong strings that a clock cut off count,
    and those of runs that were trained again.
    """
    entry = next((entry for entry in suite.entries if entry.label == label), None)
    if entry is None:
        return ["no run of it has ended"]
    found = [f"{count} runs {why}" for why, count in sorted(suite.refused.items())]
    found += _seeds(entry)
    if entry.division == MAIN:
        tried = [one for one in suite.tried if one.label == label]
        found += [*_sizes(entry), *_searched(entry, tried, lock)]
    found += [*_whole(entry, lock)]
    return [*found, *_examined(entry, lock, by_clock and label in BY_CLOCK_ONCE)]


def _seeds(entry: SuiteEntry) -> Iterator[str]:
    """Every column has the seeds 0, 1, 2, and the same further ones as the others."""
    there = {name: entry.seeds(name) for name in entry.sizes}
    most = max((seeds[-1] for seeds in there.values() if seeds), default=0)
    if most > MOST_SEEDS:
        yield f"seed {most}: the seeds are {', '.join(map(str, SEEDS))} and those that follow"
        return
    wanted = [*range(max(most, SEEDS[-1]) + 1)]
    for name, seeds in there.items():
        missing = [seed for seed in wanted if seed not in seeds]
        if missing:
            yield f"{name}: no run of seed {', '.join(map(str, missing))}"


def _sizes(entry: SuiteEntry) -> Iterator[str]:
    runs = entry.every_run
    parameters, state = max(r.parameters for r in runs), max(r.state or 0 for r in runs)
    if parameters > MOST_PARAMETERS:
        yield f"{parameters:,} parameters; an entry has at most {MOST_PARAMETERS:,}"
    if state > MOST_STATE:
        yield f"a state of {state:,} numbers; an entry has at most {MOST_STATE:,}"


def _searched(entry: SuiteEntry, tried: list[Tried], lock: Lock) -> Iterator[str]:
    """The search of each task is whole, and what it chose is what was trained with."""
    twice = Counter((one.task, one.rate) for one in tried)
    for (task, rate), count in twice.items():
        if count > 1:
            yield f"{lock.name_of(task)}: rate {rate:g} was tried {count} times"
    rates: dict[int, set[float]] = {}
    for one in tried:
        rates.setdefault(one.task, set()).add(one.rate)
    chosen = chosen_rates(tried, lock)
    trained: dict[int, set[float]] = {}
    for run in entry.every_run:
        trained.setdefault(run.task, set()).add(float(run.settings["optim.lr"]))
    for task, used in sorted(trained.items()):
        name = lock.name_of(task)
        missing = [rate for rate in lock.rates if rate not in rates.get(task, set())]
        if missing:
            yield f"{name}: rate {', '.join(f'{rate:g}' for rate in missing)} was not tried"
        elif used != {chosen.get((entry.label, task))}:
            yield f"{name}: trained with {', '.join(f'{rate:g}' for rate in sorted(used))}"


def _whole(entry: SuiteEntry, lock: Lock) -> Iterator[str]:
    """Each run had all updates, and one score at each length, of as many strings as all others."""
    for run in entry.every_run:
        task, name = lock.tasks[run.task], f"{lock.name_of(run.task)}, seed {run.seed}"
        if run.diverged:
            continue
        if problem := _steps(entry, run, task):
            yield f"{name}: {run.steps:,} updates; {problem}"
        if tuple((one.length, one.n) for one in run.tested) != task.tests:
            yield f"{name}: its scores are not one at each of the suite's lengths and numbers"
        if not all(0 <= one.chance < 1 for one in run.tested):
            yield f"{name}: chance is no accuracy below 1"


def _steps(entry: SuiteEntry, run: SuiteRun, task: LockedTask) -> str:
    """What is wrong with the number of updates; nothing of the suite's, or in open of its own."""
    if entry.division == MAIN:
        budget = task.settings["protocol.max_steps"]
        return "" if run.steps == budget else f"the suite has {budget:,}"
    own = run.settings.get("protocol.max_steps")
    fits = own is None or (type(own) is int and run.steps <= own)
    return "" if fits else f"its settings have {own!r:.40}"


def _examined(entry: SuiteEntry, lock: Lock, by_clock: bool) -> Iterator[str]:
    """Each run that was scored was searched for wrong strings as far as the suite says."""
    extent = declared(lock.protocol).search
    if extent is None:
        return
    left: Counter[str] = Counter()
    for run in entry.every_run:
        known = run.answer
        far = known is not None and known.covers(extent) and (by_clock or not known.again)
        far |= known is not None and by_clock and known.extent == BY_CLOCK
        if run.tested and not far:
            left[lock.name_of(run.task)] += 1
    for name, count in left.items():
        runs = plural(count, "run")
        yield f"{name}: {runs} not searched for wrong strings as far as the suite says"
