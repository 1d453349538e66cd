"""The tables of a suite: scores over all tasks, horizons, shortest failures, pairs, the search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from lrbench.report.output.cells import (
    MISSING,
    Column,
    PrintedCell,
    Table,
    duration,
    estimate,
    span,
    spread,
)
from lrbench.report.runs.collection import Collection
from lrbench.report.runs.columns import BY_CLOCK, Answer
from lrbench.report.suite.entries import (
    MAIN,
    OPEN,
    SCORED,
    Suite,
    SuiteEntry,
    Tried,
    chosen_rates,
    suite_of,
)
from lrbench.report.suite.lock import Lock, read_lock
from lrbench.report.suite.scores import (
    improvement,
    interquartile_mean,
    mean_ranks,
    stratified_interval,
)
from lrbench.report.tables.horizons import (
    ONE_WRONG,
    again_mark,
    certified_legend,
    horizon_cells,
    median_of,
)
from lrbench.statistics import mean
from lrbench.tables import TableSpec

OTHERWISE = "other settings than the suite's; not to be compared with the division main"
PLUGIN = "\N{DOUBLE DAGGER}"  # behind a model that is not in this repository
TIMED = "*"  # behind what a search by a clock found
CHOSEN = "#"  # behind the rate that a search chose
COMPACT = (40, 500, 5000)  # the lengths of the small table
HELD = 5000  # the length of the tasks that are counted as held
SHORTEST, LONGEST = SCORED[0], SCORED[-1]

Row = tuple[PrintedCell, ...]


def suite_tables(
    collection: Collection, spec: TableSpec, rule: str = "", *, digits: int = 3
) -> list[Table]:
    """Return the tables of a suite for the runs of `collection`, by `rule` (default: the table's).

    Raises UserError where the suite has no lock.
    """
    lock, rule = read_lock(spec.name), rule or spec.rule
    suite = suite_of(collection, spec, lock, rule)
    notes = _notes(suite, lock, rule)
    return [
        *_scores(suite, spec, notes, digits),
        _accuracies(suite, lock, spec, 500, digits),
        _accuracies(suite, lock, spec, LONGEST, digits),
        _horizons(suite, lock, spec),
        *_failures(suite, lock, spec),
        *_pairs(suite, spec, digits),
        *_searches(suite, lock, spec),
    ]


def compact_suite(
    collection: Collection, spec: TableSpec, rule: str = "", digits: int = 3
) -> Table:
    """Return one small table: scores, how many tasks are held, how many runs are known wrong."""
    lock, rule = read_lock(spec.name), rule or spec.rule
    suite = suite_of(collection, spec, lock, rule)
    rows: list[Row] = []
    for entry in sorted(suite.entries, key=_place):
        done, every = len(entry.columns), len(entry.sizes)
        held = sum(_holds(entry, name) for name in entry.columns)
        scores = (_aggregate(entry, length, digits) for length in COMPACT)
        share = PrintedCell(f"{held} of {done}", (held,))
        rows.append((_name(entry), PrintedCell(f"{done}/{every}"), *scores, share, _wrong(entry)))
    titles = ("tasks", *(f"score at {n:,}" for n in COMPACT), f"held to {HELD:,}", "runs wrong")
    note = (
        f"score: interquartile mean over tasks x seeds by the rule {rule}, chance at 0; held: tasks"
        f" whose median seed failed at no tested length; runs wrong: those of which a search found"
        " a string that they answer wrongly, of those searched; others may err on random strings"
    )
    heads = (Column("", right=False), *(Column(title) for title in titles))
    return Table(spec.title, heads, tuple(rows), (note,))


def _place(entry: SuiteEntry) -> tuple[bool, bool, float]:
    """The best complete entry of the division main first, then those that have tasks left."""
    score = interquartile_mean(entry.table(LONGEST)) if entry.complete else 0.0
    return entry.division != MAIN, not entry.complete, -score


def _wrong(entry: SuiteEntry) -> PrintedCell:
    """How many of the searched runs have a string that they were found to answer wrongly."""
    found = [answer for name in entry.sizes for answer in entry.failures(name) if answer]
    wrong = sum(answer.length is not None for answer in found)
    return PrintedCell(f"{wrong} of {len(found)}", (wrong,)) if found else PrintedCell()


def _columns(lock: Lock) -> list[str]:
    return list(dict.fromkeys(task.label for task in lock.tasks))


def _head(lock: Lock, *more: str) -> tuple[Column, ...]:
    return (Column("model", right=False), *(Column(name) for name in (*_columns(lock), *more)))


def _name(entry: SuiteEntry) -> PrintedCell:
    name = entry.label + f" {PLUGIN}" * entry.of_plugin
    return PrintedCell(name if entry.division == MAIN else f"{name} (open)")


def _scores(suite: Suite, spec: TableSpec, notes: Sequence[str], digits: int) -> Iterator[Table]:
    """The score of each model, and what it takes: a table of each division that has runs."""
    of = {name: [e for e in suite.entries if e.division == name] for name in (MAIN, OPEN)}
    yield _scores_of(of[MAIN], f"{spec.title}: scores", notes, digits)
    if of[OPEN]:
        title = f"{spec.title}: scores of the division open"
        yield _scores_of(of[OPEN], title, (OTHERWISE,), digits)


def _scores_of(
    entries: Sequence[SuiteEntry], title: str, notes: Sequence[str], digits: int
) -> Table:
    complete = [entry for entry in entries if entry.complete and entry.division == MAIN]
    ranks = _ranks(complete)
    rows: list[Row] = []
    for entry in entries:
        held = sum(_holds(entry, name) for name in entry.columns)
        tasks = f"{len(entry.columns)}/{len(entry.sizes)}"
        seeds = span([len(entry.seeds(name)) for name in entry.columns])
        runs = entry.every_run
        states = [run.state for run in runs if run.state is not None]
        rows.append(
            (
                *(_name(entry), PrintedCell(tasks), seeds),
                *(_aggregate(entry, length, digits) for length in SCORED),
                *(_mean(entry, digits), PrintedCell(f"{held}", (held,))),
                PrintedCell(f"{ranks[entry.label]:.1f}") if entry in complete else PrintedCell(),
                *(span([run.parameters for run in runs]), span(states)),
                PrintedCell(duration(sum(run.seconds for run in runs))),
            )
        )
    titles = ("tasks", "seeds", *(f"at {length:,}" for length in SCORED))
    more = (f"mean at {LONGEST:,}", f"held to {HELD:,}", "rank", "parameters", "state", "training")
    heads = (Column("model", right=False), *(Column(title) for title in (*titles, *more)))
    return Table(title, heads, tuple(rows), tuple(notes))


def _aggregate(entry: SuiteEntry, length: int, digits: int) -> PrintedCell:
    """The interquartile mean with its interval; nothing of an entry with tasks left."""
    if not entry.complete:
        return PrintedCell()
    scores = entry.table(length)
    return estimate(interquartile_mean(scores), stratified_interval(scores), digits)


def _mean(entry: SuiteEntry, digits: int) -> PrintedCell:
    if not entry.complete:
        return PrintedCell()
    value = float(entry.table(LONGEST).mean())
    return PrintedCell(f"{value:.{digits}f}", (value,))


def _holds(entry: SuiteEntry, column: str) -> bool:
    median = median_of(entry.horizons(column))
    return median.everywhere


def _ranks(entries: Sequence[SuiteEntry]) -> dict[str, float]:
    """The rank of each of these complete entries, averaged over tasks."""
    if not entries:
        return {}
    means = [[mean(entry.scores(name, LONGEST)) for name in entry.sizes] for entry in entries]
    return dict(zip((entry.label for entry in entries), mean_ranks(means), strict=True))


def _accuracies(suite: Suite, lock: Lock, spec: TableSpec, length: int, digits: int) -> Table:
    """Accuracy of each model on each task at a length, above what chance gives."""
    rows = [
        (_name(entry), *(spread(entry.accuracies(n, length), digits) for n in _columns(lock)))
        for entry in suite.entries
    ]
    levels = [_chance(suite, name, length, digits) for name in _columns(lock)]
    return Table(
        f"{spec.title}: accuracy at {length:,}",
        _head(lock),
        (*rows, (PrintedCell("chance"), *levels)),
        ("mean ± sample std (n) over n seeds; chance: the best baseline, which knows no rule",),
    )


def _chance(suite: Suite, column: str, length: int, digits: int) -> PrintedCell:
    found: dict[int, float] = {}
    for entry in suite.entries:
        for (name, _), runs in entry.runs.items():
            for run in runs if name == column else ():
                below = [one.chance for one in run.tested if one.length <= length]
                found |= {run.task: below[-1]} if below else {}
    if not found:
        return PrintedCell()
    value = mean(list(found.values()))
    return PrintedCell(f"{value:.{digits}f}", (value,))


def _horizons(suite: Suite, lock: Lock, spec: TableSpec) -> Table:
    rows = [
        (
            _name(entry),
            *(horizon_cells(entry.horizons(name))[0] for name in _columns(lock)),
        )
        for entry in suite.entries
    ]
    note = (
        "the longest length of the grid up to which every tested length is right on 0.99 of strings"
        " (lower end of the 95 % interval), each seed; >= : none failed; < : the first one did"
    )
    notes = [note, *_pooled(lock)]
    if any(ONE_WRONG in cell.text for row in rows for cell in row):
        notes.append(f"{ONE_WRONG} a single wrong string at the next length ended it")
    title = f"{spec.title}: how far each run holds on random strings"
    return Table(title, _head(lock), tuple(rows), tuple(notes))


def _pooled(lock: Lock) -> list[str]:
    """Say which columns are of several tasks, whose strings are counted together."""
    sizes = Counter(task.label for task in lock.tasks)
    return [
        f"{name}: the strings of {size} tasks counted together; a seed has a run of each, and one"
        " of these may fail earlier"
        for name, size in sizes.items()
        if size > 1
    ]


def _in_turn(lock: Lock) -> list[str]:
    """Say in which order the runs of a column of several tasks stand."""
    sizes = Counter(task.label for task in lock.tasks)
    return [
        f"{name}: for each seed a run of each of its {size} tasks, in the order of the lock file"
        for name, size in sizes.items()
        if size > 1
    ]


def _failures(suite: Suite, lock: Lock, spec: TableSpec) -> list[Table]:
    """The shortest failure that is known of each run; no table where none was searched."""
    known = [a for entry in suite.entries for name in entry.sizes for a in entry.failures(name)]
    if not any(known):
        return []
    rows = []
    for entry in suite.entries:
        cells = (entry.failures(name) for name in _columns(lock))
        rows.append((_name(entry), *(PrintedCell(_failure(found)) for found in cells)))
    legend = [
        "symbols of the shortest string that is known to be answered wrongly, each run; open: none"
        " was found; certified: proved right on every string; -: not searched",
        *_in_turn(lock),
    ]
    if any(_by_clock(answer) for answer in known if answer):
        legend.append(
            f"{TIMED} of a search that was cut off after five seconds, before the suite said how"
            " far to search: there may be a shorter one within that"
        )
    return [
        Table(
            f"{spec.title}: shortest failures",
            _head(lock),
            tuple(rows),
            (*legend, *certified_legend(known)[1:]),
        )
    ]


def _failure(found: Sequence[Answer | None]) -> str:
    words = []
    for answer in found:
        if answer is None:
            words.append(MISSING)
        else:
            word = answer.verdict if answer.length is None else f"{answer.length:,}"
            words.append(word + TIMED * _by_clock(answer) + again_mark(answer))
    return "; ".join(words) or MISSING


def _by_clock(answer: Answer) -> bool:
    """Whether a search by counts might find a shorter string than is known."""
    return answer.extent == BY_CLOCK and not answer.shortest


def _pairs(suite: Suite, spec: TableSpec, digits: int) -> list[Table]:
    """The probability that a run of the row's model scores above one of the column's."""
    entries = [entry for entry in suite.entries if entry.complete and entry.division == MAIN]
    if len(entries) < 2:
        return []
    tables = {entry.label: entry.table(LONGEST) for entry in entries}
    rows = [
        (
            PrintedCell(one),
            *(
                PrintedCell() if one == other else _share(improvement(mine, theirs), digits)
                for other, theirs in tables.items()
            ),
        )
        for one, mine in tables.items()
    ]
    heads = (Column("model", right=False), *(Column(label) for label in tables))
    note = (
        f"P(a run of the row scores above one of the column at {LONGEST:,}), averaged over tasks;"
        " a tie counts half; models that have ended on every task"
    )
    return [Table(f"{spec.title}: pairs", heads, tuple(rows), (note,), "pairs")]


def _share(value: float, digits: int) -> PrintedCell:
    return PrintedCell(f"{value:.{digits}f}", (value,))


def _searches(suite: Suite, lock: Lock, spec: TableSpec) -> list[Table]:
    """Every rate that was tried, with its validation accuracy and loss."""
    if not suite.tried:
        return []
    by_cell: dict[tuple[str, int], dict[float, Tried]] = {}
    for one in suite.tried:
        by_cell.setdefault((one.label, one.task), {})[one.rate] = one
    chosen = chosen_rates(suite.tried, lock)
    rows = [
        (
            *(PrintedCell(label), PrintedCell(lock.name_of(task))),
            *(_told(runs.get(rate), chosen.get((label, task)) == rate) for rate in lock.rates),
        )
        for (label, task), runs in by_cell.items()
    ]
    heads = (Column("model", right=False), Column("task", right=False))
    titles = (Column(f"{rate:g}") for rate in lock.rates)
    note = (
        "validation accuracy and loss at lengths 3 to 40, at the look of lowest loss of"
        f" {lock.search.get('protocol.max_steps')} updates, by learning rate; {CHOSEN}: the first"
        f" with an accuracy of {lock.enough}, else the one of lowest loss; div: diverged"
    )
    return [Table(f"{spec.title}: the search", (*heads, *titles), tuple(rows), (note,), "evidence")]


def _told(one: Tried | None, chosen: bool) -> PrintedCell:
    if one is None:
        return PrintedCell()
    if one.told is None:
        return PrintedCell("div")
    accuracy, loss = one.told
    return PrintedCell(f"{accuracy:.3f}, {loss:.2g}{f' {CHOSEN}' if chosen else ''}", one.told)


def _notes(suite: Suite, lock: Lock, rule: str) -> list[str]:
    lines = [
        "at L: scores at length L, (accuracy - chance) / (1 - chance) cut to 0..1, of the"
        f" checkpoint of the rule {rule}; the interquartile mean over tasks x seeds with a 95 %"
        " interval (seeds resampled within tasks); a run that diverged scores 0",
        f"held to {HELD:,}: tasks whose median seed failed at no tested length; rank: over tasks at"
        f" {LONGEST:,}, 1 is the best; training: all runs together, without the search",
        "scores are of models that have ended on every task; the others show how far they are",
        f"lock {lock.sha256[:12]}: settings and test strings of every run were compared with it",
    ]
    if any(entry.division != MAIN for entry in suite.entries):
        lines.append(f"(open), in the tables below: {OTHERWISE}")
    if any(entry.of_plugin for entry in suite.entries):
        lines.append(f"{PLUGIN}: of a plug-in, whose code is not in this repository")
    lines += [f"{count} runs do not count: {why}" for why, count in sorted(suite.refused.items())]
    return lines
