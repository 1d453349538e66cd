"""What can go wrong inside a program under test: each function arranges one fault, before main."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lrbench.protocols.fan2024 import examination, trial
from lrbench.protocols.fan2024.procedure import Fan2024Procedure
from lrbench.protocols.fan2024.trial import LengthTrial
from lrbench.protocols.rir2023.procedure import Rir2023Procedure
from lrbench.protocols.rir2023.trial import EpochTrial
from lrbench.registry import TASKS
from lrbench.runs.folder import files
from lrbench.runs.folder.run import Run
from lrbench.runs.lease import Lease
from lrbench.runs.train import job
from lrbench.tables import TableCell, TableSpec, register_table
from lrbench.training.group import members
from lrbench.training.trial import Trial

PHASES = {  # where a program is: the innermost of these functions that runs
    "start": [(job, "_claim"), (Run, "restore"), (job.Cell, "open")],
    "look": [(LengthTrial, "look"), (EpochTrial, "look")],
    "checkpoint": [(Run, "save")],
    "examination": [
        (kind, name)
        for kind in (Fan2024Procedure, Rir2023Procedure)
        for name in ("examine", "levels")
    ],
    "result": [(Run, "finish")],
    "swap": [(Run, "_swap")],
    "evaluation": [(Fan2024Procedure, "evaluate")],
}


class Events:
    """Counts the instants at which a kill can make a difference; SIGKILL at number `kill_at`."""

    def __init__(self, log: str, kill_at: int | None) -> None:
        self.log, self.kill_at, self.count = log, kill_at, 0
        self.phase = "training"

    def __call__(self, what: str) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # the heartbeat's time is not ours to count
        if self.kill_at is None:
            with open(self.log, "a") as out:
                out.write(f"{self.phase}: {what}\n")
        elif self.count == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.count += 1

    @contextmanager
    def during(self, phase: str) -> Iterator[None]:
        before, self.phase = self.phase, phase
        try:
            yield
        finally:
            self.phase = before


def count_events(log: str = "", kill_at: int | None = None) -> None:
    """Die by SIGKILL at an event; without `kill_at`, write every event to `log`."""
    event = Events(log, kill_at)
    for phase, functions in PHASES.items():
        for owner, name in functions:
            _enclose(owner, name, phase, event)
    _around(Trial, "update", event)
    for module in (trial, examination):
        _around(module, "score", event)
    _around(os, "replace", event)
    for owner, name in ((os, "rename"), (os, "unlink"), (os, "fsync"), (os, "mkdir")):
        _around(owner, name, event)
    real_write = os.write

    def write_in_halves(descriptor: int, data: bytes) -> int:
        done = real_write(descriptor, data[: len(data) // 2])
        event("half a line")
        return done + real_write(descriptor, data[len(data) // 2 :])

    os.write = write_in_halves

    def open_in_halves(path: Path, mode: str) -> _Halves:
        return _Halves(open(path, mode), event)

    files.open = open_in_halves  # type: ignore[attr-defined]


def act_at(step: int, name: str, **arguments: Any) -> None:
    """Call another function of this module just before update `step`."""

    def earlier(real: Callable[[Trial], Any]) -> Callable[[Trial], Any]:
        def update(trial: Trial) -> Any:
            if trial.step + 1 == step:
                globals()[name](**arguments)
            return real(trial)

        return update

    Trial.update = earlier(Trial.update)  # type: ignore[method-assign]


def act_when(phase: str, name: str, **arguments: Any) -> None:
    """Call another function of this module when a phase is entered."""
    for owner, function in PHASES[phase]:
        real = getattr(owner, function)

        def patched(*args: Any, real: Callable[..., Any] = real, **kwargs: Any) -> Any:
            globals()[name](**arguments)
            return real(*args, **kwargs)

        setattr(owner, function, patched)


def send(*, numbers: list[int]) -> None:
    """Send signals to this process."""
    for number in numbers:
        os.kill(os.getpid(), number)


def explode(message: str = "boom") -> None:
    """Fail as a bug would."""
    raise ArithmeticError(message)


def hold(until: str) -> None:
    """Stand still until a file exists."""
    Path(f"{until}.reached").touch()
    deadline = time.monotonic() + 60
    while not os.path.exists(until):
        assert time.monotonic() < deadline, f"nobody made {until}"
        time.sleep(0.01)


def limit_file_size(size: int) -> None:
    """Let no file of this process grow beyond `size` bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def lead_session() -> None:
    """Make this process and those that it starts a session, by which they are found."""
    os.setsid()


def die_after(seconds: float) -> None:
    """End this process at a moment of the clock, in the middle of whatever it does.

    The default action of SIGALRM is the kernel's: no handler, no `finally`, nothing flushed.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def fail_write(below: str, number: int = -1, error: int = 0, log: str = "") -> None:
    """Let writing operation `number` below a folder fail once with `error`; count them in `log`.

    Counted are files opened for writing, names made, changed and removed, and what is written or
    synchronised through a descriptor. In other processes nothing fails.
    """
    owner, count = os.getpid(), iter(range(sys.maxsize))

    def operation(path: Any, what: str = "") -> None:
        if os.getpid() != owner or not os.fsdecode(path).startswith(below):
            return
        current = next(count)
        if log:
            with real_open(log, "a") as out:
                out.write(f"{what} {path}\n")
        if current == number:
            raise OSError(error, os.strerror(error), os.fsdecode(path))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str | bytes) and flags & (os.O_WRONLY | os.O_RDWR):
                operation(path)
        elif event in ("os.rename", "os.mkdir", "os.remove"):
            operation(arguments[0], event)

    def of_descriptor(real: Callable[..., Any]) -> Callable[..., Any]:
        def patched(descriptor: int, *arguments: Any) -> Any:
            operation(os.readlink(f"/proc/self/fd/{descriptor}"))
            return real(descriptor, *arguments)

        return patched

    real_open = open
    for name in ("write", "fsync", "ftruncate"):
        setattr(os, name, of_descriptor(getattr(os, name)))
    sys.addaudithook(hook)


def tear_rename(below: str, number: int) -> None:
    """Die in rename `number` below a folder, after what had the new name is gone.

    So it is on a file system that renames by taking away and naming again.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    owner, count = os.getpid(), iter(range(sys.maxsize))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "os.rename" or os.getpid() != owner:
            return
        target = Path(os.fsdecode(arguments[1]))
        if str(target).startswith(below) and next(count) == number:
            if target.is_file():
                target.unlink()
            os.kill(owner, signal.SIGALRM)

    sys.addaudithook(hook)


def clock_jumps(jumps: list[list[float]]) -> None:
    """Put the clock that Python reads forward or back: `[seconds from now, seconds to jump]`."""
    begun, tell = time.monotonic(), time.time

    def wrong() -> float:
        passed = time.monotonic() - begun
        return tell() + sum(by for at, by in jumps if passed >= at)

    time.time = wrong
    time.time_ns = lambda: int(wrong() * 1e9)


NEW_PLACES = 0x20000 | 0x04000000 | 0x20000000  # mounts, host name, process ids: see unshare(2)
NEW_USER, PRIVATE, DIE_WITH_PARENT = 0x10000000, 0x44000, 1
BY_SIGNAL = 200  # added to the number of the signal: no exit code of lrbench is above it


def elsewhere(host: str) -> None:
    """Go on in a child that is on a machine of another name, with process ids of its own."""
    libc = ctypes.CDLL(None, use_errno=True)

    def call(name: str, *arguments: Any) -> None:
        if getattr(libc, name)(*arguments):
            raise OSError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")

    user = os.getuid()
    call("unshare", NEW_PLACES | (NEW_USER if user else 0))
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    if first := os.fork():
        code = os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
        if code > BY_SIGNAL:
            signal.signal(code - BY_SIGNAL, signal.SIG_DFL)
            os.kill(os.getpid(), code - BY_SIGNAL)
        os._exit(code)
    call("prctl", DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    call("mount", b"none", b"/", None, PRIVATE, None)
    call("mount", b"proc", b"/proc", b"proc", 0, None)
    call("sethostname", host.encode(), len(host))
    if second := os.fork():  # the first process of a namespace dies of no signal of its own
        code = os.waitstatus_to_exitcode(os.waitpid(second, 0)[1])
        os._exit(code if code >= 0 else BY_SIGNAL - code)


def confine(folder: str, seconds: int) -> None:
    """Let this process work in `folder`, for a limited time, with files of limited size."""
    os.chdir(folder)
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**27, 2**27))
    resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))


def environment(**values: str) -> None:
    """Set environment variables."""
    os.environ.update(values)


def small_table() -> None:
    """Make known a table whose one cell is the laboratory's small run."""
    from tests.faults.conftest import SMALL

    cell = TableCell(tuple(SMALL))
    register_table(TableSpec("small", "Small", (cell,), "somewhere", columns=("sum",)))


def lease_times(expiry: float, beat: float) -> None:
    """Make leases expire sooner, for the tests' sake."""
    _, _, on_wait, stop, name = Lease.__init__.__defaults__ or ()
    Lease.__init__.__defaults__ = (expiry, beat, on_wait, stop, name)  # type: ignore[misc]


def task_version(name: str, version: int) -> None:
    """Change what a task means."""
    TASKS.get(name).cls.version = version  # type: ignore[attr-defined]


class _Halves:
    """A file that is killed in the middle of a write, in the events' good time."""

    def __init__(self, stream: Any, event: Events) -> None:
        self.stream, self.event = stream, event

    def __enter__(self) -> _Halves:
        return self

    def __exit__(self, *error: Any) -> None:
        self.stream.close()

    def write(self, data: bytes) -> None:
        self.stream.write(data[: len(data) // 2])
        self.stream.flush()
        self.event("half a file")
        self.stream.write(data[len(data) // 2 :])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def _around(owner: Any, name: str, event: Events) -> None:
    real = getattr(owner, name)

    def patched(*args: Any, **kwargs: Any) -> Any:
        event(f"before {name}")
        value = real(*args, **kwargs)
        event(f"after {name}")
        return value

    setattr(owner, name, patched)


def _enclose(owner: Any, name: str, phase: str, event: Events) -> None:
    real = getattr(owner, name)

    def patched(*args: Any, **kwargs: Any) -> Any:
        with event.during(phase):
            return real(*args, **kwargs)

    setattr(owner, name, patched)


def members_at_once() -> None:
    """Let members of a group go to two processes after a few updates, however short the run."""
    members.START_SECONDS = -1e9
    members.available_cores = lambda: 2
