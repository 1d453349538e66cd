"""The winner of a tuning run as a preset file: what was there before, the chosen values on top.

A preset of the user's takes the place of ours of the same name, it does not add to it. So the file
holds the whole of what it replaces, and needs no other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from lrbench.config import Config
from lrbench.sweeps.tune.choice import FAILED, Point
from lrbench.sweeps.tune.study import Study, setting
from lrbench.sweeps.tune.table import row_of

FOLDER = Path("preset", "model")
PROVISIONAL = "Provisional:"  # of a file: another search of the same may choose otherwise
KEPT = ("model", "optim")  # groups of which typed settings stay; a budget is the tuning run's own


def existing(name: str, folders: Sequence[Path]) -> tuple[dict[str, Any], Path | None]:
    """Return what the preset of this name sets, and its file; the first of the folders wins."""
    from omegaconf import OmegaConf

    for folder in folders:
        path = folder / FOLDER / f"{name}.yaml"
        if path.is_file():
            content: Any = OmegaConf.to_container(OmegaConf.load(path))
            return (content if isinstance(content, dict) else {}), path
    return {}, None


def chosen_values(study: Study, best: Config, plain: Config) -> dict[str, Any]:
    """Return by dotted key what the preset has to set for `plain` to become `best`.

    That is the grid's keys, and what else was typed of the model and the optimiser.
    """
    won, before = dataclasses.asdict(best), dataclasses.asdict(plain)
    values = {}
    for group in KEPT:
        there = dict(_leaves(before[group], f"{group}."))
        for key, value in _leaves(won[group], f"{group}."):
            if key not in there or there[key] != value:
                values[key] = value
    values |= {key: setting(won, key) for key in study.keys if "." in key}
    return values


def preset_text(
    study: Study,
    points: Sequence[Point],
    best: int,
    values: Mapping[str, Any],
    base: Mapping[str, Any],
    origin: str,
    typed: Iterable[str],
) -> str:
    """Return the content of the file; `origin` names where `base` is from, `typed` the settings."""
    import yaml  # type: ignore[import-untyped]

    content = _copied(base)
    for key, value in values.items():
        _put(content, key.split("."), value)
    content["tuning_runs"] = len(study.runs)
    metric = points[best].metric
    lines = [
        "@package _global_",
        f"Chosen by `lrbench tune` on {_basis(study)}",
        *([f"Tuned with: {' '.join(typed)}"] if typed else []),
        f"Budget: {study.budget()}.",
        f"Tried (mean validation {metric.title} and loss, runs, how they ended; * is the choice):",
        *_tried(points, best),
        *_provisional(points),
        f"Below: {origin}",
    ]
    body = yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=96)
    return "".join(f"# {line}\n" for line in lines) + str(body)


def _basis(study: Study) -> str:
    """Say what it was chosen by, and what had no say."""
    protocol = study.config().protocol
    if study.over_corpus:
        split, score = protocol.dev_split, protocol.select_by
        return f"the dev split ({split}) by {score}; the test splits had no say."
    ends = getattr(protocol, "train_lengths", None)  # of a protocol of several lengths
    if ends:
        first, last = ends
        of = f"lengths ({first} to {last})" if first != last else f"length ({first})"
        return f"validation strings of the training {of}; the test lengths had no say."
    length = getattr(protocol, "train_length", None)  # a plug-in's settings may name none
    of = "length" if length is None else f"length ({length})"
    return f"validation strings of the training {of}; the test length had no say."


def is_provisional(path: Path) -> bool:
    """Whether a preset was chosen while some runs of its search had failed."""
    return f"# {PROVISIONAL}" in path.read_text(errors="replace")


def _provisional(points: Sequence[Point]) -> Iterator[str]:
    """A disk that was full is no fault of a setting, so what failed is to be trained again."""
    ended = [attempt.status for point in points for attempt in point.attempts]
    if failed := ended.count(FAILED):
        runs = f"{failed} of {len(ended)} runs"
        yield f"{PROVISIONAL} {runs} failed; the same command trains them again, then chooses."


def _tried(points: Sequence[Point], best: int) -> Iterator[str]:
    rows = [row_of(point, points[best].metric) for point in points]
    for index, row in enumerate(rows):
        mark = "*" if index == best else " "
        yield f"{mark} {row.settings}: {row.accuracy}, {row.loss}, {row.runs}, {row.status}"


def _leaves(node: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _copied(node: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _copied(v) if isinstance(v, dict) else v for k, v in node.items()}


def _put(node: dict[str, Any], path: Sequence[str], value: Any) -> None:
    for part in path[:-1]:
        node = node.setdefault(part, {})
    node[path[-1]] = value
