"""Seeds that share one set of weights, and models that are not as large as is told."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from lrbench.bundles.check import weights
from lrbench.bundles.check.findings import BAD, GOOD, OPEN
from lrbench.bundles.check.verify import Options, open_bundle, verify
from lrbench.bundles.choice import TableChoice
from lrbench.bundles.pack import tables
from lrbench.training.trial import model_for
from tests.bundles.conftest import one

Bundle = Callable[..., Path]


def told(path: Path) -> dict[str, tuple[str, str]]:
    findings, _ = verify(open_bundle(path), Options(strings=20, device="cpu"))
    return {finding.what: (finding.status, finding.text) for finding in findings}


def one_for_both(files: dict[str, bytes]) -> None:
    """Give the second seed what the first one trained, score for score."""
    first = one(files, "s0/checkpoints/best.pt")
    state = torch.load(io.BytesIO(files[first]), weights_only=True) | {"seed": 1}
    kept, results = io.BytesIO(), [one(files, f"{seed}/result.json") for seed in ("s0", "s1")]
    mine, other = (json.loads(files[name]) for name in results)
    other |= {"evaluations": mine["evaluations"], "checkpoints": mine["checkpoints"]}
    torch.save(state, kept)
    files[first.replace("s0", "s1")] = kept.getvalue()
    files[results[1]] = json.dumps(other).encode()
    files |= tables(files, TableChoice())


def test_one_set_of_weights_is_not_two_runs(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert told(bundle())["weights"] == (GOOD, "2 runs, each with its own")
    path = bundle(one_for_both)
    found = told(path)
    assert found["scores"][0] == GOOD, "nothing else is wrong with it"
    assert found["weights"][0] == BAD and "/s1 has the weights of sum/" in found["weights"][1]
    # weights that no seed draws may well come out alike
    monkeypatch.setattr(weights, "model_for", lambda config, task, seed: model_for(config, task, 0))
    status, text = told(path)["weights"]
    assert status == OPEN and text.endswith("/s0; both begin training with the same ones")


@pytest.mark.parametrize(("name", "value"), [("parameters", 7), ("state_size", None)])
def test_a_model_is_as_large_as_is_told(name: str, value: Any, bundle: Bundle) -> None:
    assert told(bundle())["models"] == (GOOD, "of 2 runs as large as is told")

    def change(files: dict[str, bytes]) -> None:
        result = one(files, "s1/result.json")
        files[result] = json.dumps(json.loads(files[result]) | {name: value}).encode()
        files |= tables(files, TableChoice())

    status, text = told(bundle(change))["models"]
    assert status == BAD and f"s1: {name} {value} is told, and its model has " in text
