"""A protocol in a file of the user's, that of docs/protocols.md: trained, resumed, reported."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests import programs

Run = Callable[..., subprocess.CompletedProcess[str]]

SMALL = (
    "task=sum",
    "model=lru",
    "model.width=8",
    "protocol=turns",
    "protocol.train_length=6",
    "protocol.test_lengths=[9]",
    "protocol.further_lengths=[12]",
    "protocol.band=[7,8]",
    "protocol.batch_size=8",
    "protocol.max_steps=9",
    "protocol.look_every=3",
    "protocol.validation_size=16",
    "protocol.test_size=20",
    "device=cpu",
)
DIES = """

import os
import signal

real = TurnsTrial.batch


def batch(self, step):
    if os.environ.get("DIE_AT") == str(step):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(self, step)


TurnsTrial.batch = batch
"""
TABLE = """
title: two lengths by turns
protocol: turns
rule: id
columns: [sum]
common: [{common}]
cells:
  - overrides: [task=sum, model=lru]
"""


@pytest.fixture
def lrbench(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return the program, run in a folder that holds turns.py."""
    example = re.search(
        r"^```python\n(.*?)^```", (root / "docs/protocols.md").read_text(), re.M | re.S
    )
    assert example
    (tmp_path / "turns.py").write_text(example[1] + DIES)
    monkeypatch.setenv("LRBENCH_PLUGINS", "turns")

    return programs.lrbench


def folder(base: Path) -> Path:
    (found,) = base.glob("sum/lru/turns/*/s0")
    return found


def result(base: Path) -> dict[str, Any]:
    reported: dict[str, Any] = json.loads((folder(base) / "result.json").read_text())
    return reported


def weights(base: Path) -> dict[str, torch.Tensor]:
    state = torch.load(folder(base) / "checkpoints" / "last.pt", weights_only=True)
    model: dict[str, torch.Tensor] = state["model"]
    return model


def test_a_killed_run_ends_as_one_never_stopped(
    lrbench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = lrbench("train", *SMALL, "output_dir=whole")
    assert done.returncode == 0, done.stderr
    assert "turns" in done.stdout
    monkeypatch.setenv("DIE_AT", "8")
    assert lrbench("train", *SMALL, "output_dir=killed").returncode == -9
    monkeypatch.delenv("DIE_AT")
    resumed = lrbench("train", *SMALL, "output_dir=killed")
    assert resumed.returncode == 0, resumed.stderr
    assert "going on from update 6" in resumed.stderr
    whole, killed = (weights(tmp_path / name) for name in ("whole", "killed"))
    assert all(torch.equal(whole[name], killed[name]) for name in whole)
    message = result(tmp_path / "killed")
    assert message["evaluations"][0] == result(tmp_path / "whole")["evaluations"][0]
    assert message["protocol"] == "turns" and message["versions"]["protocol"] == 1
    assert list(message["versions"]["plugins"]) == ["turns"]
    assert list(message["checkpoints"]) == ["id", "last"]


def test_its_runs_are_swept_evaluated_and_reported(lrbench: Run, tmp_path: Path) -> None:
    common = ", ".join(f'"{argument}"' for argument in SMALL[2:])
    (tmp_path / "turns.yaml").write_text(TABLE.format(common=common))
    swept = lrbench("sweep", "--table", "turns.yaml", "output_dir=swept")
    assert swept.returncode == 0, swept.stdout + swept.stderr
    scored = lrbench(
        "evaluate", str(folder(tmp_path / "swept")), "--which", "id", "--lengths", "15"
    )
    assert scored.returncode == 0 and "15" in scored.stdout, scored.stderr
    source = tmp_path / "turns.py"
    text = source.read_text()
    source.write_text(text + "# edited\n")
    edited = lrbench("evaluate", str(folder(tmp_path / "swept")), "--which", "id")
    assert edited.returncode == 1 and "the source of plugin 'turns' was changed" in edited.stderr
    source.write_text(text)
    refused = lrbench("evaluate", str(folder(tmp_path / "swept")), "--which", "best")
    assert refused.returncode == 2 and "known: id, last" in refused.stderr
    tested = next(
        row["value"]
        for row in result(tmp_path / "swept")["evaluations"]
        if (row["kind"], row["split"], row["which"]) == ("test", "test", "id")
    )
    for arguments in (
        [],
        ["--table", "turns.yaml"],
        ["--rows", "lru", "--columns", "sum"],  # by the first rule that it declares
        ["--rows", "lru", "--columns", "sum", "--rule", "id"],
    ):
        message = lrbench("report", "--runs", "swept", *arguments)
        assert message.returncode == 0, message.stderr
        assert f"{tested:.4f}" in message.stdout
    printed = lrbench("report", "--runs", "swept").stdout
    titles = next(line for line in printed.splitlines() if line.startswith("| task"))
    assert [title.strip() for title in titles.strip("|").split("|")][8:13] == [
        *("train: id", "test: id", "test: last", "id look", "chance")
    ]
    assert "band" not in printed and "best look" not in printed


def test_another_setting_is_another_cell_and_a_wrong_one_is_refused(
    lrbench: Run, tmp_path: Path
) -> None:
    for length in (3, 4):
        arguments = (*SMALL, f"protocol.short_length={length}", "output_dir=two")
        assert lrbench("train", *arguments).returncode == 0
    assert len(list((tmp_path / "two").glob("sum/lru/turns/*/s0/result.json"))) == 2
    for argument, message in (
        ("protocol.short_length=x", "protocol.short_length must be a whole number"),
        ("protocol.shrt_length=3", "protocol.short_length"),
        ("protocol.name=fan2024", "protocol.name must be one of turns"),
        ("task=listops", "task listops is not trained by protocol turns"),
    ):
        done = lrbench("train", *SMALL, argument)
        assert done.returncode == 1 and message in done.stderr, done.stderr
