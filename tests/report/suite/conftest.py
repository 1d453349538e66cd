"""Runs of a suite, made up: every setting and hash is the lock's, every accuracy is given."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.protocols.base import declared
from lrbench.report.runs.certificates import EXTENT
from lrbench.report.suite.lock import lock_path
from tests.cli.conftest import lrbench

__all__ = ["lrbench"]  # a fixture

CONTENT: dict[str, Any] = json.loads(lock_path("suite_v1").read_text())
LENGTHS = (40, 256, 500, 5000)
CHANCE = 0.2


def nested(flat: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Return the settings below a prefix as a configuration has them."""
    found: dict[str, Any] = {}
    for key, value in flat.items():
        if key.startswith(prefix):
            *above, last = key.removeprefix(prefix).split(".")
            inner = found
            for part in above:
                inner = inner.setdefault(part, {})
            listed = isinstance(value, str) and value.startswith("[")
            inner[last] = json.loads(value) if listed else value
    return found


def tests_of(task: dict[str, Any]) -> dict[int, int]:
    """Return how many strings a task is tested on, by length."""
    return {int(length): told["n"] for length, told in task["strings"].items()}


def suite_result(
    at: int,
    accuracy: Callable[[int], float],
    model: dict[str, Any],
    seed: int = 0,
    lr: float = 0.001,
    protocol: dict[str, Any] | None = None,
    loss: float = 0.1,
    validation: float = 0.5,
) -> dict[str, Any]:
    """Return the result of a run on task `at` of the lock; accuracy is by length."""
    task = CONTENT["tasks"][at]
    settings = task["settings"]
    tests = [
        {
            "length": length,
            "split": "further",
            "metric": "accuracy",
            "value": accuracy(length),
            "n": n,
            "which": "last",
            "kind": "test",
        }
        for length, n in sorted(tests_of(task).items())
    ]
    looks = [
        {"length": 40, "split": "train_length", "metric": metric, "value": value, "n": 1024}
        for metric, value in (("loss", loss), ("accuracy", validation))
    ]
    return {
        "schema": 1,
        "task": settings["task.name"],
        "task_title": task["label"],
        "model": model["name"],
        "protocol": "suite_v1",
        "seed": seed,
        "data_seed": seed,
        "config": {
            "seed": seed,
            "task": nested(settings, "task."),
            "model": {"layers": task["layers"], **model},
            "protocol": nested(settings, "protocol.") | (protocol or {}),
            "optim": nested(settings, "optim.") | {"lr": lr},
        },
        "versions": {"task": 1, "protocol": 1, "model": 1},
        "status": "finished",
        "steps": 5000,
        "stopped": "budget",
        "train_seconds": 60.0,
        "parameters": 1000,
        "state_size": 64,
        "device": "cpu",
        "dtype": "float32",
        "mode": "sequential",
        "threads": 1,
        "data": task["strings"],
        "checkpoints": {"last": 5000, "id": 4500},
        "perfect_look": None,
        "evaluations": [*tests, *(look | {"which": "id", "kind": "look"} for look in looks)],
        "baselines": [
            {"baseline": "majority", "length": length, "value": CHANCE, "n": 10_000}
            for length in tests_of(task)
        ],
        "guessing": [],
        "horizon": {},
    }


def searched(run: Path, **changes: Any) -> Path:
    """Write what the search of a run's last checkpoint found: by default nothing, all of it."""
    file = run / "certificates" / "last.json"
    file.parent.mkdir(exist_ok=True)
    extent = declared("suite_v1").search
    assert extent is not None
    asked = dict(zip(EXTENT, extent, strict=True))
    record = {"complete_to": 9, "seconds_allowed": None, "out_of_time": []} | asked | changes
    content = {"format": "lrbench-certificate", "verdict": "open", "which": "last", "step": 5000}
    file.write_text(json.dumps(content | {"searched": record}))
    return run


@pytest.fixture
def enter(tmp_path: Path) -> Callable[..., Path]:
    """Write a run of a suite where it belongs; return its folder."""

    def write(at: int, accuracy: Callable[[int], float], model: Any, **changes: Any) -> Path:
        content = suite_result(at, accuracy, model, **changes)
        print_of = f"{abs(hash(json.dumps(content['config'] | {'seed': 0}))):012x}"[:12]
        content["fingerprint"] = print_of
        names = (content["task"], model["name"], "suite_v1", print_of, f"s{content['seed']}")
        folder = tmp_path / "runs" / Path(*names)
        folder.mkdir(parents=True)
        (folder.parent / "config.json").write_text(json.dumps(content["config"]))
        (folder / "result.json").write_text(json.dumps(content))
        return folder if "protocol" in changes else searched(folder)

    return write
