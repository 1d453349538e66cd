"""Presets of the suite: the rate that the search chose for each model and task.

    python -m benchmarks.suite_presets RUNS [RUNS ..] [--suite suite_v1]

Writes conf/preset/model/SUITE_TASK_MODEL.yaml from the runs of the search, with all that was
tried in its head. A task with several cells (groups, automata) has one preset: its runs are taken
together, as `lrbench tune` takes several seeds. A model with a search that is not whole has none.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from lrbench.locations import conf_dir
from lrbench.registry import MIXERS
from lrbench.report.runs.collect import collect
from lrbench.report.runs.columns import Settings
from lrbench.report.runs.record import flat
from lrbench.report.suite.entries import Tried, suite_of
from lrbench.report.suite.lock import Lock, read_lock
from lrbench.statistics import mean
from lrbench.tables import TableSpec, first_enough, load_table

HEAD = """\
# @package _global_
# Chosen by validation strings of 3 to 40 symbols (benchmarks/suite_presets.py); no longer one had a
# say.
# Searched:
#   {settings}
# Budget: {runs} runs, {updates} updates of each.
# Tried (mean validation accuracy and loss; * is the choice: the first with an accuracy of 0.99,
# else the lowest loss):
"""
Told = tuple[float, float] | None  # validation accuracy and loss; None: it diverged
Cells = dict[str, dict[float, Told]]  # by cell and rate


def searches(
    tried: list[Tried], spec: TableSpec, lock: Lock, settings_of: Mapping[str, Settings]
) -> dict[tuple[str, str], Cells]:
    """Return the cells of each (task, model) whose search is whole; a model may be several rows.

    settings_of: the settings of each run by its folder. A cell names those of the mixer that are
    not its defaults: a rate was chosen with them.
    """
    rows = {cell.label or cell.model: cell.model for cell in spec.cells}
    found: dict[tuple[str, str], Cells] = defaultdict(lambda: defaultdict(dict))
    for one in tried:
        settings = lock.tasks[one.task].settings
        named = {k: v for k, v in settings.items() if k.startswith("task.") and v is not None}
        words = [f"{key}={value}" for key, value in named.items() if key != "task.name"]
        model = rows.get(one.label, one.label.split()[0])
        words += _own_words(model, settings_of[one.folder])
        cell = ", ".join([one.label, *([" ".join(words)] if words else [])])
        found[str(settings["task.name"]), model][cell][one.rate] = one.told
    return {
        place: whole
        for place, cells in found.items()
        if (whole := {c: rates for c, rates in cells.items() if set(rates) >= set(lock.rates)})
    }


def _own_words(model: str, settings: Settings) -> list[str]:
    """The settings of a mixer that were typed, as they are typed."""
    defaults = flat(asdict(MIXERS.get(model).config()), "model.mixer.")
    return [f"{k}={settings[k]}" for k, v in defaults.items() if k in settings and settings[k] != v]


def chosen(cells: Cells, lock: Lock) -> tuple[float | None, dict[float, Told]]:
    """Return the rate that all cells together choose, and what each came to: the suite's rule."""
    told: dict[float, Told] = {}
    for rate in lock.rates:
        every = [cells[cell][rate] for cell in cells]
        known = [one for one in every if one is not None]
        whole = len(known) == len(every)
        told[rate] = (mean([a for a, _ in known]), mean([b for _, b in known])) if whole else None
    best = first_enough(list(told.values()), lock.enough)
    return (None if best is None else lock.rates[best]), told


def text_of(cells: Cells, lock: Lock) -> str:
    """Return the content of a preset."""
    best, told = chosen(cells, lock)
    settings = "\n#   ".join(sorted(cells))
    runs, updates = len(cells) * len(lock.rates), lock.search["protocol.max_steps"]
    head = HEAD.format(settings=settings, runs=runs, updates=f"{int(updates):,}")
    for rate, one in told.items():
        text = "diverged" if one is None else f"{one[0]:.4f}, {one[1]:.4g}"
        head += f"# {'*' if rate == best else ' '} optim.lr={rate:g}: {text}\n"
    return f"{head}optim: {{lr: {best:g}}}\ntuning_runs: {runs}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--suite", default="suite_v1")
    told = parser.parse_args()
    lock, spec = read_lock(told.suite), load_table(told.suite)
    collection = collect(*told.runs)
    tried = suite_of(collection, spec, lock, spec.rule).tried
    found = searches(tried, spec, lock, collection.settings)
    for (task, model), cells in sorted(found.items()):
        path = conf_dir() / "preset" / "model" / f"{told.suite}_{task}_{model}.yaml"
        path.write_text(text_of(cells, lock))
    print(f"{len(found)} presets")


if __name__ == "__main__":
    main()
