"""`lrbench status`: a table of cells and lines of runs, and the same as JSON."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


def test_the_table_and_json(lrbench: Run, without_torch: Run, tmp_path: Path) -> None:
    cell = tmp_path / "outputs" / "sum" / "lru" / "fan2024" / "0123456789ab"
    for seed, name, content in (
        (0, "result", {"status": "finished"}),
        (1, "failure", {"error": "ValueError: no [way]"}),
    ):
        (cell / f"s{seed}").mkdir(parents=True)
        (cell / f"s{seed}" / f"{name}.json").write_text(json.dumps(content))
    named = {key: {"name": name} for key, name in (("task", "sum"), ("model", "lru"))}
    (cell / "config.json").write_text(json.dumps({**named, "protocol": {"name": "fan2024"}}))
    ended = lrbench("status")
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert lines[0].split() == ["finished", "failed"]
    assert lines[1].split() == ["sum", "·", "lru", "·", "fan2024", "·", "0123456789ab", "1", "1"]
    assert lines[2].startswith("failed: sum · lru · seed 1 · ValueError: no [way] · ")
    assert lines[3] == "2 runs: 1 finished, 1 failed"
    assert lrbench("status", "--watch").out == ended.out  # nothing runs, so there is no second look
    said = json.loads(lrbench("status", "outputs", "--json").out)["runs"]
    assert [(one["seed"], one["state"]) for one in said] == [(0, "finished"), (1, "failed")]
    assert lrbench("status", "--runs", "outputs").out == ended.out
    assert lrbench("status", "outputs", "--runs", "outputs").code == 2
    assert lrbench("status", "--json", "--watch").code == 2
    assert lrbench("status", "nowhere").code == 1
    assert without_torch([["status", "outputs"]]) == ([0], ended.out)
    (cell / "s1" / "failure.json").write_text("{}")  # its reason was 'None'
    assert " · seed 1 · outputs/sum" in lrbench("status").out


def test_folders_that_may_not_be_read_are_named(
    lrbench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system's refusal is made up: root may read everything."""
    cell = tmp_path / "outputs" / "sum" / "lru" / "fan2024" / "0123456789ab"
    for seed in (0, 1):
        (cell / f"s{seed}").mkdir(parents=True)
        (cell / f"s{seed}" / "result.json").write_text('{"status": "finished"}')
    named = {key: {"name": name} for key, name in (("task", "sum"), ("model", "lru"))}
    (cell / "config.json").write_text(json.dumps({**named, "protocol": {"name": "fan2024"}}))
    scan, closed = os.scandir, cell

    def refusing(path: str) -> object:
        if Path(path).absolute() == closed:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)
    for closed, said in ((cell / "s1", "2 runs: 2 finished"), (cell, "no run found")):
        ended = lrbench("status")
        assert ended.code == 0 and ended.out.splitlines()[-1] == said
        told = f"the folder '{closed.relative_to(tmp_path)}' cannot be read (permission denied)"
        assert ended.err == f"{told}: some runs may be missing\n"
