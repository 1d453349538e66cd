"""Checks that only an entry of a suite has: its table, rules, weights, sizes and chance.

What decides is of this lrbench: the table, the lock and the rule of scoring. The bundle's own words
for them are only compared.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lrbench.bundles import layout
from lrbench.bundles.choice import TableChoice
from lrbench.bundles.contents import digest_of
from lrbench.errors import UserError
from lrbench.metrics import ACCURACY
from lrbench.models.build import count_parameters
from lrbench.protocols.base import declared
from lrbench.records import Result
from lrbench.report.runs.certificates import FOLDER
from lrbench.report.runs.collect import collect
from lrbench.report.suite.entries import OPEN, Suite, suite_of
from lrbench.report.suite.lock import Lock, has_lock, read_lock
from lrbench.report.suite.rules import violations
from lrbench.report.suite.scores import scaled_score
from lrbench.runs.train.validate import check_fits, resolve_device
from lrbench.schema import config_from
from lrbench.tables import SUITE, load_table, table_names
from lrbench.training.procedure import EvaluationRequest, procedure_for
from lrbench.training.trial import Trial

CLOSE = 1e-9  # of chance: counts divided by counts, or computed to nine digits
UNTRAINED = 0.5  # a score that no weights reach by chance before they are trained
GUESSED = 200  # strings of the shortest length that untrained weights are asked

Levels = dict[tuple[str, int], float]  # by baseline and length


class Judged(NamedTuple):
    """An entry by the rules: the names of its rows, the rules that it breaks, runs of `open`.

    open_runs: folders of the runs that are of the division open.
    """

    rows: list[str]
    broken: list[str]
    open_runs: set[str]


def is_entry(choice: TableChoice) -> bool:
    """Whether a bundle is of a suite: by its table's name, whatever else it says of it."""
    if choice.table is None:
        return False
    return choice.table.kind == SUITE or has_lock(choice.table.name)


def by_own_table(choice: TableChoice) -> tuple[TableChoice, list[str]]:
    """Return a suite's choice with the table of this lrbench, and how the bundle's differs.

    Raises UserError for a suite that has no lock.
    """
    told = choice.table
    assert told is not None
    lock = read_lock(told.name)
    rule = declared(lock.protocol).usual_rule
    own = load_table(told.name) if told.name in table_names() else told
    wrong = [
        f"the bundle's {name} is {theirs!r}, and the suite's {ours!r}"
        for name, theirs, ours in (
            ("kind of table", told.kind, SUITE),
            ("protocol", told.protocol, lock.protocol),
            ("rule", choice.rule, rule),
            ("table's rule", told.rule, rule),
        )
        if theirs != ours
    ]
    table = replace(own, kind=SUITE, protocol=lock.protocol, rule=rule)
    return replace(choice, table=table, rule=rule), wrong


def judged(
    choice: TableChoice,
    runs: Path,
    results: dict[str, Result],
    files: dict[str, bytes],
) -> Judged:
    """Hold an entry against the rules of its suite. No model is built."""
    assert choice.table is not None
    lock, rule = read_lock(choice.table.name), choice.rule
    suite = suite_of(collect(runs), choice.table, lock, rule)
    labels = list(dict.fromkeys([*choice.rows, *(entry.label for entry in suite.entries)]))
    apart = {entry.label: entry for entry in suite.entries if entry.division == OPEN}
    wrong = [line for label in labels for line in violations(suite, lock, label)]
    scored = [run for run in _scored(suite) if run in results]
    wrong += _without(scored, files, rule)
    for run in scored:
        wrong += _tested_later(run, results[run], lock, rule)
    there = [run for run in scored if f"{layout.RUNS}/{run}/checkpoints/{rule}.pt" in files]
    wrong += _same_weights(there, runs, rule)
    rows = [f"{label} (division {OPEN})" if label in apart else label for label in labels]
    return Judged(rows, wrong, {run.folder for one in apart.values() for run in one.every_run})


def built_otherwise(results: dict[str, Result], may_know: Container[str] = ()) -> list[str]:
    """Build the models of runs; return what is told of them, or of chance, and is not so.

    Weights before training answer by chance: a model that does not had the rule from its maker.
    may_know: the runs that may, those of the division open.
    """
    levels: dict[str, Levels] = {}
    wrong: list[str] = []
    for run, result in sorted(results.items()):
        try:
            wrong += _as_built(run, result, levels, run in may_know)
        except (UserError, TypeError, KeyError, AttributeError, ValueError) as error:
            wrong.append(f"{run}: its model cannot be built: {str(error)[:200]}")
    return wrong


def _scored(suite: Suite) -> list[str]:
    """The folders of runs with scores; those of the search have looks alone."""
    return sorted(run.folder for e in suite.entries for run in e.every_run if run.tested)


def _without(scored: list[str], files: dict[str, bytes], rule: str) -> Iterator[str]:
    for run in scored:
        for name in (f"checkpoints/{rule}.pt", f"{FOLDER}/{rule}.json"):
            if f"{layout.RUNS}/{run}/{name}" not in files:
                yield f"{run}: has scores, and the bundle has no {name} of it"


def _tested_later(run: str, result: Result, lock: Lock, rule: str) -> Iterator[str]:
    """All scores are those that `result.json` has: none was added, taken away or told twice."""
    place = lock.place_of({f"task.{key}": value for key, value in result["config"]["task"].items()})
    rows = sorted(
        (row["length"], row["n"])
        for row in result["evaluations"]
        if (row["which"], row["kind"], row["metric"]) == (rule, "test", ACCURACY.name)
    )
    if place is None or tuple(rows) != lock.tasks[place].tests:
        yield f"{run}: result.json has not one score at each of the suite's lengths"


def _same_weights(scored: list[str], runs: Path, rule: str) -> Iterator[str]:
    """No two runs of an entry train to the same weights."""
    seen: dict[str, str] = {}
    for run in scored:
        try:
            first = seen.setdefault(digest_of(runs / run / "checkpoints" / f"{rule}.pt"), run)
        except UserError as error:
            yield f"{run}: {error}"
            continue
        if first != run:
            yield f"{run} has the weights of {first}"


def _as_built(run: str, result: Result, levels: dict[str, Levels], may_know: bool) -> Iterator[str]:
    """Compare a run with its model as it was before training, and with chance measured here.

    levels: chance by task; filled with those of tasks that are met first.
    may_know: whether the model may answer before it is trained.
    """
    config, device = config_from(result["config"]), resolve_device("cpu")
    check_fits(config, device)
    procedure = procedure_for(config)
    trial: Trial = procedure.trial(result["seed"], device)
    for name, found in (
        ("parameters", count_parameters(trial.model)),
        ("state_size", getattr(trial.model, "state_size", None)),
    ):
        if result.get(name) != found:
            yield f"{run}: {name} {result.get(name)} is told, and its model has {found}"
    task = repr(sorted(result["config"]["task"].items()))
    if task not in levels:
        rows, _ = procedure.levels(trial, lambda read=0, planned=0: None)
        levels[task] = {(row["baseline"], row["length"]): row["value"] for row in rows}
    told = {(row["baseline"], row["length"]): row["value"] for row in result["baselines"]}
    here = levels[task]
    if set(told) != set(here) or any(abs(told[at] - here[at]) > CLOSE for at in here):
        yield f"{run}: chance is not what is measured here"
    if may_know:
        return
    shortest = min(length for _, length in here)
    request = EvaluationRequest(str(shortest), GUESSED)
    (row,) = procedure.evaluate(
        trial, request, "last", lambda read=0, planned=0: None, "verify untrained"
    )
    chance = max(value for (_, length), value in here.items() if length == shortest)
    accuracy = row["value"]
    if accuracy is not None and scaled_score(accuracy, chance) > UNTRAINED:
        yield f"{run}: its model answers {accuracy:.2f} at {shortest} before it is trained"
