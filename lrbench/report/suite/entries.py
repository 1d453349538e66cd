"""Entries of a suite: the runs of each model on each task, and their scores.

A run is of the division `main` if its settings and its test strings are the lock's and its rate is
one of the search's; of `open` if its test strings are, and some other setting is not. A run on
other test strings is refused: its numbers do not compare.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from lrbench.errors import UserError
from lrbench.report.grids.lengths import check_rule
from lrbench.report.grids.selection import parsed_value
from lrbench.report.runs.collection import Collection
from lrbench.report.runs.columns import Answer, Settings
from lrbench.report.runs.record import STRINGS
from lrbench.report.suite.lock import LAYERS, Lock, LockedTask
from lrbench.report.suite.scores import Array, scaled_score
from lrbench.report.tables.horizons import Reached, reached
from lrbench.tables import SUITE, TableCell, TableSpec, first_enough

MAIN, OPEN = "main", "open"
PLUGINS = "versions.plugins."  # and the name of one: of none there is no such setting
SCORED = (40, 256, 500, 5000)  # the lengths that scores are of; a task has the nearest below


class Tested(NamedTuple):
    """What one length of one run came to."""

    length: int
    accuracy: float
    n: int
    chance: float

    @property
    def score(self) -> float:
        return scaled_score(self.accuracy, self.chance)


@dataclass(frozen=True)
class SuiteRun:
    """One run: its task in the lock, its seed, and what it came to at each length.

    tested: nothing of a run that diverged, whose score is 0.
    steps: updates that were done.
    """

    folder: str
    task: int
    seed: int
    tested: tuple[Tested, ...]
    settings: Settings
    seconds: float
    parameters: int
    state: int | None
    answer: Answer | None
    steps: int = 0
    diverged: bool = False

    def score_at(self, length: int) -> float:
        """Return its score at the longest tested length up to `length`."""
        below = [one for one in self.tested if one.length <= length]
        return below[-1].score if below else 0.0


@dataclass
class SuiteEntry:
    """A model in a division: its runs by column of the table and seed.

    A column may be several tasks; of a seed there is then a run of each.
    """

    label: str
    division: str
    runs: dict[tuple[str, int], list[SuiteRun]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)  # how many tasks a column is

    def seeds(self, column: str) -> list[int]:
        """Return the seeds that have a run of every task of a column."""
        return sorted(
            seed
            for (name, seed), runs in self.runs.items()
            if name == column and len(runs) == len({run.task for run in runs}) == self.sizes[column]
        )

    def scores(self, column: str, length: int) -> list[float]:
        """Return the score of each seed at a length, the mean over the tasks of the column."""
        return [
            float(np.mean([run.score_at(length) for run in self.runs[column, seed]]))
            for seed in self.seeds(column)
        ]

    def accuracies(self, column: str, length: int) -> list[float]:
        """Return the accuracy of each seed at a length, nothing of one that diverged."""
        found = []
        for seed in self.seeds(column):
            last = [
                [one.accuracy for one in run.tested if one.length <= length][-1:]
                for run in self.runs[column, seed]
            ]
            if all(last):
                found.append(float(np.mean(last)))
        return found

    def horizons(self, column: str) -> list[Reached]:
        """Return how far each seed gets; of several tasks by their pooled strings."""
        return [_reached(self.runs[column, seed]) for seed in self.seeds(column)]

    def failures(self, column: str) -> list[Answer | None]:
        """Return what is known of each run on all strings."""
        return [answer for found in self.failures_by_seed(column) for answer in found]

    def failures_by_seed(self, column: str) -> list[list[Answer | None]]:
        """Return the same of each seed: of several tasks in a column, several, as in the lock."""
        return [
            [run.answer for run in sorted(self.runs[column, seed], key=lambda run: run.task)]
            for seed in self.seeds(column)
        ]

    @property
    def of_plugin(self) -> bool:
        """Whether a run of it was made with somebody's plug-in."""
        return any(key.startswith(PLUGINS) for run in self.every_run for key in run.settings)

    @property
    def every_run(self) -> list[SuiteRun]:
        return [run for runs in self.runs.values() for run in runs]

    @property
    def columns(self) -> list[str]:
        """The columns with at least one seed."""
        return [name for name in self.sizes if self.seeds(name)]

    @property
    def complete(self) -> bool:
        """Whether every column has the same number of seeds, and at least one."""
        return len({len(self.seeds(name)) for name in self.sizes} - {0}) == 1 and len(
            self.columns
        ) == len(self.sizes)

    def table(self, length: int) -> Array:
        """Return the scores (seeds, columns) of a complete entry."""
        return np.array([self.scores(name, length) for name in self.sizes]).T


@dataclass(frozen=True)
class Tried:
    """One run of a search: its rate, and (validation accuracy, loss); None: it diverged."""

    folder: str
    label: str
    column: str
    task: int
    rate: float
    told: tuple[float, float] | None


@dataclass
class Suite:
    """All that was found of a suite: entries, searches, and runs that do not count, by reason."""

    entries: list[SuiteEntry]
    tried: list[Tried]
    refused: Counter[str]


def refuse_fingerprints(spec: TableSpec, chosen: Sequence[str]) -> None:
    """Raise UserError where fingerprints are chosen of a suite: of each there is a row of its own.

    Of any other table they choose between the configurations that compete for a cell.
    """
    if spec.kind == SUITE and chosen:
        raise UserError(
            f"--fingerprint chooses between runs that compete for a cell; in {spec.name} none do:"
            " other settings have a row of their own\nleave it out",
            exit_code=2,
        )


def suite_of(collection: Collection, spec: TableSpec, lock: Lock, rule: str) -> Suite:
    """Sort the runs of a suite's protocol into entries, searches and refused ones.

    Raises UserError for a rule that the protocol does not have: nothing is scored by it.
    """
    check_rule(spec.protocol, rule)
    runs = collection.runs
    rows = runs[(runs["protocol"] == spec.protocol) & (runs["status"] != "failed")]
    labels = _labels(collection, rows, spec, lock)
    tests = _tests(collection.frame, rule)
    looks = _looks(collection.frame)
    sizes: dict[str, int] = dict(Counter(task.label for task in lock.tasks))
    entries: dict[tuple[str, str], SuiteEntry] = {}
    tried: list[Tried] = []
    refused: Counter[str] = Counter()
    search = {key: parsed_value(value) for key, value in lock.search.items()}
    later = []
    for row in rows.to_dict("records"):
        settings, folder = collection.settings[row["folder"]], row["folder"]
        place, label = lock.place_of(settings), labels[folder]
        if place is None:
            refused["on a task that the suite does not have"] += 1
            continue
        task = lock.tasks[place]
        differing = task.differing(settings)
        if _is_search(task, differing, search, settings, row["seed"]):
            told = looks.get(folder)
            tried.append(Tried(folder, label, task.label, place, float(settings["optim.lr"]), told))
            continue
        if settings.get(STRINGS) != task.digest and row["status"] == "finished":
            refused["tested on other strings than the lock's, or without their hashes"] += 1
            continue
        later.append((row, place, label, differing))
    chosen = chosen_rates(tried, lock)
    for row, place, label, differing in later:
        folder, task = row["folder"], lock.tasks[place]
        settings = collection.settings[folder]
        rate = settings.get("optim.lr")
        kept = not differing and rate == chosen.get((label, place), rate) and rate in lock.rates
        others = [*_not_random(settings), *_other_data(row, settings)]
        division, name = (MAIN, label) if kept and not others else (OPEN, label)
        if division == OPEN:
            words = _words(settings, differing or ([] if kept else ["optim.lr"]))
            name = " ".join([label, *words, *others])
        entry = entries.setdefault((division, name), SuiteEntry(name, division, {}, sizes))
        diverged = row["status"] == "diverged"
        answer = collection.answers.get(folder, {}).get(rule)
        entry.runs.setdefault((task.label, int(row["seed"])), []).append(
            SuiteRun(
                *(folder, place, int(row["seed"])),
                *(() if diverged else _of_task(task, tests.get(folder, ())), settings),
                *(float(row["train_seconds"] or 0), int(row["parameters"] or 0)),
                *(None if pd.isna(row["state_size"]) else int(row["state_size"]), answer),
                *(int(row["steps"] or 0), diverged),
            )
        )
    order = {label: at for at, label in enumerate(dict.fromkeys(_listed(spec)))}
    ranked = sorted(
        entries.values(), key=lambda e: (e.division, order.get(e.label, len(order)), e.label)
    )
    return Suite(ranked, tried, refused)


def folders_of(suite: Suite, labels: Iterable[str] = ()) -> set[str]:
    """Return the folders of the runs of rows, their searches included; no labels: of all."""
    wanted = set(labels)
    entered = [entry for entry in suite.entries if entry.label in wanted or not wanted]
    tried = (one.folder for one in suite.tried if one.label in wanted or not wanted)
    return {*(run.folder for entry in entered for run in entry.every_run), *tried}


def _is_search(
    task: LockedTask, differing: list[str], search: Settings, settings: Settings, seed: int
) -> bool:
    """Whether a run is one that a rate was chosen by: it differs as the search does, and so far."""
    changed = {key: value for key, value in search.items() if key in task.settings}
    return seed == search.get("seed") and all(
        settings.get(key) == changed.get(key) for key in {*differing, *changed}
    )


def _words(settings: Settings, keys: Iterable[str]) -> list[str]:
    """What sets a run of the open division apart."""
    return [f"{key.partition('.')[2]}={settings.get(key)}" for key in keys]


def _other_data(row: Mapping[Any, Any], settings: Settings) -> list[str]:
    """Return the seed of the strings it was trained on where that is not its own."""
    told = {settings.get("data_seed"), None if pd.isna(row["data_seed"]) else row["data_seed"]}
    return [f"data_seed={seed}" for seed in told - {None, row["seed"]}]


def _not_random(settings: Settings) -> list[str]:
    """Return the settings by which weights began as the solution, built by hand."""
    return [
        f"{key.partition('.')[2]}={value}"
        for key, value in settings.items()
        if key.startswith("model.") and key.endswith(".init") and value == "exact"
    ]


def _tests(frame: pd.DataFrame, rule: str) -> dict[str, list[Tested]]:
    """The tests of each run's checkpoint by a rule, shortest first."""
    rows = frame[
        (frame["kind"] == "test")
        & (frame["metric"] == "accuracy")
        & (frame["which"] == rule)
        & frame["value"].notna()
        & frame["chance"].notna()
    ]
    found: dict[str, list[Tested]] = {}
    names = ("folder", "length", "value", "n", "chance")
    for folder, *tested in zip(*(rows[name].tolist() for name in names), strict=True):
        found.setdefault(folder, []).append(Tested(*tested))
    return {folder: sorted(tests) for folder, tests in found.items()}


def _of_task(task: LockedTask, tests: Iterable[Tested]) -> tuple[Tested, ...]:
    """Of the tests of a run those at the lengths of the suite; others were made later."""
    lengths = {length for length, _ in task.tests}
    return tuple(one for one in tests if one.length in lengths)


def _looks(frame: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """The validation accuracy and loss of each run, at the look of its lowest loss."""
    rows = frame[
        (frame["kind"] == "look")
        & (frame["which"] == "id")
        & (frame["split"] == "train_length")
        & frame["value"].notna()
    ]
    found: dict[str, dict[str, float]] = {}
    for folder, metric, value in zip(rows["folder"], rows["metric"], rows["value"], strict=True):
        found.setdefault(folder, {})[metric] = float(value)
    whole = {"accuracy", "loss"}
    return {k: (v["accuracy"], v["loss"]) for k, v in found.items() if set(v) >= whole}


def chosen_rates(tried: Iterable[Tried], lock: Lock) -> dict[tuple[str, int], float]:
    """Return the rate that each whole search chose, by row and task."""
    searches: dict[tuple[str, int], dict[float, Tried]] = {}
    for one in tried:
        searches.setdefault((one.label, one.task), {})[one.rate] = one
    found = {}
    for place, runs in searches.items():
        if set(runs) >= set(lock.rates):
            at = first_enough([runs[rate].told for rate in lock.rates], lock.enough)
            if at is not None:
                found[place] = lock.rates[at]
    return found


def _reached(runs: Iterable[SuiteRun]) -> Reached:
    """The horizon of runs with the same lengths, or of the one there is, by pooled strings."""
    every = list(runs)
    if not all(run.tested for run in every):  # it diverged
        return Reached(0, False, "diverged")
    pooled = []
    for each in zip(*(run.tested for run in every), strict=False):
        n = sum(one.n for one in each)
        pooled.append((each[0].length, sum(one.accuracy * one.n for one in each) / n, n))
    return reached(pooled)


# --- rows: what a model is called


def _listed(spec: TableSpec) -> Iterator[str]:
    for cell in spec.cells:
        yield cell.label or cell.model


def _labels(
    collection: Collection, rows: pd.DataFrame, spec: TableSpec, lock: Lock
) -> dict[str, str]:
    """The row of each run (folder): the table's, with what sets it apart from others in it."""
    of_row: dict[str, dict[str, Settings]] = {}
    for folder, model in zip(rows["folder"], rows["model"], strict=True):
        settings = collection.settings[folder]
        own = {k: v for k, v in settings.items() if k.startswith("model.") and k != LAYERS}
        own |= _more_layers(settings, lock)
        of_row.setdefault(_row(spec, model, own) or model, {})[folder] = own
    return {k: v for label, own in of_row.items() for k, v in _apart(label, own).items()}


def _more_layers(settings: Settings, lock: Lock) -> Settings:
    """How many layers a run has beyond those that the suite gives to its task."""
    place = lock.place_of(settings)
    if place is None or settings.get(LAYERS) in (None, lock.tasks[place].layers):
        return {}
    return {LAYERS: f"{settings[LAYERS] - lock.tasks[place].layers:+d}"}


def _row(spec: TableSpec, model: str, settings: Settings) -> str | None:
    """The listed row of a model that asks for most of these settings; None where none fits."""
    best: tuple[int, str] | None = None
    for cell in _one_a_row(spec):
        wanted = _wanted(cell)
        fits = all(settings.get(key) == value for key, value in wanted.items())
        if cell.model == model and fits and (best is None or len(wanted) > best[0]):
            best = len(wanted), cell.label or cell.model
    return None if best is None else best[1]


def _one_a_row(spec: TableSpec) -> list[TableCell]:
    return list({(cell.label or cell.model): cell for cell in spec.cells}.values())


def _wanted(cell: TableCell) -> Settings:
    typed = [word.partition("=")[::2] for word in cell.overrides if word.startswith("model.")]
    return {key: parsed_value(value) for key, value in typed}


def _apart(label: str, settings: Mapping[str, Settings]) -> dict[str, str]:
    """The name of each run of a row, with the settings that tell its kinds apart."""
    every = list(settings.values())
    keys = {key for one in every for key in one}
    apart = sorted(key for key in keys if len({repr(one.get(key)) for one in every}) > 1)
    names = {}
    for folder, one in settings.items():
        words = [f"{key.rpartition('.')[2]}={one[key]}" for key in apart if key in one]
        names[folder] = " ".join([label, *words])
    return names
