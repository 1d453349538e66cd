"""Whether a run is of the experiment that a paper's number is from.

Its task, training length, protocol and start are compared with what the paper tells of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lrbench.checks import written
from lrbench.protocols.base import declared
from lrbench.report.paper.reference import (
    MODULUS,
    Reference,
    Split,
    lookup,
    names,
    published,
    stated_settings,
)


def lookup_run(result: Mapping[str, Any], folder: Path | None = None) -> Reference | None:
    """Return the paper's number for the cell that `result` (a result.json) belongs to.

    `other_recipe` tells whether the run may be held against it.
    """
    config = result.get("config", {})
    settings = _flat(config, "task") | _flat(config, "protocol")
    if not _as_stated(result["task"], settings, folder):
        return None
    modulus = settings.get("task.modulus")
    mixer = (config.get("model") or {}).get("mixer")
    reach = mixer.get("range") if isinstance(mixer, dict) else None
    where = result["task"], modulus, result["model"], result["protocol"]
    return lookup(*where, folder, reach=reach)


def other_recipe(result: Mapping[str, Any], folder: Path | None = None) -> str:
    """Return why no paper's number stands beside this run (a result.json); "" where one may.

    A run of fewer updates, or one that its rule ended early, may have one: it flatters nobody.
    """
    config = result.get("config", {})
    own = {key.removeprefix("protocol."): value for key, value in _flat(config, "protocol").items()}
    task, model, name = result["task"], result["model"], result["protocol"]
    begun = other_start(own | {"init": "exact" if exact_start(result) else None})
    if other := begun or other_task(task, _flat(config, "task")):
        return other
    protocol = declared(name)
    runs = getattr(protocol, "paper_runs", 1)  # how many there are is no matter of one run
    reason = protocol.unlike_paper(own | {"task": task, "model": model}, runs)
    if reason is not None:
        return reason
    paper = published(name, task, _flat(config, "task").get("task.modulus"), folder)
    trained = own.get("train_length")
    if paper is not None and trained not in (None, paper.train_length):
        return f"protocol.train_length is {trained}, the paper's is {paper.train_length}"
    return ""


def other_start(settings: Mapping[str, Any]) -> str:
    """Return how training began elsewhere than a paper's; "" where it began with random weights.

    settings: `start_from` of the protocol and `init` of the mixer.
    """
    if settings.get("start_from"):
        return "protocol.start_from is set: training began with the weights of another run"
    if settings.get("init") == "exact":
        return "model.mixer.init is exact: training began with a solution built by hand"
    return ""


def exact_start(result: Mapping[str, Any]) -> bool:
    """Whether a run (a result.json) began with weights that solve its task, built by hand."""
    mixer = (result.get("config", {}).get("model") or {}).get("mixer")
    return isinstance(mixer, dict) and mixer.get("init") == "exact"


def other_task(task: str, settings: Mapping[str, Any]) -> str:
    """Return which setting makes a task another than that of a paper's numbers; "" for none.

    What a paper does not name has to be at our default, by names/defaults.csv: to ask the tasks
    themselves takes torch. settings: a run's, flat.
    """
    for row in names("defaults"):
        own = settings.get(row["setting"])
        if row["lrbench_task"] == task and own is not None and written(own) != row["value"]:
            return f"{row['setting']} is {written(own)}, the paper's is {row['value']}"
    return ""


def faithful(task: str, settings: Mapping[str, Any], folder: Path | None = None) -> bool:
    """Tell whether a run's flat settings are what a paper tells of a task, and our defaults."""
    return _as_stated(task, settings, folder) and not other_task(task, settings)


def _as_stated(task: str, settings: Mapping[str, Any], folder: Path | None) -> bool:
    """Of a task with a modulus `published` tells more, and the verdict goes by that."""
    named = next((row for row in names("tasks") if row["lrbench_task"] == task), None)
    if named is None or MODULUS in named["task"]:
        return True
    stated = stated_settings(named, named["task"], folder)
    return all(str(settings[key]) == value for key, value in stated.items() if key in settings)


def faithful_on(split: Split, settings: Mapping[str, Any]) -> bool:
    """Tell whether a run's flat settings are those of the paper's data."""
    made = split.task == "logic" and settings.get("task.source", "released") != "released"
    return not made and not other_task(split.task, settings)


def _flat(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The settings of one part of a configuration, by their full names."""
    node = config.get(name)
    return {f"{name}.{key}": value for key, value in node.items()} if isinstance(node, dict) else {}
