"""SIGTERM and Ctrl-C stop a run where it can go on: exit code 130, a way forward, the same bits."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .bits import content, differences
from .conftest import SMALL, Laboratory, Reference, run_folder

TERM, INT = int(signal.SIGTERM), int(signal.SIGINT)


def sends(numbers: list[int]) -> dict[str, object]:
    return {"name": "send", "numbers": numbers}


@pytest.mark.parametrize(
    ("fault", "reported"),
    [
        (["act_at", {"step": 33, **sends([TERM])}], "SIGTERM: stopped at update 33"),
        (
            ["act_at", {"step": 40, **sends([INT])}],
            "SIGINT: stopped during a look; the same command goes on from update 30",
        ),
        (["act_at", {"step": 33, **sends([INT, INT])}], "interrupted"),
        (
            ["act_when", {"phase": "look", **sends([TERM])}],
            "SIGTERM: stopped during a look; the same command goes on from",
        ),
        (["act_when", {"phase": "checkpoint", **sends([INT, INT])}], "interrupted"),
        (["act_when", {"phase": "examination", **sends([INT])}], "SIGINT: stopped during an exam"),
    ],
)
def test_a_stopped_run_says_how_to_go_on_and_ends_with_the_same_bits(
    fault: list[object], reported: str, lab: Laboratory, reference: Reference, tmp_path: Path
) -> None:
    stopped = lab.train(tmp_path, sabotage=[fault])

    assert stopped.wait() == 130
    last_line = stopped.err.splitlines()[-1]
    assert last_line.startswith(f"lrbench: {reported}")
    assert "the same command goes on" in last_line
    assert "Traceback" not in stopped.err
    assert not (run_folder(tmp_path) / "failure.json").exists()

    assert lab.train(tmp_path).wait() == 0
    assert not differences(content(run_folder(tmp_path)), content(reference.folder))


def test_a_stop_loses_no_update_of_any_trial(lab: Laboratory, tmp_path: Path) -> None:
    fault = ["act_at", {"step": 33, **sends([TERM])}]

    assert lab.train(tmp_path, "trials=2", sabotage=[fault]).wait() == 130
    resumed = lab.train(tmp_path, "trials=2", "protocol.max_steps=60")

    assert resumed.wait() == 0
    assert "seed 2: going on from update 33" in resumed.err
    assert "seed 3: going on from update 33" in resumed.err


def test_a_stopped_evaluation_writes_nothing(
    lab: Laboratory, reference: Reference, tmp_path: Path
) -> None:
    folder = tmp_path / "s2"
    shutil.copytree(reference.folder, folder)
    fault = ["act_when", {"phase": "evaluation", **sends([TERM])}]

    program = lab.start("evaluate", str(folder), "--lengths", "7", sabotage=[fault])

    assert program.wait() == 130
    assert program.err == "lrbench: SIGTERM: stopped before the end; no score was kept\n"
    assert not (folder / "evaluations").exists()


def test_a_program_started_by_hand_stops_with_130(tmp_path: Path) -> None:
    """By Ctrl-C; a fresh program gets SIGTERM in end_to_end/test_launchers.py."""
    command = [sys.executable, "-m", "lrbench", "train", *SMALL, f"output_dir={tmp_path}"]
    command += ["protocol.max_steps=100000", "device=cpu"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as program:
        deadline = time.monotonic() + 60
        while not list(tmp_path.rglob("step-*.pt")):
            assert program.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        program.send_signal(signal.SIGINT)
        assert program.stderr is not None
        lines = program.stderr.read().splitlines()
    assert program.returncode == 130
    assert lines[-1].startswith("lrbench: SIGINT: stopped ")
    assert not list(tmp_path.rglob("lease.json"))


def test_ctrl_c_while_starting_has_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "lrbench", "train", *SMALL]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as program:
        assert program.stderr is not None
        for line in program.stderr:  # with importtime one sees how far it has come
            if "torch._" in line:
                break
        program.send_signal(signal.SIGINT)
        rest = program.stderr.read()
    assert program.returncode == 130
    assert "Traceback" not in rest
