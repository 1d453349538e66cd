"""Made-up runs of a small table, and the table published from them."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lrbench import tables
from lrbench.publish.publication import publish
from lrbench.publish.rebuild import rebuild
from lrbench.tables import TableCell, TableSpec
from tests.cli.conftest import lrbench, without_torch
from tests.report.conftest import make_result, run_folder

__all__ = ["lrbench", "without_torch"]  # fixtures

TOY = TableSpec(
    name="toy",
    title="A toy [table]",
    cells=tuple(
        TableCell((f"task={task}", f"model={model}", "trials=3", "protocol.stop=never"))
        for model in ("blockdiag", "s4")
        for task in ("sum", "even_pair")
    ),
    source="a paper, Table 2",
    columns=("sum", "even_pair"),
)
PROTOCOL = {"name": "fan2024", "train_length": 40, "max_steps": 10_000, "look_every": 1000}
ENVIRONMENT = {
    "lrbench": "0.1.0",
    "commit": "0123456789abcdef0123",
    "dirty": False,
    "python": "3.11.7",
    "torch": "2.13.0+cpu",
    "cpu": "A processor",
    "cores": 2,
    "devices": [],
    "threads": 1,
    "command": ["lrbench", "train", "output_dir=/home/someone/runs"],
    "date": "2026-03-04T05:06:07+00:00",
}
Write = Callable[..., Path]


def write_run(runs: Path, accuracy: float = 1.0, stop: str = "never", **changes: Any) -> Path:
    """Write a finished run where it belongs, with what lrbench leaves beside its result."""
    named = f"{changes.get('task', 'sum')} {changes.get('model', 'blockdiag')}"
    changes.setdefault("fingerprint", hashlib.sha256(named.encode()).hexdigest()[:12])
    content = make_result(accuracy=accuracy, **changes)
    content["config"]["protocol"] |= PROTOCOL | {"stop": stop}
    content["config"] |= {"output_dir": "outputs", "tuning_runs": 4}
    config = content["config"] | {"output_dir": "/home/someone/runs"}
    folder = run_folder(runs, content)
    (folder.parent / "config.json").write_text(json.dumps(config))
    (folder.parent / "environment.json").write_text(json.dumps(ENVIRONMENT))
    (folder / "result.json").write_text(json.dumps(content))
    lines = [json.dumps({"step": 1000, "loss": 0.5}), *map(json.dumps, looks_of(content))]
    (folder / "metrics.jsonl").write_text("\n".join([*lines, '{"step": 2000, "lo']))
    (folder / "checkpoints").mkdir(exist_ok=True)
    (folder / "checkpoints" / "best.pt").write_bytes(b"weights")
    (folder / "run.log").write_text("/home/someone says")
    return folder


def keep_proof(folder: Path, **changes: Any) -> Path:
    """Prove a network of parity for every length, and return the certificate in a run's folder."""
    from tests.certificates.certificate import Certificate  # needs torch, which pages do not

    (folder / "certificates").mkdir(exist_ok=True)
    mine = Certificate(folder / "certificates", "parity", 2)
    mine.claim |= {"step": 2000} | changes
    mine.checked()  # writes it
    return mine.file


def looks_of(result: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines of the looks that a result believed."""
    rows = [row for row in result["evaluations"] if row["kind"] == "look"]
    steps = sorted({result["checkpoints"][row["which"]] for row in rows})
    shared = {"test_length": 500, "test_accuracy": 0.5, "test_n": 128, "seconds": 1.5}
    return [{"step": step, "look": {"step": step, **shared}} for step in steps]


def write_all(runs: Path) -> None:
    """Three cells of four: blockdiag solves one task, and has one of three runs of the other."""
    for seed in range(3):
        write_run(runs, task="sum", seed=seed, accuracy=1.0)
        write_run(runs, task="sum", model="s4", seed=seed, accuracy=0.6 + seed / 100)
    write_run(runs, task="even_pair", accuracy=0.95)
    write_run(runs, task="even_pair", model="lstm")  # in no cell


@pytest.fixture(scope="session")
def toy_table() -> Iterator[None]:
    """Make the table known."""
    tables.register_table(TOY)
    yield
    del tables._REGISTERED["toy"]


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, toy_table: None) -> Path:
    """A folder with `runs`, and `results` published from them; made once."""
    folder = tmp_path_factory.mktemp("publish")
    write_all(folder / "runs")
    publish(TOY, folder / "runs", folder / "results")
    rebuild(folder / "results")
    return folder


@pytest.fixture
def runs(finished: Path, tmp_path: Path) -> Path:
    """A copy of the runs, to change."""
    return Path(shutil.copytree(finished / "runs", tmp_path / "runs"))


@pytest.fixture
def results(finished: Path, tmp_path: Path) -> Path:
    """A copy of the published table, to change."""
    return Path(shutil.copytree(finished / "results", tmp_path / "results"))


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
