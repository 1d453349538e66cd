"""A full disk ends a run in a few lines, spoils nothing, and is forgotten once there is room."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lrbench.runs.folder import checkpoints

from .bits import content, differences
from .conftest import Laboratory, Program, Reference, run_folder

SIZE = 2**21


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 2 MiB where that is allowed; a test that needs it is skipped else."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip(f"may not mount: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(folder: Path, leave: int) -> Path:
    """Write a file that leaves about `leave` bytes free."""
    ballast = folder / "ballast"
    with open(ballast, "wb", buffering=0) as out:
        try:
            while out.write(bytes(4096)) == 4096:
                pass
        except OSError:
            out.truncate(out.tell() // 4096 * 4096 - leave)
    return ballast


def complaint(program: Program) -> list[str]:
    """Return what a failed program told after its progress."""
    assert program.wait() == 1
    assert "Traceback" not in program.err
    lines = program.err.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("lrbench: "))
    return lines[start:]


@pytest.mark.parametrize("files", [1, 4, 6])
def test_a_disk_that_fills_up_costs_no_checkpoint(
    files: int, small_disk: Path, lab: Laboratory, reference: Reference
) -> None:
    """Room for a number of files of a checkpoint's size."""
    size = (reference.folder / "checkpoints" / "best.pt").stat().st_size
    ballast = fill(small_disk, files * (size // 4096 + 1) * 4096)

    lines = complaint(lab.train(small_disk / "runs"))

    assert len(lines) <= 6
    assert "No space left on device" in "\n".join(lines)
    folder = run_folder(small_disk / "runs")
    steps = checkpoints.steps(folder / "checkpoints")
    assert all(checkpoints.load(path)["seed"] == 2 for path in steps)
    assert not list(folder.rglob("*.tmp"))
    assert not (folder / "result.json").exists()

    ballast.unlink()
    assert lab.train(small_disk / "runs").wait() == 0
    assert not differences(content(folder), content(reference.folder))
    assert not (folder / "failure.json").exists()


def test_a_disk_that_is_full_from_the_start(small_disk: Path, lab: Laboratory) -> None:
    fill(small_disk, 0)

    lines = complaint(lab.train(small_disk / "runs"))

    assert len(lines) <= 6
    assert "No space left on device" in "\n".join(lines)


def test_a_limit_on_file_sizes(lab: Laboratory, reference: Reference, tmp_path: Path) -> None:
    """The same where nothing may be mounted: no file grows beyond 3 kB after update 25."""
    limit = {"step": 25, "name": "limit_file_size", "size": 3000}

    lines = complaint(lab.train(tmp_path, sabotage=[["act_at", limit]]))

    assert len(lines) <= 6
    assert "File too large" in lines[0]
    folder = run_folder(tmp_path)
    newest = checkpoints.steps(folder / "checkpoints")[-1]
    assert newest.name == "step-00000020.pt"
    assert lab.train(tmp_path).wait() == 0
    assert not differences(content(folder), content(reference.folder))
