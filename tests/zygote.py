"""A process that has imported everything and forks programs on request: start-up costs nothing.

It never trains itself (torch forbids a fork after a backward pass). A request is a line of JSON,
`{"argv", "cwd", "env", "out", "err", "sabotage"}` or `{"wait": pid, "seconds"}`; so is the answer.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
import traceback
from contextlib import redirect_stdout
from importlib import import_module
from io import StringIO
from typing import Any, NoReturn

import torch
from numba.core.registry import cpu_target

from lrbench.cli.hydra.compose import composed
from lrbench.registry import BACKBONES, ENCODERS, MIXERS, TASKS

IMPORTED_LATE = (
    *("hydra", "pandas", "scipy.stats", "numba", "torch.profiler", "torch.utils.serialization"),
    *("lrbench.cli.commands.run.train", "lrbench.cli.commands.run.sweep", "lrbench.runs.train.job"),
    *("lrbench.cli.guard", "lrbench.certificates.foretold", "lrbench.certificates.witness"),
    *("lrbench.cli.commands.look.report", "lrbench.kernels.lanes", "lrbench.kernels.cross_entropy"),
    *("lrbench.protocols.fan2024.procedure", "lrbench.protocols.fan2024.trial"),
    *("lrbench.protocols.rir2023.procedure", "lrbench.protocols.rir2023.trial"),
    *("lrbench.runs.evaluate.certify", "lrbench.runs.evaluate.ending", "lrbench.training.scoring"),
    *("lrbench.runs.evaluate.evaluation", "lrbench.runs.evaluate.kept", "lrbench.tasks.baselines"),
    *("lrbench.bundles.check.verify", "lrbench.bundles.pack", "lrbench.certificates.check"),
    *("lrbench.contract.run", "lrbench.sweeps.plan.report", "lrbench.sweeps.tune.study"),
    *("lrbench.report.output.summary", "lrbench.report.paper", "lrbench.report.suite"),
)
USED = (
    (TASKS, ("sum", "listops")),
    (MIXERS, ("blockdiag",)),
    (BACKBONES, ("lrnn_release",)),
    (ENCODERS, ("bbt_grc",)),
)
USUAL = ("task=sum", "model=blockdiag", "seed=1", "output_dir=nowhere", "device=cpu")


def main() -> None:
    """Serve requests until stdin ends."""
    torch.set_num_threads(1)
    for module in IMPORTED_LATE:
        import_module(module)
    for registry, names in USED:
        for name in names:
            registry.get(name)
    with redirect_stdout(StringIO()):  # which imports what typer and Hydra do at their first words
        sys.argv = ["lrbench", "train", *USUAL, "--cfg", "job"]
        assert run() == 0
        composed(USUAL)
    cpu_target.target_context.refresh()  # numba's own
    gc.collect()
    gc.freeze()  # a child's collector would read all of it, and so copy it
    statuses: dict[int, int] = {}
    print("ready", flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer: Any = wait(request["wait"], request["seconds"], statuses)
        else:
            answer = os.fork() or child(request)
            statuses.pop(answer, None)  # of another that had this number
        print(json.dumps(answer), flush=True)


def wait(pid: int, seconds: float, statuses: dict[int, int]) -> int | None:
    """Return a child's exit code (negative: the signal it died of), None if it goes on."""
    deadline = time.monotonic() + seconds
    while pid not in statuses:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            statuses[pid] = os.waitstatus_to_exitcode(status)
        elif time.monotonic() > deadline:
            return None
        else:
            time.sleep(0.01)
    return statuses[pid]


def child(request: dict[str, Any]) -> NoReturn:
    """Run `lrbench ARGV` to its end, as a fresh program would."""
    code = 99
    try:
        for path, descriptor in ((os.devnull, 0), (request["out"], 1), (request["err"], 2)):
            opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
            os.dup2(opened, descriptor)
            os.close(opened)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        move(request["cwd"], request["env"])
        for name, arguments in request["sabotage"]:
            getattr(import_module("tests.faults.sabotage"), name)(**arguments)
        sys.argv = ["lrbench", *request["argv"]]
        code = run()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def move(folder: str, environment: dict[str, str]) -> None:
    """Stand where a fresh program would: in a folder, an environment, on a path of modules."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    named = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:1] = [folder, *(entry for entry in named if entry not in sys.path)]


def run() -> int:
    from lrbench.cli import main as program

    try:
        program()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


if __name__ == "__main__":
    main()
