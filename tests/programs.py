"""Programs of their own that start at once: forked from a process that has imported everything.

Each is `lrbench WORDS` in a folder and an environment, as a user starts it: with streams, signals
and an exit code of its own. What an import does to a fresh program is not seen here: tests of that
(help, the list of a plugin's tasks, the wheel, launchers) start one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Program:
    """A running or finished `lrbench`."""

    server: Server
    pid: int
    out_file: Path
    err_file: Path

    def wait(self, seconds: float = 60) -> int:
        """Return the exit code; a negative one is the signal it died of."""
        code = self.server.ask(wait=self.pid, seconds=seconds)
        assert code is not None, f"still running after {seconds} s:\n{self.err}"
        return int(code)

    @property
    def out(self) -> str:
        return self.out_file.read_text()

    @property
    def err(self) -> str:
        return self.err_file.read_text()


@cache
def zygote() -> subprocess.Popen[str]:
    """Return the process that all programs are forked from, started when it is first asked for."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.zygote"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "LRBENCH_PLUGINS": ""},  # a test's own
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


class Server:
    """Starts programs by forking a process that has imported everything already."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.started = folder, 0

    def ask(self, **request: Any) -> Any:
        process = zygote()
        assert process.stdin is not None
        assert process.stdout is not None
        print(json.dumps(request), file=process.stdin, flush=True)
        return json.loads(process.stdout.readline())

    def start(
        self,
        *argv: str,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        sabotage: list[Any] | None = None,
    ) -> Program:
        """Start `lrbench ARGV` with faults `[name, {argument: value}]` from faults/sabotage.py."""
        self.started += 1
        out, err = (self.folder / f"{self.started}.{end}" for end in ("out", "err"))
        out.touch()
        err.touch()
        pid = self.ask(
            argv=argv,
            cwd=str(cwd or Path.cwd()),
            env=dict(os.environ if env is None else env),
            out=str(out),
            err=str(err),
            sabotage=sabotage or [],
        )
        return Program(self, pid, out, err)


_servers: list[tuple[Server, tempfile.TemporaryDirectory[str]]] = []


def server() -> Server:
    """Return the one server of this process, made when it is first asked for."""
    if not _servers:
        folder = tempfile.TemporaryDirectory(prefix="programs-")
        _servers.append((Server(Path(folder.name)), folder))
    return _servers[0][0]


def close() -> None:
    """End what programs are forked from; `conftest.py` does so after the last test."""
    if zygote.cache_info().currsize:
        process = zygote()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        process.wait()
        process.stdout.close()
        zygote.cache_clear()
    while _servers:
        _servers.pop()[1].cleanup()


def lrbench(
    *argv: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Run `lrbench ARGV` to its end; one that takes longer than `timeout` is killed."""
    program = server().start(*argv, cwd=cwd, env=env)
    try:
        code = program.wait(timeout)
    except AssertionError:
        os.kill(program.pid, signal.SIGKILL)
        raise
    return subprocess.CompletedProcess(["lrbench", *argv], code, program.out, program.err)
