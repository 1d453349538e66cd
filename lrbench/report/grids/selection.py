"""The choice of runs for a table's cells: those with a cell's overrides and one fingerprint.

A sweep's rule is the rule here: a cell is filled by runs of the fingerprint that its words make.
Where there is none of these, runs that have the settings which the cell names are shown in their
place, marked, since other settings of theirs are not the table's.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from lrbench.config import Config, OptimConfig
from lrbench.errors import UserError
from lrbench.metrics import METRICS
from lrbench.records import IRRELEVANT, left_out, never_recorded
from lrbench.registry import BACKBONES, ENCODERS, FOREIGN, MIXERS, PROTOCOLS, TASKS
from lrbench.report.grids.filled_cell import FilledCell, RunScore
from lrbench.report.paper.recipe import faithful
from lrbench.report.paper.reference import (
    Reference,
    lookup,
    measured_chance,
    printed_modulus,
    published,
)
from lrbench.report.runs.collection import Collection, by_split
from lrbench.report.runs.columns import Columns, Settings, UnderWay
from lrbench.report.runs.record import STRINGS, flat
from lrbench.statistics import mean
from lrbench.tables import SUITE, TableCell, TableSpec

DAGGER = "†"  # on a row of `foreign`, whose kernels nothing is known of
GROUPS = ("task", "model", "protocol", "optim")  # words that name a file or a registered thing
PARTS = {  # nodes of a configuration: what is registered for them, and the setting that chooses it
    "protocol": (PROTOCOLS, "protocol.name"),
    "task": (TASKS, "task.name"),
    "model.backbone": (BACKBONES, "model.backbone.name"),
    "model.mixer": (MIXERS, "model.name"),
    "model.encoder": (ENCODERS, "model.name"),
}


def matching_runs(collection: Collection, table: TableSpec, cell: TableCell) -> pd.DataFrame:
    """Return runs of the cell's protocol, task and model with the settings that it asks for.

    Of several cells that a run fits, those that ask for most have it: a run with s4d=false is no
    run of the cell that asks for nothing, where another asks for just that.
    """
    same = collection.runs_of(table.protocol, cell.task, cell.model)
    rivals = _wanted_there(table, cell.task, cell.model)
    fits = [_owns(cell, rivals, collection.settings[folder]) for folder in same["folder"]]
    return same[pd.Series(fits, index=same.index, dtype=bool)]


def matching_under_way(collection: Collection, table: TableSpec, cell: TableCell) -> list[UnderWay]:
    """Return the unfinished runs that would stand in a cell if they had ended."""
    place = (table.protocol, cell.task, cell.model)
    rivals = _wanted_there(table, cell.task, cell.model)
    return [
        run
        for run in collection.under_way
        if (run.protocol, run.task, run.model) == place and _owns(cell, rivals, run.settings)
    ]


def others_there(collection: Collection, table: TableSpec) -> list[TableCell]:
    """Return the cells that have runs of another fingerprint than is known to be theirs.

    None of a suite: any model may stand there, by rules of its own.
    """
    found = []
    for cell in table.cells if table.kind != SUITE else ():
        there = set(matching_runs(collection, table, cell)["fingerprint"])
        there |= {run.fingerprint for run in matching_under_way(collection, table, cell)}
        found += [cell] if there - {cell.fingerprint} else []
    return found


def _wanted_there(table: TableSpec, task: str, model: str) -> list[list[tuple[str, Any]]]:
    """What each cell of one task and model asks for."""
    return [_wanted(cell) for cell in table.cells if (cell.task, cell.model) == (task, model)]


def _owns(cell: TableCell, rivals: list[list[tuple[str, Any]]], settings: Settings) -> bool:
    wanted = _wanted(cell)
    if not settings:  # a failed run may not tell them: then it is not known to be another cell's
        return True
    most = max((len(other) for other in rivals if _fits(settings, other)), default=0)
    return _fits(settings, wanted) and len(wanted) >= most


def unfit(cell: TableCell | FilledCell, settings: Settings) -> list[str]:
    """Return how a run's settings differ from those that a cell asks for."""
    return [
        f"{key}={ours} (the table's: {value})"
        for key, ours, value in _other(settings, _wanted(cell))
    ]


def _wanted(cell: TableCell | FilledCell) -> list[tuple[str, Any]]:
    """The settings that a cell asks for."""
    typed = [
        override.lstrip("+").partition("=")[::2] for override in cell.overrides if "=" in override
    ]
    return [
        wanted
        for key, text in typed
        if key not in (*GROUPS, *IRRELEVANT) and not key.startswith("hydra")
        for wanted in flat_typed(key, text)
    ]


@cache
def flat_typed(key: str, text: str) -> list[tuple[str, Any]]:
    """Return a typed setting, of a dictionary each of its own, as `flat` names them.

    Once for each text: a table asks for the same settings in every cell, and YAML is slow.
    """
    import yaml  # type: ignore[import-untyped]

    value = yaml.safe_load(text)
    if isinstance(value, dict) and value:
        return list(flat(value, f"{key}.").items())
    return [(key, parsed_value(text))]


def _fits(settings: Settings, wanted: Iterable[tuple[str, Any]]) -> bool:
    """Whether a run has these settings."""
    return next(_other(settings, wanted), None) is None


def _other(settings: Settings, wanted: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the settings that a run has otherwise: the key, its value and the one asked for."""
    for key, value in wanted:
        ours = settings[key] if key in settings else _unwritten(settings, key, value)
        if ours != value:
            yield key, ours, value


def _unwritten(settings: Settings, key: str, wanted: Any) -> Any:
    """Return a setting that no file of a run names: its default, or what is wanted of no run."""
    node, _, name = key.rpartition(".")
    schema = _schema(node, settings)
    if schema is None:
        return None
    return wanted if name in never_recorded(schema) else left_out(schema).get(name)


def _schema(node: str, settings: Settings) -> type | None:
    """Return the dataclass of a node of settings. That of a task or a model loads torch."""
    if node in ("", "optim"):
        return OptimConfig if node else Config
    if node not in PARTS:
        return None
    registry, named = PARTS[node]
    name = settings.get(named)
    if not isinstance(name, str) or name not in registry:
        return None
    return registry.get(name).config


@cache
def parsed_value(text: str) -> Any:
    """A typed value as `collect` flattens it: YAML, but 1e-3 is a number; lists are json text."""
    import yaml

    value = yaml.safe_load(text)
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return json.dumps(value) if isinstance(value, list | dict) else value


TUNING = "tuning_runs"  # the setting that tells how many runs a tuned model was chosen from
SHORTEST = 4  # digits of a fingerprint that may stand for all of it


def select(
    collection: Collection,
    table: TableSpec,
    choose: Sequence[str] = (),
    references: Path | None = None,
) -> list[FilledCell]:
    """Return a filled cell for each cell of `table`, without runs where there is none to show.

    Where several configurations compete for a cell, those in `choose` (fingerprints, or the first
    four digits or more of them) decide. Raises UserError for one that no run has.
    """
    _known(choose, collection)
    labels = row_labels(table.cells)
    scores = _scores(collection)
    return [
        _filled_cell(collection, scores, table, cell, label, choose, references)
        for cell, label in zip(table.cells, labels, strict=True)
    ]


def row_labels(cells: Sequence[TableCell]) -> list[str]:
    """Return each cell's row: its label, or the model and what sets it apart on one task."""
    labels = []
    for cell in cells:
        place = (cell.task, cell.model, cell.splits)
        twins = [c for c in cells if (c.task, c.model, c.splits) == place]
        shared = set.intersection(*(set(twin.overrides) for twin in twins))
        apart = [override for override in cell.overrides if override not in shared]
        labels.append(marked_model(cell.model, cell.label or " ".join([cell.model, *apart])))
    return labels


def marked_model(model: str, label: str | None = None) -> str:
    """Return a row's label, a model's name unless told otherwise, with a dagger on `foreign`."""
    return f"{label or model}{DAGGER if model == FOREIGN else ''}"


def settings_of(runs: pd.DataFrame | Columns, collection: Collection) -> Settings:
    """Return the flattened configuration of the first of `runs` that has one."""
    found = (collection.settings[folder] for folder in runs["folder"])
    return next((settings for settings in found if settings), {})


def chances(
    filled_cells: Iterable[FilledCell], references: Path | None = None
) -> dict[str, float | None]:
    """Return the best baseline of each task: the runs' own, else the one that is kept."""
    by_task: dict[str, list[FilledCell]] = {}
    for filled in filled_cells:
        by_task.setdefault(filled.task, []).append(filled)
    return {task: _chance(group, references) for task, group in by_task.items()}


def _chance(filled_cells: Sequence[FilledCell], references: Path | None) -> float | None:
    by_run = {
        score.folder: score.chance
        for filled in filled_cells
        for score in filled.scores
        if score.length == filled.length and not math.isnan(score.chance)
    }
    if by_run:
        return mean(list(by_run.values()))
    first = filled_cells[0]
    length = first.length or (first.published.test_length if first.published else None)
    return measured_chance(first.task, first.modulus, length, references) if length else None


def _scores(collection: Collection) -> dict[str, list[RunScore]]:
    """The scores of each run (folder) at the test and training lengths, or on its splits."""
    rows = collection.frame
    rows = rows[
        rows["metric"].isin(METRICS)
        & (rows["split"].isin(["test", "train_length"]) | by_split(rows["protocol"]))
        & rows["value"].notna()
    ]
    names = ("folder", "which", "kind", "split", "length", "value", "n", "chance", "metric")
    found: dict[str, list[RunScore]] = {}
    for score in map(RunScore._make, zip(*(rows[name].tolist() for name in names), strict=True)):
        found.setdefault(score.folder, []).append(score)
    return found


def _filled_cell(
    collection: Collection,
    scores: dict[str, list[RunScore]],
    table: TableSpec,
    cell: TableCell,
    label: str,
    choose: Sequence[str],
    references: Path | None,
) -> FilledCell:
    matching = matching_runs(collection, table, cell)
    begun = matching_under_way(collection, table, cell)
    chosen = _shown(cell, matching, choose)
    one = chosen if len(chosen) == 1 else []
    runs = matching[matching["fingerprint"].isin(one)]
    under_way = _under_way(cell, begun, chosen, choose)
    alone = under_way[0].settings if under_way and not chosen else {}
    settings = settings_of(runs, collection) or alone
    # A run has it from a preset, whose rate the cell may replace: what the cell says counts.
    searched = _overridden(cell, TUNING, settings.get(TUNING))
    if settings and searched != settings.get(TUNING):
        settings = {**settings, TUNING: searched}  # outside of what tells cells apart
    modulus = _modulus(collection, matching, cell, table.paper, references)
    own = tuple(score for folder in runs["folder"] for score in scores.get(folder, ()))
    names = cell.task, modulus, cell.model, table.paper
    reach = _overridden(cell, "model.mixer.range", settings.get("model.mixer.range"))
    reference = lookup(*names, references, row=cell.reference, reach=reach)
    wanted = _overridden(cell, "trials")
    return FilledCell(
        task=cell.task,
        label=label,
        model=cell.model,
        protocol=table.protocol,
        modulus=modulus,
        runs=runs,
        scores=own,
        settings=settings,
        rivals=tuple(chosen),
        not_shown=tuple(sorted(set(matching["fingerprint"]) - set(chosen))),
        wanted=int(wanted) if isinstance(wanted, int) else None,
        length=_length(own, reference, alone),
        reference=reference,
        published=published(table.paper, cell.task, modulus, references),
        faithful=faithful(cell.task, settings, references),
        under_way=under_way,
        overrides=cell.overrides,
        own_recipe=cell.own_recipe,
        unlike=_unlike(cell, one or [run.fingerprint for run in under_way], settings),
        unknown=cell.unknown,
    )


def _shown(cell: TableCell, matching: pd.DataFrame, choose: Sequence[str]) -> list[str]:
    """The fingerprints that compete for a cell: its own alone, where a run of it has ended."""
    rivals = _rivals(matching, choose)
    chosen = any(name.startswith(tuple(choose)) for name in rivals)
    return [cell.fingerprint] if cell.fingerprint in rivals and not chosen else rivals


def _unlike(cell: TableCell, shown: Sequence[str], settings: Settings) -> tuple[str, ...] | None:
    """How runs of one fingerprint differ from the cell's own, None where that is theirs."""
    if not cell.fingerprint or len(set(shown)) != 1 or shown[0] == cell.fingerprint:
        return None
    if cell.settings is None:
        return ()
    ours, theirs = compared_settings(settings), compared_settings(cell.settings)
    keys = sorted(key for key in {*ours, *theirs} if repr(ours.get(key)) != repr(theirs.get(key)))
    told = [f"{key}={ours.get(key)} (the table's: {theirs.get(key)})" for key in keys]
    return tuple(told) or ("another version of the task, the model, the protocol or a plug-in",)


def compared_settings(settings: Mapping[str, Any]) -> Settings:
    """Return the settings that are in a fingerprint: no others can be why two of them differ.

    A data seed that spells out the seed of a single run is not in it, nor is none at all. The hash
    of the test strings is what they came to, not a setting.
    """
    kept = {key: value for key, value in settings.items() if _is_hashed(key)}
    spelt_out = settings.get("trials", 1) == 1 and kept.get("data_seed") == settings.get("seed")
    if kept.get("data_seed") is None or spelt_out:
        kept.pop("data_seed", None)
    return kept


@cache  # the settings of thousands of runs have the same names
def _is_hashed(key: str) -> bool:
    return key != STRINGS and key.partition(".")[0] not in {*IRRELEVANT, "versions"}


def _rivals(matching: pd.DataFrame, choose: Sequence[str]) -> list[str]:
    """The fingerprints that compete for a cell: of those there are the chosen, else all."""
    ended = matching[matching["status"] != "failed"]
    rivals = sorted(set((ended if len(ended) else matching)["fingerprint"]))
    return [name for name in rivals if any(name.startswith(prefix) for prefix in choose)] or rivals


def _under_way(
    cell: TableCell, begun: Sequence[UnderWay], shown: Sequence[str], choose: Sequence[str]
) -> tuple[UnderWay, ...]:
    """The unfinished runs of a cell: of the configurations `shown`, or of those asked for."""
    if shown:
        return tuple(run for run in begun if run.fingerprint in shown)
    wanted = tuple(choose) or ((cell.fingerprint,) if cell.fingerprint else ())
    chosen = [run for run in begun if run.fingerprint.startswith(wanted)]
    return tuple(chosen or begun)


def _overridden(cell: TableCell, key: str, default: Any = None) -> Any:
    """What a cell sets a key to, null included; `default` where it does not name it."""
    found = [override for override in cell.overrides if override.lstrip("+").startswith(f"{key}=")]
    return parsed_value(found[-1].partition("=")[2]) if found else default


def _modulus(
    collection: Collection,
    runs: pd.DataFrame,
    cell: TableCell,
    protocol: str,
    references: Path | None,
) -> int | None:
    """What the cell says, else what its runs say, else the one the paper prints."""
    modulus = _overridden(cell, "task.modulus") or settings_of(runs, collection).get("task.modulus")
    return modulus if isinstance(modulus, int) else printed_modulus(cell.task, protocol, references)


def _length(
    scores: Iterable[RunScore], reference: Reference | None, settings: Settings
) -> int | None:
    """The paper's test length where it was tested, else the shortest that was or is to be.

    Looks count only where nothing was tested: those of `suite_v1` are at the training length.
    """
    there = [score for score in scores if score.split == "test"]
    tested = {one.length for one in there if one.kind == "test"} or {one.length for one in there}
    if reference is not None and (reference.length in tested or not tested):
        return reference.length
    return min(tested or _test_lengths(settings), default=None)


def _test_lengths(settings: Settings) -> list[int]:
    try:
        found = json.loads(settings.get("protocol.test_lengths") or "[]")
    except (TypeError, ValueError):
        return []
    return [length for length in found if type(length) is int] if isinstance(found, list) else []


def _known(choose: Sequence[str], collection: Collection) -> None:
    unfinished = {run.fingerprint for run in collection.under_way}
    there = sorted({*collection.runs["fingerprint"], *unfinished})
    for prefix in choose:
        if len(prefix) < SHORTEST or not any(name.startswith(prefix) for name in there):
            shown = ", ".join(there[:12]) + (", ..." if len(there) > 12 else "")
            raise UserError(
                f"no run with fingerprint '{prefix}' (give {SHORTEST} digits or more)\n"
                f"there: {shown}"
            )
