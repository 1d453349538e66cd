"""Checks of the contents of result.json and failure.json, before anything is computed from them.

A run folder may be half copied, edited by hand, or written by another version. A check returns the
first fault in a few words, so that `collect` can list it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain
from typing import Any

from lrbench.records import KINDS, SCHEMA

DEEPEST = 32  # levels of a configuration; a real one has four
NESTED = (dict, list)
Check = Callable[[Any], bool]


def is_integer(value: Any) -> bool:
    """Tell an int that fits 64 bits (True and False are none)."""
    return type(value) is int and -(2**63) <= value < 2**63


def is_number(value: Any) -> bool:
    """Tell an int or a float."""
    return type(value) is float or is_integer(value)


def is_finite(value: Any) -> bool:
    """Tell a number that is neither infinite nor NaN."""
    return is_number(value) and math.isfinite(value)


def is_text(value: Any) -> bool:
    """Tell a string."""
    return isinstance(value, str)


def is_object(value: Any) -> bool:
    """Tell a json object."""
    return isinstance(value, dict)


def is_settings(value: Any) -> bool:
    """Tell a json object that is not nested so deeply that walking it would fail."""
    if not is_object(value):
        return False
    level = [value]
    for _ in range(DEEPEST):
        inside = chain.from_iterable(one.values() if type(one) is dict else one for one in level)
        level = [item for item in inside if type(item) in NESTED]
        if not level:
            return True
    return False


def is_list(value: Any) -> bool:
    """Tell a json array."""
    return isinstance(value, list)


def is_texts(value: Any) -> bool:
    """Tell a json array of strings."""
    return is_list(value) and all(map(is_text, value))


def is_length(value: Any) -> bool:
    """Tell a count of at least one."""
    return type(value) is int and 1 <= value < 2**63


REQUIRED: dict[str, Check] = {
    **dict.fromkeys(["task", "model", "protocol", "fingerprint"], is_text),
    **dict.fromkeys(["seed", "steps"], is_integer),
    "config": is_settings,
    "status": lambda value: value in ("finished", "diverged"),
    "evaluations": is_list,
}
OPTIONAL: dict[str, Check] = {
    **dict.fromkeys(["task_title", "stopped", "device", "dtype", "mode"], is_text),
    **dict.fromkeys(["data_seed", "parameters", "state_size", "threads"], is_integer),
    **dict.fromkeys(["train_seconds", "examination_seconds", "epochs"], is_finite),
    "versions": is_settings,
    **dict.fromkeys(["checkpoints", "perfect_look", "horizon", "data", "telemetry"], is_object),
    **dict.fromkeys(["baselines", "guessing"], is_list),
    "not_hashed": lambda value: is_object(value) and all(map(is_texts, value.values())),
}
EVALUATION: dict[str, Check] = {
    **dict.fromkeys(["length", "n"], is_length),
    **dict.fromkeys(["split", "metric", "which"], is_text),
    "kind": lambda value: value in KINDS,
}
BASELINE: dict[str, Check] = {"baseline": is_text, "value": is_number}
LENGTH: dict[str, Check] = {"length": is_length}
SPLIT: dict[str, Check] = {"split": is_text}
GUESSING: dict[str, Check] = {"rule": is_text, "length": is_length, "value": is_number}
TELEMETRY: dict[str, Check] = {
    "iterations": is_number,
    "converged": is_number,
    "failed_at": lambda value: value is None or is_integer(value),
}
LOOK: dict[str, Check] = {"step": is_integer, "seconds": is_number}
HORIZON: dict[str, Check] = {"text": is_text}


def result_complaint(data: Any) -> str | None:
    """Return what is wrong with the content of a result.json, None where nothing is."""
    return (
        _head(data)
        or _fields(data, REQUIRED, "")
        or _fields({k: v for k, v in data.items() if v is not None}, OPTIONAL, "", missing=True)
        or _fields(data.get("telemetry") or {}, TELEMETRY, "telemetry.", missing=True)
        or _evaluations(data["evaluations"])
        or _baselines(data.get("baselines") or [])
        or _items(data.get("guessing") or [], GUESSING, "guessing")
        or _items(list((data.get("horizon") or {}).values()), HORIZON, "horizon")
        or _items([data["perfect_look"]] if data.get("perfect_look") else [], LOOK, "perfect_look")
        or _fields(data.get("checkpoints") or {}, _steps(data.get("checkpoints")), "checkpoints.")
    )


def failure_complaint(data: Any) -> str | None:
    """Return what is wrong with the content of a failure.json, None where nothing is."""
    optional: dict[str, Check] = {"type": is_text, "step": is_integer}
    return (
        _head(data)
        or _fields(data, {"error": is_text}, "")
        or _fields({k: v for k, v in data.items() if v is not None}, optional, "", missing=True)
    )


def evaluations_complaint(data: Any) -> str | None:
    """Return what is wrong with a file that lrbench evaluate wrote, None where nothing is."""
    return (
        _head(data)
        or _fields(data, {"evaluations": is_list}, "")
        or _evaluations(data["evaluations"])
    )


def section_complaint(data: dict[str, Any]) -> str | None:
    """Return what is wrong with a line of examination.jsonl, None where nothing is."""
    horizon = {"horizon": lambda value: value is None or is_object(value)}
    return (
        _fields(data, {"rows": is_list, **horizon}, "")
        or _items(data["rows"], LENGTH, "rows")
        or _evaluations([{"which": "any", **row} for row in data["rows"]])
        or _items([data["horizon"]] if data["horizon"] else [], HORIZON, "horizon")
    )


def config_complaint(data: Any) -> str | None:
    """Return what is wrong with the content of a config.json, None where nothing is."""
    if not is_object(data):
        return "holds no object"
    return None if is_settings(data) else f"is nested more than {DEEPEST} levels deep"


def _head(data: Any) -> str | None:
    if not isinstance(data, dict):
        return f"holds a {type(data).__name__}, not an object"
    schema: Any = data.get("schema")
    if type(schema) is not int or schema != SCHEMA:
        age = ""
        if is_integer(schema):
            age = f", written by {'an older' if schema < SCHEMA else 'a newer'} lrbench"
        return f"schema {_short(schema)}{age}, this lrbench reads schema {SCHEMA}"
    return None


def _fields(
    data: dict[str, Any], checks: dict[str, Check], prefix: str, missing: bool = False
) -> str | None:
    for name, check in checks.items():
        if name not in data:
            if not missing:
                return f"'{prefix}{name}' is missing"
        elif not check(data[name]):
            return f"'{prefix}{name}' is {_short(data[name])}, not what it should be"
    return None


def _items(items: list[Any], checks: dict[str, Check], name: str) -> str | None:
    if _sound(items, checks):
        return None
    for index, item in enumerate(items):
        if not isinstance(item, dict):
            return f"'{name}[{index}]' is {_short(item)}, not an object"
        if wrong := _fields(item, checks, f"{name}[{index}]."):
            return wrong
    return None


def _sound(items: list[Any], checks: dict[str, Check]) -> bool:
    """Tell whether every item is as it should be, a column at a time.

    A run has a hundred items, and nearly all are: a look at each by itself takes three times as
    long.
    """
    try:
        columns = [(check, [item[key] for item in items]) for key, check in checks.items()]
        return all(_all_are(check, column) for check, column in columns)
    except (TypeError, KeyError):
        return False


def _all_are(check: Check, column: list[Any]) -> bool:
    """Return all(map(check, column)); the common checks at a glance."""
    kinds = set(map(type, column))
    if check is is_text:
        return kinds <= {str}
    if check is is_length and kinds == {int}:
        return bool(min(column) >= 1 and max(column) < 2**63)
    if check is is_number and kinds == {float}:
        return True
    if kinds == {str}:  # few different ones
        column = [*set(column)]
    return all(map(check, column))


def _evaluations(rows: list[Any]) -> str | None:
    return _items(rows, EVALUATION, "evaluations") or _values(rows)


def _values(evaluations: list[dict[str, Any]]) -> str | None:
    """Accuracies lie in 0..1; a loss may be anything, infinite too; null says not measured."""
    for index, row in enumerate(evaluations):
        value = row.get("value")
        if type(value) is float and 0 <= value <= 1:
            continue
        good = value is None or (
            is_number(value)
            and (row["metric"] != "accuracy" or (math.isfinite(value) and 0 <= value <= 1))
        )
        if not good:
            return f"'evaluations[{index}].value' is {_short(value)}, no {row['metric']}"
    return None


def _baselines(rows: list[Any]) -> str | None:
    """A baseline is measured at a length; over a corpus, on a split."""
    if wrong := _items(rows, BASELINE, "baselines"):
        return wrong
    splits = [row for row in rows if "split" in row]
    at_lengths = [row for row in rows if "split" not in row] if splits else rows
    if _sound(splits, SPLIT) and _sound(at_lengths, LENGTH):
        return None
    found = (
        _fields(row, SPLIT if "split" in row else LENGTH, f"baselines[{index}].")
        for index, row in enumerate(rows)
    )
    return next(filter(None, found), None)


def _steps(checkpoints: Any) -> dict[str, Check]:
    return dict.fromkeys(checkpoints or {}, lambda step: step is None or is_integer(step))


def _short(value: Any) -> str:
    if isinstance(value, dict | list):
        return f"a {type(value).__name__}"
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
