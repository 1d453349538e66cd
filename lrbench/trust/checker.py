"""The parent's side of the child process in which kernels are tried.

A kernel may end its process, and compiling it may never end: so it is never tried in the process
that trains. One child serves all checks of a process, since what takes time is importing torch; it
goes when it is idle or its parent is gone. A check that takes longer than LIMIT ends the child by a
signal, which not even native code holds up.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from lrbench.trust.outcomes import Kernel, TrustOutcome

ROOT = Path(__file__).parents[2]
LIMIT = 300  # seconds; numba takes some twenty for its largest loop on a core of its own
ANSWERED = "answer"  # what a line of the child must have

_children: dict[int, subprocess.Popen[str]] = {}  # by process: a forked one needs its own


NO_PROCESS = "no process to check it in"
ENDED = "its process ended: "
PASSING = (NO_PROCESS, f"{ENDED}SIGKILL", f"{ENDED}SIGTERM")  # no fault of the kernel


def check(kernel: Kernel, limit: int = 0) -> TrustOutcome:
    """Try a kernel in a child process, for at most `limit` seconds (0: LIMIT)."""
    began, limit = time.perf_counter(), limit or LIMIT
    try:
        reason = _ask({**asdict(kernel), "limit": limit})
    except OSError as error:
        reason = f"{NO_PROCESS}: {error}"
    return TrustOutcome(kernel, reason, time.perf_counter() - began)


def stop() -> None:
    """End the child of this process, if there is one."""
    child = _children.pop(os.getpid(), None)
    if child is None:
        return
    child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):  # a request that nobody read
                pipe.close()


def _ask(request: dict[str, object]) -> str:
    """Return why a kernel is not to be trusted; nothing if it is."""
    limit = int(str(request["limit"]))
    while True:
        child, began = _child(), time.monotonic()
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(json.dumps(request) + "\n")
            child.stdin.flush()
            line = child.stdout.readline()
        except BrokenPipeError:
            line = ""
        except (
            BaseException
        ):  # interrupted: its answer would be taken for that to the next question
            stop()
            raise
        if line:
            return str(json.loads(line)[ANSWERED])
        code = child.wait()
        stop()
        if code == 0:  # it had left, after a fault on a GPU, before it was asked
            continue
        if code != -signal.SIGALRM:
            ended = signal.Signals(-code).name if code < 0 else f"exit code {code}"
            return f"{ENDED}{ended}"
        if time.monotonic() - began >= limit:  # sooner it was idle, and left as it was asked
            return f"it took more than {limit} s"


def _child() -> subprocess.Popen[str]:
    child = _children.get(os.getpid())
    if child is not None and child.poll() is None:
        return child
    stop()
    path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), str(ROOT)]))
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "lrbench.trust.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    _children[os.getpid()] = child
    return child


atexit.register(stop)
