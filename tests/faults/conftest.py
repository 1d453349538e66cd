"""A laboratory for real programs and real faults, and a run that never met any."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SMALL = [  # every rule believes another look: best 10, band 40, id 50, last 60
    *("task=sum", "seed=2", "optim.lr=0.1"),
    *("model=blockdiag", "model.width=16", "model.mixer.block_size=4", "model.mixer.hidden=8"),
    *("protocol.train_length=4", "protocol.test_lengths=[6]", "protocol.further_lengths=[]"),
    *("protocol.band=[5,5]", "protocol.batch_size=4", "protocol.test_size=10"),
    *("protocol.validation_size=16", "protocol.look_size=16"),
    *("protocol.max_steps=60", "protocol.look_every=10", "protocol.stop=never"),
]


@dataclass
class Program:
    """A running or finished `lrbench`."""

    lab: Laboratory
    pid: int
    out_file: Path
    err_file: Path

    def wait(self, seconds: float = 60) -> int:
        """Return the exit code; a negative one is the signal it died of."""
        code = self.lab.ask(wait=self.pid, seconds=seconds)
        assert code is not None, f"still running after {seconds} s:\n{self.err}"
        return int(code)

    @property
    def out(self) -> str:
        return self.out_file.read_text()

    @property
    def err(self) -> str:
        return self.err_file.read_text()


class Laboratory:
    """Starts programs by forking a process that has imported everything already."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.folder, self.started = folder, 0
        self.zygote = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.zygote"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(root)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.zygote.stdout is not None
        assert self.zygote.stdout.readline() == "ready\n"

    def ask(self, **request: Any) -> Any:
        assert self.zygote.stdin is not None
        assert self.zygote.stdout is not None
        print(json.dumps(request), file=self.zygote.stdin, flush=True)
        return json.loads(self.zygote.stdout.readline())

    def start(self, *argv: str, sabotage: list[Any] | None = None) -> Program:
        """Start `lrbench ARGV` with faults `[name, {argument: value}]` from sabotage.py."""
        self.started += 1
        out, err = (self.folder / f"{self.started}.{end}" for end in ("out", "err"))
        out.touch()
        err.touch()
        request = {"argv": argv, "out": str(out), "err": str(err), "sabotage": sabotage or []}
        pid = self.ask(**request)
        return Program(self, pid, out, err)

    def train(self, folder: Path, *arguments: str, sabotage: list[Any] | None = None) -> Program:
        """Start the small run with its results below `folder`; later words override it."""
        arguments = ("train", *SMALL, f"output_dir={folder}", "device=cpu", *arguments)
        return self.start(*arguments, sabotage=sabotage)

    def close(self) -> None:
        assert self.zygote.stdin is not None
        assert self.zygote.stdout is not None
        self.zygote.stdin.close()
        self.zygote.wait()
        self.zygote.stdout.close()


@pytest.fixture(scope="session")
def lab(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laboratory]:
    """Yield the laboratory."""
    laboratory = Laboratory(root, tmp_path_factory.mktemp("programs"))
    yield laboratory
    laboratory.close()


@dataclass(frozen=True)
class Reference:
    """The small run as it goes when nothing happens: its folder and what it told."""

    folder: Path
    out: str
    events: list[str]


@pytest.fixture(scope="session")
def reference(lab: Laboratory, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    """Train the small run, undisturbed, and count what happens in it.

    It is trained before, too: keeping the loops that it compiles is no part of later runs.
    """
    assert lab.train(tmp_path_factory.mktemp("compiling")).wait() == 0
    folder = tmp_path_factory.mktemp("reference")
    log = folder / "events"
    program = lab.train(folder, sabotage=[["count_events", {"log": str(log)}]])
    assert program.wait() == 0, program.err
    return Reference(run_folder(folder), program.out, log.read_text().splitlines())


def run_folder(folder: Path, name: str = "s2") -> Path:
    """Return the one run folder of this name below an output folder."""
    (found,) = folder.glob(f"*/*/*/*/{name}")
    return found


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], None]:
    """Return a function that waits for a condition."""

    def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.01)

    return wait


KILLED = -signal.SIGKILL
