"""Sweeps as programs: through every launcher the same numbers, killed and interrupted, in pairs."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lrbench import machine
from lrbench.report.runs.collect import collect
from tests.programs import Program, lrbench, server

TINY = [
    *("model=blockdiag", "model.width=8", "model.mixer.block_size=4", "model.mixer.hidden=8"),
    *("model.backbone.noise=0", "optim.warmup=0", "optim.label_smoothing=0"),
    *("optim.schedule=constant", "protocol.train_length=6", "protocol.test_lengths=[9]"),
    *("protocol.further_lengths=[12]", "protocol.band=[7,8]", "protocol.batch_size=8"),
    *("protocol.look_every=4", "protocol.look_size=8", "protocol.validation_size=16"),
    *("protocol.test_size=20", "protocol.max_steps=10", "protocol.stop=never", "device=cpu"),
]
GRID = ["task=sum,even_pair", "seed=0,1", *TINY]
LONG = ["protocol.max_steps=20000", "protocol.look_every=100"]
JOBLIB = ["hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
TIMES = {"folder", "train_seconds", "perfect_seconds", "date"}

TROUBLE = '''
import os, signal
import torch
from dataclasses import dataclass

from lrbench import register_mixer
from lrbench.mixers.block_diagonal.blockdiag import BlockDiagConfig, BlockDiagonalMixer


@dataclass
class TroubleConfig(BlockDiagConfig):
    what: str = "none"


@register_mixer("trouble", TroubleConfig)
class Trouble(BlockDiagonalMixer):
    """Makes trouble while it trains."""

    def coefficients(self, u):
        if torch.is_grad_enabled():
            if self.config.what == "raise":
                raise RuntimeError("this is the trouble")
            if self.config.what == "die":
                os.kill(os.getpid(), signal.SIGKILL)
        return super().coefficients(u)
'''


@pytest.fixture
def sweep() -> Iterator[Callable[..., Program]]:
    """Return a function that starts a sweep into a folder; what is left of it is killed."""
    started: list[Program] = []

    def start(folder: str, *arguments: str) -> Program:
        started.append(server().start("sweep", *arguments, f"output_dir={Path(folder).absolute()}"))
        return started[-1]

    yield start
    for one in started:
        if machine.alive(one.pid):
            os.kill(one.pid, signal.SIGKILL)


def family(program: Program) -> dict[int, int | None]:
    """Return a process and its children, with when they started."""
    found = [program.pid]
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == program.pid:
            found.append(int(entry.parent.name))
    return {pid: machine.start_ticks(pid) for pid in found}


def eventually(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.05)


def rows(folder: str) -> list[dict[str, object]]:
    """Return the rows of runs.csv without times."""
    frame = collect(Path(folder)).frame
    return frame.drop(columns=[name for name in TIMES if name in frame]).to_dict("records")


def finished(out: str) -> int:
    """Return the number below "finished" in the table of a sweep of one cell."""
    head, row = (re.split(r"  +", line.strip()) for line in out.splitlines()[:2])
    return int(row[1 + head.index("finished")]) if "finished" in head else 0


def results(folder: str = "out") -> list[Path]:
    return sorted(Path(folder).rglob("result.json"))


def checkpoints(folder: str = "out") -> list[Path]:
    return list(Path(folder).rglob("step-*.pt"))


def same_weights(one: str, other: str) -> bool:
    """Tell whether every run below two folders ended with the same bits."""
    names = [path.relative_to(one) for path in sorted(Path(one).rglob("last.pt"))]
    pairs = [(load(Path(one) / name), load(Path(other) / name)) for name in names]
    return bool(pairs) and all(
        first.keys() == second.keys() and all(first[k].equal(second[k]) for k in first)
        for first, second in pairs
    )


def load(path: Path) -> dict[str, Any]:
    import torch

    weights: dict[str, Any] = torch.load(path, weights_only=True)["model"]
    return weights


def test_basic_and_joblib_give_equal_numbers_and_a_rerun_does_nothing(sweep) -> None:
    few = [*GRID, "seed=0"]  # the last word for a key counts
    basic = sweep("basic", *few)
    assert basic.wait() == 0, basic.err
    reported = [line.partition("]")[0] for line in basic.err.splitlines()]
    assert reported == ["[1/2", "[2/2"]
    assert "finished" in basic.out
    joblib = sweep("joblib", *few, *JOBLIB)
    assert joblib.wait(90) == 0, joblib.err
    assert joblib.err.count("\n") == 2, joblib.err
    assert len(rows("basic")) > 2
    assert str(rows("basic")) == str(rows("joblib"))

    first = {path: path.stat().st_mtime_ns for path in results("joblib")}
    again = sweep("joblib", *few)
    assert again.wait() == 0
    assert "2 of 2 runs are finished" in again.err
    assert "skipped" in again.out
    assert {path: path.stat().st_mtime_ns for path in results("joblib")} == first


def test_one_that_fails_and_one_that_kills_its_worker_stop_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("trouble.py").write_text(TROUBLE)
    monkeypatch.setenv("LRBENCH_PLUGINS", "trouble")
    arguments = [*TINY, "model=trouble", "model.mixer.what=raise,die,none", *JOBLIB]
    ended = lrbench("sweep", *arguments, "output_dir=out", timeout=100)
    assert ended.returncode == 1, ended.stderr
    assert len(results()) == 1
    assert "RuntimeError: this is the trouble" in ended.stdout
    assert "its worker died" in ended.stdout
    assert ended.stderr.count("failed") == 2
    assert "Traceback" not in ended.stdout


def test_killed_as_a_whole_it_goes_on_and_no_worker_survives_its_parent(sweep) -> None:
    grid = ["seed=0,1", *TINY, "protocol.max_steps=240", "protocol.look_every=40"]
    whole = sweep("whole", *grid)
    killed = sweep("out", *grid, *JOBLIB)
    eventually(checkpoints)
    members = family(killed)
    assert len(members) > 2
    os.kill(killed.pid, signal.SIGKILL)
    eventually(lambda: not any(machine.alive(pid, at) for pid, at in members.items()))
    assert len(results()) < 2
    again = sweep("out", *grid)
    assert (again.wait(), whole.wait()) == (0, 0), again.err
    assert str(rows("out")) == str(rows("whole"))
    assert same_weights("whole", "out")


@pytest.mark.parametrize("launcher", [[], JOBLIB], ids=["basic", "joblib"])
def test_asked_to_stop_it_keeps_checkpoints_and_says_how_to_go_on(sweep, launcher) -> None:
    stopped = sweep("out", "seed=0,1", *TINY, *LONG, *launcher)
    eventually(checkpoints)
    os.kill(stopped.pid, signal.SIGINT)
    assert stopped.wait(60) == 130
    assert "the same command goes on" in stopped.err
    assert "Traceback" not in stopped.err
    assert "not done: 2" in stopped.out
    assert not results()
    assert checkpoints()


def test_two_at_once_share_the_work(sweep) -> None:
    grid = ["seed=0,1,2,3", *TINY, "protocol.max_steps=160", "protocol.look_every=80"]
    both = [sweep("out", *grid) for _ in range(2)]
    assert [one.wait() for one in both] == [0, 0], [one.err for one in both]
    assert [json.loads(path.read_text())["steps"] for path in results()] == [160] * 4
    logs = [path.read_text() for path in Path("out").rglob("run.log")]
    assert all(log.count("finished after") == 1 for log in logs)
    assert all("[4/4]" in one.err for one in both)
    assert sum(finished(one.out) for one in both) == 4, [one.out for one in both]
