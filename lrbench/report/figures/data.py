"""Data of the figures: accuracy by length, cost and position, a panel for each task."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import pandas as pd

from lrbench.metrics import ACCURACY
from lrbench.report.figures.labels import Labels, configuration_labels
from lrbench.report.figures.positions import LENGTH, axis_of, by_position
from lrbench.report.paper.verdict import LEARNED
from lrbench.report.runs.collection import Collection
from lrbench.report.tables.horizons import median_of, reached
from lrbench.statistics import mean, median, runs_at_chance

PANEL = ["task", "task_title", "protocol"]
PREFIX, POSITION = "prefix", "position"  # a metric of split `positions`, and its axis
THROUGHOUT = 0.995  # a mean that is drawn at 1.00
COSTS = {"train_seconds": "training time, s", "steps": "updates", "parameters": "parameters"}

Points = tuple[tuple[float, float], ...]  # (length or cost, accuracy), by increasing length


@dataclass(frozen=True)
class DrawnRun:
    """One run: its accuracy at each length, and at the test length against each known cost."""

    by_length: Points
    at_test: float | None
    costs: dict[str, float]


@dataclass(frozen=True)
class Curve:
    """All runs of one cell; `trials` are those with a number, `runs` counts the others too.

    learned: above chance at the test length, and right at the training length.
    """

    label: str
    trials: tuple[DrawnRun, ...]
    runs: int
    horizon: int | None = None  # of the median run, where it is one of the tested lengths
    learned: bool = True
    fingerprint: str = ""

    @property
    def mean(self) -> Points:
        """The mean over the trials, at lengths where each of them was tested."""
        found: dict[float, list[float]] = {}
        for trial in self.trials:
            for length, accuracy in trial.by_length:
                found.setdefault(length, []).append(accuracy)
        whole = {x: ys for x, ys in sorted(found.items()) if len(ys) == len(self.trials)}
        return tuple((length, mean(values)) for length, values in whole.items())

    @property
    def throughout(self) -> bool:
        """Whether the mean is drawn at 1.00 at every length."""
        return bool(self.mean) and all(value >= THROUGHOUT for _, value in self.mean)

    def against(self, cost: str) -> list[tuple[float, float]]:
        """The trials as (cost, accuracy at the test length), those that have both."""
        both = [(trial.costs.get(cost), trial.at_test) for trial in self.trials]
        return [(x, y) for x, y in both if x is not None and y is not None]

    def centre(self, cost: str) -> tuple[float, float] | None:
        """The mean of those, None where there are none."""
        points = self.against(cost)
        return (mean([x for x, _ in points]), mean([y for _, y in points])) if points else None


@dataclass(frozen=True)
class Panel:
    """One task under one protocol. `chance` is the best baseline at each length.

    `axis` is what the lengths are: over a corpus, what its splits differ in.
    """

    title: str
    slug: str
    rule: str
    train_lengths: tuple[int, ...]
    test_length: int | None
    chance: Points
    curves: tuple[Curve, ...]
    devices: tuple[str, ...]
    axis: str = LENGTH


def panels(collection: Collection, rule: str, labels: Labels | None = None) -> list[Panel]:
    """Return a panel for each task and protocol, from the fresh strings under `rule`.

    Runs of different fingerprints are curves of their own, named by `labels` and in their order. A
    task without a number has no panel, nor has a corpus whose splits do not differ in length.
    """
    return _panels(collection, _fresh(collection, rule, ACCURACY.name), rule, labels)


def prefix_panels(collection: Collection, rule: str, labels: Labels | None = None) -> list[Panel]:
    """Return a panel for each task and protocol whose runs are scored at every position.

    Its points are (t, prefix(t)): the share of test strings that are right up to position t.
    """
    found = _panels(collection, _fresh(collection, rule, PREFIX), rule, labels)
    if not found:
        return []
    trained = {one.title: one.train_lengths for one in panels(collection, rule, labels)}
    return [
        replace(one, axis=POSITION, chance=(), train_lengths=trained.get(one.title, ()))
        for one in found
    ]


def _fresh(collection: Collection, rule: str, metric: str) -> pd.DataFrame:
    """The scores on fresh strings of the checkpoints that `rule` kept."""
    frame = titled(collection.frame)
    fresh = frame[(frame["kind"] == "test") & (frame["metric"] == metric)]
    return by_position(fresh[(fresh["which"] == rule) & fresh["value"].notna()])


def _panels(
    collection: Collection, chosen: pd.DataFrame, rule: str, labels: Labels | None
) -> list[Panel]:
    labels = configuration_labels(collection) if labels is None else labels
    made, runs = [], titled(collection.runs)
    keys: list[tuple[str, ...]] = sorted(set(chosen[PANEL].itertuples(index=False, name=None)))
    for key, slug in zip(keys, slugs(keys), strict=True):
        rows = chosen[(chosen[PANEL] == list(key)).all(axis=1)]
        mine = runs[(runs[PANEL] == list(key)).all(axis=1)]
        title = key[1] if _alone(key, keys) else f"{key[1]}, {key[2]}"
        made.append(_panel(key, title, slug, rule, mine, rows, labels))
    return made


def pareto(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points (cost, accuracy) that no other beats in one and equals in the other."""
    front: list[tuple[float, float]] = []
    for cost, accuracy in sorted(set(points), key=lambda point: (point[0], -point[1])):
        if not front or accuracy > front[-1][1]:
            front.append((cost, accuracy))
    return front


def titled(frame: pd.DataFrame) -> pd.DataFrame:
    """A run that failed does not know its task's title: it gets that of its cell, or the name."""
    titles = frame.groupby("fingerprint")["task_title"].transform("first")
    return frame.assign(task_title=titles.fillna(frame["task"]))


def _panel(
    key: Sequence[str],
    title: str,
    slug: str,
    rule: str,
    runs: pd.DataFrame,
    rows: pd.DataFrame,
    labels: Labels,
) -> Panel:
    tested = rows.loc[rows["split"] == "test", "length"]
    test_length = int(tested.min()) if len(tested) else None
    chance = rows.groupby("length")["chance"].mean().dropna()
    trained = rows.loc[rows["split"] == "train_length", "length"]
    curves = []
    for fingerprint, cell in by_label(rows, labels):
        trials = tuple(_trials(cell, test_length))
        count = int((runs["fingerprint"] == fingerprint).sum())
        learned = _learned(cell, test_length)
        label = labels[fingerprint]
        curves.append(Curve(label, trials, count, _horizon(cell), learned, fingerprint))
    return Panel(
        title=title,
        slug=slug,
        rule=rule,
        train_lengths=tuple(sorted({int(length) for length in trained})),
        test_length=test_length,
        chance=tuple((float(length), float(value)) for length, value in chance.items()),  # type: ignore[arg-type]
        curves=tuple(curves),
        devices=tuple(sorted(set(runs["device"].dropna().astype(str)))),
        axis=axis_of(key[0], key[2]),
    )


def by_label(rows: pd.DataFrame, labels: Labels) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the rows of each fingerprint, in the order of `labels`."""
    cells = {str(name): cell for name, cell in rows.groupby("fingerprint")}
    for fingerprint in labels:
        if fingerprint in cells:
            yield fingerprint, cells[fingerprint]


def _learned(cell: pd.DataFrame, test_length: int | None) -> bool:
    """Whether runs are right at the training length and above chance at the test length.

    Over a corpus: above the best baseline somewhere. What was not measured is no failure.
    """
    trained = cell.loc[cell["split"] == "train_length", "value"].tolist()
    if trained and median(trained) < LEARNED:
        return False
    tested = cell[cell["chance"].notna()]
    if test_length is not None:
        tested = tested[tested["length"] == test_length]
    return tested.empty or not all(
        runs_at_chance(
            there["value"].tolist(), float(there["chance"].mean()), int(there["n"].min()), looks=1
        )
        for _, there in tested.groupby("length")
    )


def _horizon(cell: pd.DataFrame) -> int | None:
    """The horizon of the median run of a cell; None where it knows not even the shortest length."""
    columns = (cell[name].tolist() for name in ("folder", "length", "value", "n"))
    by_run: dict[str, dict[int, tuple[int, float, int]]] = {}
    for folder, length, value, n in sorted(zip(*columns, strict=True), key=lambda row: row[3]):
        by_run.setdefault(folder, {})[length] = (int(length), value, int(n))  # the most strings
    return median_of([reached(scores.values()) for scores in by_run.values()]).length or None


def _trials(cell: pd.DataFrame, test_length: int | None) -> Iterator[DrawnRun]:
    """Yield the runs of a cell: plain loops, since frames of a few rows each are slow."""
    order = ["folder", "length", "n"]  # of several scores at a length, that on most strings
    ordered = cell.sort_values(order, ascending=[True, True, False], kind="stable")
    rows = ordered[["folder", "length", "value", *COSTS]].itertuples(index=False, name=None)
    for _, run in groupby(rows, key=lambda row: row[0]):
        points: dict[float, float] = {}
        costs: dict[str, float] = {}
        for _, length, value, *spent in run:
            points.setdefault(float(length), float(value))
            costs = {
                name: float(cost)
                for name, cost in zip(COSTS, spent, strict=True)
                if pd.notna(cost) and cost > 0
            }
        at_test = points.get(float(test_length)) if test_length is not None else None
        yield DrawnRun(tuple(points.items()), at_test, costs)


def _alone(key: Sequence[str], keys: Sequence[Sequence[str]]) -> bool:
    """Tell whether a task's title names one panel; else the protocol has to be told as well."""
    return sum(other[1] == key[1] for other in keys) == 1


def slugs(keys: Sequence[Sequence[str]]) -> list[str]:
    """Return a file name for each panel: the task; its title and protocol where that is not one."""
    made: list[str] = []
    for task, title, protocol in keys:
        titles = {key[1] for key in keys if _slug(key[0]) == _slug(task)}
        protocols = {key[2] for key in keys if _slug(key[1]) == _slug(title)}
        name = _slug(task if len(titles) == 1 else title)
        name = name if len(protocols) == 1 else f"{name}_{_slug(protocol)}"
        taken = sum(re.fullmatch(rf"{name}(_\d+)?", other) is not None for other in made)
        made.append(f"{name}_{taken + 1}" if taken else name)
    return made


def _slug(text: str) -> str:
    """Return a text as part of a file name: letters, digits, - and _ alone, not too long."""
    return re.sub(r"[^A-Za-z0-9-]+", "_", text).strip("_")[:60] or "task"
