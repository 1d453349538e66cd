"""Every launcher for real: equal numbers, one run a device, detached, requeued by SLURM."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from lrbench.report.runs.collect import collect

pytest.importorskip("hydra_plugins.hydra_submitit_launcher", reason="needs the extra 'slurm'")

TINY = [
    *("model.width=8", "model.mixer.block_size=4", "model.mixer.hidden=8"),
    *("model.backbone.noise=0", "optim.warmup=0", "optim.label_smoothing=0"),
    *("optim.schedule=constant", "protocol.train_length=6", "protocol.test_lengths=[9]"),
    *("protocol.further_lengths=[12]", "protocol.band=[7,8]", "protocol.batch_size=8"),
    *("protocol.look_every=10", "protocol.look_size=8", "protocol.validation_size=16"),
    *("protocol.test_size=20", "protocol.stop=never", "threads=1", "device=cpu"),
    "protocol.certify=never",  # what it imports takes longer than the training
]
GRID = ["task=sum,even_pair", "seed=0,1", "protocol.max_steps=20", *TINY]
LONG = [*TINY, "task=sum", "protocol.max_steps=200000", "protocol.look_every=1000"]
LOCAL, SLURM = "hydra/launcher=submitit_local", "hydra/launcher=submitit_slurm"
TIMES = {"folder", "train_seconds", "perfect_seconds", "date"}

SEEN = '''
import os, time
from dataclasses import dataclass

import torch
from lrbench import register_mixer
from lrbench.mixers.block_diagonal.blockdiag import BlockDiagConfig, BlockDiagonalMixer


@dataclass
class SeenConfig(BlockDiagConfig):
    pass


@register_mixer("seen", SeenConfig)
class Seen(BlockDiagonalMixer):
    """Writes down which device it was given, by whom and when."""

    def coefficients(self, u):
        if torch.is_grad_enabled():
            device = os.environ.get("CUDA_VISIBLE_DEVICES")
            with open("seen.log", "a") as log:
                log.write(f"{device} {os.getpid()} {time.monotonic()}\\n")
        return super().coefficients(u)
'''


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Sweep]]:
    """Return a function that starts `lrbench sweep` in a process group of its own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    started: list[Sweep] = []

    def begin(*arguments: str) -> Sweep:
        command = [sys.executable, "-m", "lrbench", "sweep", *arguments]
        pipe = subprocess.PIPE
        started.append(
            subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)
        )
        return started[-1]

    yield begin
    for one in started:
        if one.poll() is None:
            os.killpg(one.pid, signal.SIGKILL)
            one.communicate()


Sweep = subprocess.Popen[str]


@pytest.fixture
def without_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave all to torch: each program and job would import numba, for a second."""
    monkeypatch.setenv("LRBENCH_COMPILED", "0")


@pytest.fixture
def slurm() -> Iterator[None]:
    """Skip without a SLURM that runs; take what a test left out of the queue.

    LRBENCH_SLURM says that there is one: then a test fails without.
    """
    if shutil.which("sinfo") is None:
        without("is not installed")
    deadline = time.monotonic() + 60  # it may be at the end of another test's jobs
    while not ready():
        if time.monotonic() > deadline:
            without("has no node that takes jobs")
        time.sleep(1)
    before = jobs()
    yield
    if left := sorted(jobs() - before):
        subprocess.run(["scancel", *left], check=True)


def without(why: str) -> NoReturn:
    """Skip a test, or fail it where SLURM was promised."""
    if os.environ.get("LRBENCH_SLURM"):
        pytest.fail(f"SLURM was started, and {why}")
    pytest.skip(f"SLURM {why}; `make slurm-test` starts one on Debian, as root")


def ready() -> bool:
    """Tell whether SLURM answers and has a node that takes jobs."""
    try:
        up = subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, text=True, timeout=20)
    except subprocess.TimeoutExpired:
        return False
    if up.returncode:
        without("is not up")
    return bool({"idle", "mixed", "allocated"} & set(up.stdout.split()))


def jobs() -> set[str]:
    command = ["squeue", "--noheader", "--array", "--format=%i", "--name=lrbench"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def done(process: Sweep, seconds: float = 300) -> tuple[str, str]:
    out, err = process.communicate(timeout=seconds)
    assert process.returncode == 0, err
    return out, err


def eventually(condition: Callable[[], object], seconds: float = 200) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.1)


def found(folder: str, name: str) -> list[Path]:
    return sorted(Path(folder).rglob(name))


def logged_updates() -> list[int]:
    """Return the updates that the run in out/ has told, but for a line that is being written."""
    lines = [line for log in found("out", "metrics.jsonl") for line in log.read_text().split("\n")]
    return [json.loads(line)["step"] for line in lines[:-1]]


def rows(folder: str) -> str:
    """Return the rows of runs.csv without times."""
    frame = collect(Path(folder)).frame
    assert len(frame)
    return str(frame.drop(columns=[name for name in TIMES if name in frame]).to_dict("records"))


@pytest.mark.usefixtures("without_loops")
def test_submitit_gives_the_numbers_of_the_basic_launcher(start) -> None:
    """So does joblib: test_sweep.py."""
    done(start(*GRID, "seed=0", "output_dir=basic"))
    done(start(*GRID, "seed=0", LOCAL, "output_dir=submitit"))
    assert rows("basic") == rows("submitit")
    assert {path.name for path in Path.cwd().iterdir() if path.is_dir()} >= {"basic", "submitit"}
    assert not Path(".submitit").exists()
    assert found("submitit/.submitit", "*_submitted.pkl")


@pytest.mark.usefixtures("without_loops")
@pytest.mark.parametrize("launcher", [[], [LOCAL]], ids=["joblib", "submitit"])
def test_each_device_has_one_run_at_a_time(
    start, launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("seen.py").write_text(SEEN)
    monkeypatch.setenv("LRBENCH_PLUGINS", "seen")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,7")
    done(
        start("model=seen", "seed=0,1,2", "protocol.max_steps=30", *TINY, *launcher, "devices=0,1")
    )
    spans: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for line in Path("seen.log").read_text().splitlines():
        device, pid, when = line.split()
        spans[device][pid].append(float(when))
    assert set(spans) == {"4", "7"}
    for by_process in spans.values():
        ordered = sorted((min(times), max(times)) for times in by_process.values())
        assert all(a[1] < b[0] for a, b in itertools.pairwise(ordered))


@pytest.mark.usefixtures("without_loops")
def test_local_jobs_keep_a_checkpoint_when_the_sweep_is_interrupted(start) -> None:
    sweep = start(*LONG, LOCAL, "seed=0", "output_dir=out")
    eventually(lambda: logged_updates()[-1:] > [1000])  # beyond a look, which keeps one anyway
    os.kill(sweep.pid, signal.SIGINT)
    _, err = sweep.communicate(timeout=100)
    assert sweep.returncode == 130, err
    assert "the same command goes on" in err
    kept = max(int(path.stem[5:]) for path in found("out", "step-*.pt"))
    assert kept >= logged_updates()[-1]  # it may have been asked to stop during a look


@pytest.mark.usefixtures("without_loops")
def test_detached_it_outlives_its_terminal(start) -> None:
    sweep = start(*LONG, LOCAL, "seed=0", "output_dir=out", "--detach")
    _, err = done(sweep)
    pid = int(err.split("process ")[1].partition(";")[0])
    try:
        eventually(lambda: found("out", "step-*.pt"))
        with pytest.raises(ProcessLookupError):
            os.killpg(sweep.pid, 0)  # nothing of it is in the group of the terminal
    finally:
        os.kill(pid, signal.SIGTERM)
    log = found("out/.sweeps", "*.log")[0]
    eventually(lambda: "the same command goes on" in log.read_text())


def test_slurm_gives_the_numbers_of_the_basic_launcher(start, slurm) -> None:
    done(start(*GRID, "output_dir=basic"))
    _, err = done(start(*GRID, SLURM, "output_dir=slurm", "--detach"))
    assert err.count("SLURM job") == 4
    done(start(*GRID, SLURM, "output_dir=slurm"))
    assert rows("basic") == rows("slurm")
    assert len({path.name for path in found("slurm/.submitit", "*_submitted.pkl")}) == 4


def test_a_preempted_slurm_job_keeps_a_checkpoint_and_goes_on_from_it(start, slurm) -> None:
    arguments = ["task=sum", "seed=0", *TINY, "protocol.max_steps=3000", "protocol.look_every=1000"]
    done(start(*arguments, "output_dir=basic"))
    before = jobs()
    sweep = start(*arguments, SLURM, "output_dir=slurm")
    eventually(lambda: any(path.stat().st_size for path in found("slurm", "metrics.jsonl")))
    (job,) = jobs() - before
    subprocess.run(["scancel", "--signal=USR2", job], check=True)
    soon = ["scontrol", "update", f"jobid={job}", "starttime=now"]  # SLURM lets it wait 2 minutes
    eventually(lambda: "PENDING" in state(job))
    subprocess.run(soon, check=True)
    done(sweep)
    log = found("slurm", "run.log")[0].read_text()
    step = int(log.partition("went on from step-")[2].partition(".pt")[0])
    assert step % 1000, "it went on from a look, not from where the signal came"
    assert rows("basic") == rows("slurm")


def state(job: str) -> str:
    command = ["squeue", "--noheader", "--format=%T", f"--jobs={job}"]
    return subprocess.run(command, capture_output=True, text=True).stdout
