"""Run folders made up for the report: nothing here was trained."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.made_up_results import REFERENCE as SPLIT_REFERENCE
from tests.made_up_results import make_split_result

Result = dict[str, Any]
RUNS = {  # task: title, training length, test length
    "sum": ("sum (mod 5)", 40, 500),
    "even_pair": ("even_pair (mod 5)", 40, 500),
    "mod_arith": ("mod_arith (mod 5)", 39, 499),
    "group": ("Word problem", 40, 500),
}
FURTHER = 997
REFERENCE = """\
paper,table,task,split,model,metric,value,spread,unit,aggregation
Fan2024-LRNN (x),Table 1,Sum(5),train,,sequence_length,40,,tokens,fixed
Fan2024-LRNN (x),Table 2,Sum(5),extrapolation length 500,S4,accuracy (final),0.11,,fraction,mean
Fan2024-LRNN (x),Table 2,Sum(5),extrapolation length 500,Ours (block-diagonal LRNN),\
accuracy (final),0.90,,fraction,mean
"""


def evaluation(
    length: int, split: str, value: float | None, which: str = "best", kind: str = "test"
) -> Result:
    n = 128 if kind == "look" else 10_000 if split != "further" else 1_000
    return {
        "length": length,
        "split": split,
        "metric": "accuracy",
        "value": value,
        "n": n,
        "which": which,
        "kind": kind,
        "seconds": 0.5,
    }


def scored(which: str, train: int, test: int, accuracy: float) -> list[Result]:
    return [
        evaluation(train, "train_length", 1.0, which),
        evaluation(test, "test", accuracy, which),
        evaluation(FURTHER, "further", accuracy / 2, which),
        evaluation(test, "test", accuracy, which, "look"),
    ]


def make_result(
    task: str = "sum",
    model: str = "blockdiag",
    seed: int = 0,
    fingerprint: str = "a" * 12,
    accuracy: float = 1.0,
    lr: float = 1e-4,
    **changes: Any,
) -> Result:
    title, train, test = RUNS[task]
    rules = ["best", "id", "band", "last"]
    result: Result = {
        "schema": 1,
        "task": task,
        "task_title": title,
        "model": model,
        "protocol": "fan2024",
        "seed": seed,
        "data_seed": seed,
        "fingerprint": fingerprint,
        "config": {
            "seed": seed,
            "task": {"name": task, "modulus": 5},
            "model": {
                "name": model,
                "layers": 1,
                "width": 64,
                "mixer": {"block_size": 8, "blocks": None},
            },
            "protocol": {"test_lengths": [test, FURTHER]},
            "optim": {"lr": lr},
        },
        "versions": {"torch": "2.13.0"},
        "status": "finished",
        "steps": 2000,
        "stopped": "perfect" if accuracy == 1.0 else "budget",
        "train_seconds": 34.1,
        "parameters": 50885,
        "state_size": 64,
        "device": "cpu",
        "dtype": "float32",
        "mode": "sequential",
        "threads": 1,
        "checkpoints": {"best": 2000, "id": 1500, "band": 1000, "last": 2000},
        "perfect_look": {"step": 2000, "seconds": 34.0} if accuracy == 1.0 else None,
        "evaluations": [row for rule in rules for row in scored(rule, train, test, accuracy)],
        "baselines": [
            {"baseline": "uniform", "length": test, "value": 0.2, "n": 10_000},
            {"baseline": "majority", "length": test, "value": 0.204, "n": 10_000},
        ],
        "guessing": [{"rule": "best", "length": test, "value": 0.279, "looks": 40, "strings": 128}],
        "horizon": {
            rule: {
                "lower": 500,
                "upper": 997,
                "text": "500 < h <= 997",
                "dtype": "float32",
                "mode": "sequential",
                "float64": {"length": 997, "value": 0.93, "n": 1000, "verdict": "rule"},
            }
            for rule in ("best", "last")
        },
    }
    return result | changes


def run_folder(runs: Path, result: Result) -> Path:
    names = [result[name] for name in ("task", "model", "protocol", "fingerprint")]
    folder = runs.joinpath(*names, f"s{result['seed']}")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def result() -> Callable[..., Result]:
    """Make the content of a result.json; keywords change it."""
    return make_result


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """An empty folder of runs."""
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


@pytest.fixture
def write(runs: Path) -> Callable[..., Path]:
    """Write a finished run (see `result`) where it belongs, and return its folder."""

    def write_run(**changes: Any) -> Path:
        content = make_result(**changes)
        folder = run_folder(runs, content)
        (folder.parent / "config.json").write_text(json.dumps(content["config"]))
        (folder / "result.json").write_text(json.dumps(content))
        return folder

    return write_run


@pytest.fixture
def fail(runs: Path) -> Callable[..., Path]:
    """Write a failed run where it belongs, and return its folder."""

    def write_failure(error: str = "out of memory", **changes: Any) -> Path:
        content = make_result(**changes)
        folder = run_folder(runs, content)
        (folder.parent / "config.json").write_text(json.dumps(content["config"]))
        failure = {
            "schema": 1,
            "error": error,
            "type": "ValueError",
            "traceback": "Traceback ...",
            "step": 17,
            "when": "2026-01-01T00:00:00+00:00",
        }
        (folder / "failure.json").write_text(json.dumps(failure))
        return folder

    return write_failure


@pytest.fixture
def references(tmp_path: Path) -> Path:
    """A reference table with made-up values, so that no test depends on where the real one is."""
    folder = tmp_path / "reference"
    folder.mkdir()
    (folder / "table2.csv").write_text(REFERENCE)
    return folder


@pytest.fixture
def write_splits(runs: Path) -> Callable[..., Path]:
    """Write a finished run over a corpus where it belongs, and return its folder."""

    def write_run(scores: Mapping[str, float], **changes: Any) -> Path:
        content = make_split_result(scores, **changes)
        names = [content[name] for name in ("task", "model", "protocol", "fingerprint")]
        folder = runs.joinpath(*names, f"s{content['seed']}")
        folder.mkdir(parents=True)
        (folder.parent / "config.json").write_text(json.dumps(content["config"]))
        (folder / "result.json").write_text(json.dumps(content))
        return folder

    return write_run


@pytest.fixture
def three(write_splits: Callable[..., Path]) -> Callable[..., None]:
    """Write three runs of a cell, a thousandth apart."""

    def write_runs(scores: Mapping[str, float], **changes: Any) -> None:
        for seed in range(3):
            shifted = {split: value + (seed - 1) / 1000 for split, value in scores.items()}
            write_splits(shifted, seed=seed, **changes)

    return write_runs


@pytest.fixture
def printed(tmp_path: Path) -> Path:
    """Reference tables with made-up values."""
    folder = tmp_path / "printed"
    folder.mkdir()
    (folder / "rir.csv").write_text(SPLIT_REFERENCE)
    return folder
