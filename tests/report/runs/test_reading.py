"""Folders read by several processes: what one process reads, whatever becomes of the others."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.report.runs import reading
from lrbench.report.runs.files import run_folders
from lrbench.report.runs.finding import find_runs
from lrbench.report.runs.reading import Read, read_folder, read_folders
from tests.report.conftest import evaluation, make_result, run_folder

Write = Callable[..., Path]


@pytest.fixture
def every_kind(runs: Path, write: Write, fail: Write, write_splits: Write) -> Path:
    """Runs that ended, failed, are under way or damaged, one of a protocol that is not known."""
    for seed in range(4):
        write(seed=seed, accuracy=seed / 4)
    for seed in (4, 5):
        fail(seed=seed, error="out of memory")
        fail(seed=seed, fingerprint="b" * 12)
    write_splits({"dev": 0.5})
    write(seed=6, protocol="of_a_plugin", data={"40": {"n": 1}})
    more = write(seed=7) / "evaluations"
    more.mkdir()
    rows = [evaluation(1999, "further", 0.4)]
    (more / "1.json").write_text(json.dumps({"schema": 1, "evaluations": rows}))
    (write(seed=8) / "result.json").write_text("{")
    (runs / "sum/blockdiag/fan2024" / ("b" * 12) / "config.json").write_text("[]")
    settings = {"task": {"name": "sum"}, "model": {"name": "lstm"}, "protocol": {"name": "fan2024"}}
    going = run_folder(runs, make_result(model="lstm", seed=9))
    (going.parent / "config.json").write_text(json.dumps(settings))
    (going / "metrics.jsonl").write_text('{"step": 400, "loss": 1.0, "seconds": 1.5}\n{"st')
    run_folder(runs, make_result(model="lstm", seed=10)).joinpath("run.log").write_text("")
    return runs


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The processes that are started meanwhile, on a machine of four cores."""
    begun = []

    class Noted(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **named: Any) -> None:
            super().__init__(*args, **named)
            begun.append(self)

    monkeypatch.setattr(reading.subprocess, "Popen", Noted)
    monkeypatch.setattr(reading, "available_cores", lambda: 4)
    return begun


def read(root: Path, share: int) -> list[Read]:
    return list(read_folders(root, list(run_folders(root, [])), share))


def test_processes_say_what_one_would(
    every_kind: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = read(every_kind, share=100)
    assert started == []
    assert [len(one.problems) for one in alone].count(1) == 3
    assert sum(one.record is not None for one in alone) == 11
    assert sum(one.under_way is not None for one in alone) == 1
    here = []

    def noted(root: Path, folder: Path, names: set[str]) -> Read:
        here.append(folder)
        return read_folder(root, folder, names)

    monkeypatch.setattr(reading, "read_folder", noted)
    assert read(every_kind, share=1) == alone
    assert [one.returncode for one in started] == [0, 0, 0]
    # The first share, larger by a folder, and the run whose protocol may be a plug-in's.
    first = len(alone) - 3 * ((len(alone) - 1) // 4)
    assert len(here) == first + 1
    assert [_protocol(folder) for folder in here].index("of_a_plugin") == first


def _protocol(folder: Path) -> str:
    return folder.parents[1].name


@pytest.mark.parametrize(
    "program",
    [
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
        "import sys; sys.stdout.write('half an answ'); sys.exit(1)",
        "raise OSError(28, 'No space left on device')",
    ],
)
def test_what_a_process_does_not_say_is_read_here(
    every_kind: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    alone = read(every_kind, share=100)
    monkeypatch.setattr(reading, "PROGRAM", program)
    assert read(every_kind, share=3) == alone
    assert len(started) == 3
    assert 0 not in [one.returncode for one in started]


def test_no_process_can_be_started(
    every_kind: Path, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = read(every_kind, share=100)
    monkeypatch.setattr(sys, "executable", str(every_kind / "python"))
    assert read(every_kind, share=3) == alone
    assert started == []


def test_who_stops_reading_leaves_no_process(every_kind: Path, started: list[Any]) -> None:
    answers = read_folders(every_kind, list(run_folders(every_kind, [])), share=1)
    next(answers)
    answers.close()
    assert len(started) == 3
    assert None not in [one.returncode for one in started]


def test_a_fault_of_a_shared_file_is_named_once(every_kind: Path) -> None:
    named = [path.name for path, _ in find_runs(every_kind).problems]
    assert sorted(named) == ["config.json", "result.json"]
