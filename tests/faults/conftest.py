"""A laboratory for real programs and real faults, and a run that never met any."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.programs import Program, Server

SMALL = [  # rules believe different looks; which ones depends on the processor
    *("task=sum", "seed=2", "optim.lr=0.1"),
    *("model=blockdiag", "model.width=16", "model.mixer.block_size=4", "model.mixer.hidden=8"),
    *("protocol.train_length=4", "protocol.test_lengths=[6]", "protocol.further_lengths=[]"),
    *("protocol.band=[5,5]", "protocol.batch_size=4", "protocol.test_size=10"),
    *("protocol.validation_size=16", "protocol.look_size=16"),
    *("protocol.max_steps=60", "protocol.look_every=10", "protocol.stop=never"),
]


class Laboratory(Server):
    """A server of programs that train the small run."""

    def train(self, folder: Path, *arguments: str, sabotage: list[Any] | None = None) -> Program:
        """Start the small run with its results below `folder`; later words override it."""
        arguments = ("train", *SMALL, f"output_dir={folder}", "device=cpu", *arguments)
        return self.start(*arguments, sabotage=sabotage)

    def start(self, *argv: str, cwd: Path | None = None, **settings: Any) -> Program:
        """Start `lrbench ARGV` in the laboratory's own folder unless told otherwise."""
        return super().start(*argv, cwd=cwd or self.folder, **settings)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Laboratory:
    """Return the laboratory."""
    return Laboratory(tmp_path_factory.mktemp("programs"))


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
