"""Every field and every array of a certificate, tampered with once: refused, or said to be free."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lrbench.certificates import check

from .certificate import Certificate

KINDS = {"rnn": 2.0, "elman": 2.0, "lstm": 2.0, "gru x 2": 2.5, "blockdiag": 2.0}
ARRAYS = ("file", "sha256")  # made anew with each file; test_check.py has theirs

# What a proof does not rest on: where it came from, and how the weights were trained.
FREE = {("which",), ("step",), ("seed",), ("lrbench",), ("date",)}
OF_TRAINING = {"noise", "init", "forget_bias", "learn_x0"}


def is_free(path: tuple[str, ...], mine: Certificate) -> bool:
    """Whether another value of its kind makes the same statement, which then stays proved."""
    if path in FREE or path[0] == "searched" or path[1:] in {("seconds",), ("rounds",)}:
        return True
    if path[0] == "proof":
        return path[1] in ("depth", "within")
    if path == ("model", "width"):  # one-hot symbols make no use of it
        return mine.config["backbone"]["embed"] == "one_hot"
    mixer = path[:2] == ("model", "mixer")
    # columns of one entry 1 or -1 have norm one by any p, and no constraint changes them
    return mixer and path[2] in OF_TRAINING | {"p", "constraint"}


def leaves(claim: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield where each value of an object is, the objects in it included."""
    for key, value in claim.items():
        yield (*path, key)
        if isinstance(value, dict):
            yield from leaves(value, (*path, key))


def others(value: Any, path: tuple[str, ...]) -> list[Any]:
    """Return other values of the same kind."""
    known = {
        "constraint": ["none", "column_unit"],
        "init": ["exact"],
        "embed": ["embedding"],
        "g": ["linear", "mlp"],
        "values": ["linear", "mlp"],
        "nonlinearity": ["relu"],
        "name": ["rnn", "gru", "even_pair", "gpt", "dfa"],
        "forget_bias": [1.0],
        "noise": [0.5],
        "p": [1.5, 2.0],
        "witness": [{"string": "0"}],
        "blocks": [2, 7],
        "within": [0.1],
        "unconfirmed_from": [3],
        "least_margin": [0.5],
        "seconds_allowed": [5.0],
        "margin": [0.01],
    }
    if path[-1] in known:
        return [one for one in known[path[-1]] if one != value]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value + 1, value + 3]
    if isinstance(value, str):
        return [value + "x"]
    return [["beam"]] if isinstance(value, list) else []


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_is_known_and_used_or_checked(kind: str, tmp_path: Path) -> None:
    """Left out, of another kind, of another value, and beside an unknown key, each once."""
    mine = Certificate(tmp_path, "sum", 3, KINDS[kind], kind)
    mine.claim["proof"]["margin"] = mine.checked()["margin"]
    mine.checked()
    whole, tried = mine.claim, 0
    for path in leaves(whole):
        inner: Any = whole
        for key in path[:-1]:
            inner = inner[key]
        value = inner[path[-1]]
        changes: list[tuple[str, Any]] = [("kind", {}), ("kind", [[]]), ("kind", object)]
        changes += [("value", other) for other in others(value, path)]
        if isinstance(value, dict):
            changes.append(("unknown", {**value, "more": 0}))
        for what, other in changes:
            mine.claim = copy.deepcopy(whole)
            at: Any = mine.claim
            for key in path[:-1]:
                at = at[key]
            if other is object:
                del at[path[-1]]
            else:
                at[path[-1]] = other
            needed = path[0] not in {one[0] for one in FREE} | {"searched", "proof", "witness"}
            later = path[-1] in ("noise", "init")  # settings that older certificates do not tell
            may_miss = other is object and (not needed or later)
            empty = other == {} and path in {("searched",), ("proof",)}
            if may_miss or empty or (what == "value" and is_free(path, mine)):
                mine.checked()
                continue
            tried += 1
            try:
                mine.checked()
            except check.Refused:
                continue
            pytest.fail(f"{'.'.join(path)}: {value!r} became {other!r}, and was accepted")
    assert tried > 100, tried


def tampered(name: str, array: Any) -> Iterator[tuple[str, Any]]:
    """Yield what may be done to an array of a certificate, whichever it is."""
    flat = array.reshape(-1)
    digested = name.startswith("w/")  # any other byte of them is alike
    for place in {flat.size // 2} if digested else {0, flat.size // 2, flat.size - 1}:
        for value in (flat[place] + 1, flat[place] - 1, 1 - 2 * flat[place], np.float64(1e30)):
            if array.dtype.kind == "i" and abs(float(value)) > 1e9:
                value = 2**31 - 1
            changed = array.copy().reshape(-1)
            changed[place] = value
            yield "a value", changed.reshape(array.shape)
    if array.dtype.kind == "f":
        for value in (np.nan, np.inf, -np.inf):
            changed = array.copy().reshape(-1)
            changed[-1] = value
            yield "no number", changed.reshape(array.shape)
    for kind in ("f8", "f4", "f2", "i4", "i8", "c16", "?", "U5"):
        if np.dtype(kind) != array.dtype:
            yield "another type", array.astype(kind)
    yield "another axis", array[None]
    if array.ndim:
        yield "a row more", np.concatenate([array, array[-1:]])
        yield "a row less", array[:-1]
        yield "nothing", array[:0]


@pytest.mark.parametrize("kind", KINDS)
def test_every_array_is_used_and_checked(kind: str, tmp_path: Path) -> None:
    """Weights are by their digest, which others sign; all else by what it says."""
    mine = Certificate(tmp_path, "sum", 3, KINDS[kind], kind)
    mine.checked()
    whole, tried, harmless = dict(mine.arrays), 0, []
    for name, array in whole.items():
        for what, other in [*tampered(name, array), ("gone", None)]:
            mine.arrays = {k: v for k, v in whole.items() if k != name}
            if other is not None:
                mine.arrays[name] = other
                if np.array_equal(other, array) and other.dtype == array.dtype:
                    continue
            tried += 1
            try:
                mine.checked()
            except check.Refused:
                continue
            harmless.append((name, what, other))
    # what is accepted is a box that is larger, or an answer of the empty string, which none is
    for name, what, other in harmless:
        assert what == "a value", (name, what)
        if name == "lo":
            assert (other <= whole[name]).all()
        elif name == "hi":
            assert (other >= whole[name]).all()
        else:
            raise AssertionError(f"{name}: accepted")
    assert tried > 200 and len(harmless) < 9, (tried, harmless)
    # signed again: a weight that is no number, of another type or shape, or is not there
    for name in [name for name in whole if name.startswith("w/")]:
        for what, other in [*tampered(name, whole[name]), ("gone", None)]:
            if what == "a value":
                continue  # other weights, which may be right as well
            mine.arrays = {k: v for k, v in whole.items() if k != name}
            if other is not None:
                mine.arrays[name] = other
            mine.sign()
            with pytest.raises(check.Refused):
                mine.checked()
