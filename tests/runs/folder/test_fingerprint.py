"""One configuration, one fingerprint, however spelt; another configuration, another."""

from __future__ import annotations

import copy
import random
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrbench.runs.folder.fingerprint import IRRELEVANT, differing_keys, fingerprint

CONFIG: dict[str, Any] = {
    "seed": 0,
    "data_seed": None,
    "trials": 1,
    "device": "auto",
    "threads": 1,
    "force": False,
    "output_dir": "outputs",
    "task": {"name": "sum", "modulus": 5},
    "model": {"name": "blockdiag", "layers": 1, "mixer": {"norm": 1.2, "bias": True}},
    "protocol": {"name": "fan2024", "test_lengths": [40, 500], "stop": "perfect"},
    "optim": {"lr": 1e-3, "weight_decay": 0.0, "clip": None},
}
VERSIONS: dict[str, Any] = {"task": 1, "model": 1, "protocol": 1, "plugins": {"mine": "ab"}}

LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1e-3, "a", ""])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=6,
)
CONFIGS = st.dictionaries(st.sampled_from(["task", "model", "optim", "protocol"]), VALUES)


def shuffled(obj: Any, rng: random.Random) -> Any:
    if isinstance(obj, dict):
        keys = list(obj)
        rng.shuffle(keys)
        return {key: shuffled(obj[key], rng) for key in keys}
    return [shuffled(item, rng) for item in obj] if isinstance(obj, list) else obj


def leaves(obj: dict[str, Any], prefix: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = []
    for key, value in obj.items():
        path = (*prefix, key)
        found += leaves(value, path) if isinstance(value, dict) else [path]
    return found


def changed(obj: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    obj = copy.deepcopy(obj)
    inner = obj
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return obj


def test_twelve_hex_digits_that_never_change() -> None:
    assert re.fullmatch("[0-9a-f]{12}", fingerprint(CONFIG, VERSIONS))
    assert fingerprint({"a": 1}, {"task": 1}) == "f2161b5c3570"


@given(config=CONFIGS, rng=st.randoms(use_true_random=False))
def test_key_order_is_irrelevant(config: dict[str, Any], rng: random.Random) -> None:
    assert fingerprint(shuffled(config, rng), VERSIONS) == fingerprint(config, VERSIONS)


@given(a=CONFIGS, b=CONFIGS)
def test_equal_fingerprints_mean_no_differing_key(a: dict[str, Any], b: dict[str, Any]) -> None:
    same = fingerprint(a, VERSIONS) == fingerprint(b, VERSIONS)
    assert same == (differing_keys(a, b) == [])
    assert differing_keys(a, b) == differing_keys(b, a)


@pytest.mark.slow
@pytest.mark.parametrize("key", sorted(IRRELEVANT))
@given(value=VALUES)
def test_irrelevant_keys(key: str, value: Any) -> None:
    assert fingerprint({**CONFIG, key: value}, VERSIONS) == fingerprint(CONFIG, VERSIONS)


RELEVANT = [path for path in leaves(CONFIG) if path[0] not in IRRELEVANT]


@pytest.mark.parametrize("path", RELEVANT, ids=".".join)
def test_every_other_key_is_relevant(path: tuple[str, ...]) -> None:
    other = changed(CONFIG, path, "something else")
    assert fingerprint(other, VERSIONS) != fingerprint(CONFIG, VERSIONS)
    assert differing_keys(CONFIG, other) == [".".join(path)]


@pytest.mark.parametrize("path", leaves(VERSIONS), ids=".".join)
def test_every_version_is_relevant(path: tuple[str, ...]) -> None:
    assert fingerprint(CONFIG, changed(VERSIONS, path, 2)) != fingerprint(CONFIG, VERSIONS)


def test_irrelevant_only_at_the_top() -> None:
    inner = changed(CONFIG, ("model", "device"), "cuda")
    assert fingerprint(inner, VERSIONS) != fingerprint(CONFIG, VERSIONS)


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (0.0, -0.0), (0, -0.0), (1e3, 1000)])
def test_numbers_spelt_alike(one: float, other: float) -> None:
    a, b = changed(CONFIG, ("optim", "lr"), one), changed(CONFIG, ("optim", "lr"), other)
    assert fingerprint(a, VERSIONS) == fingerprint(b, VERSIONS)
    assert differing_keys(a, b) == []


@pytest.mark.parametrize(("one", "other"), [(1, True), (0, False), (1, "1"), (0.1, 0.1 + 1e-17)])
def test_numbers_and_their_lookalikes(one: Any, other: Any) -> None:
    a, b = changed(CONFIG, ("optim", "lr"), one), changed(CONFIG, ("optim", "lr"), other)
    same = one == other and type(one) is type(other)
    assert (fingerprint(a, VERSIONS) == fingerprint(b, VERSIONS)) is same


def test_data_seed_that_spells_out_the_seed() -> None:
    def of(**keys: object) -> str:
        return fingerprint({**CONFIG, **keys}, VERSIONS)

    assert of(seed=3, data_seed=3) == of(seed=3) == of(seed=4)
    assert of(seed=3, data_seed=0) == of(seed=4, data_seed=0) != of(seed=3)
    assert of(seed=0, data_seed=0, trials=5) != of(seed=0, trials=5)  # seeds 1..4 differ


def test_differing_keys_of_different_shapes() -> None:
    a = {"x": {"p": 1, "q": {"r": 2}}, "only_a": 1, "list": [1, 2.0]}
    b = {"x": {"p": 1, "q": 5}, "only_b": None, "list": (1, 2)}
    assert differing_keys(a, b) == ["only_a", "only_b", "x.q"]
