"""`lrbench data fetch`: files of a task, from a mirror on this machine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.tasks.corpus.downloads import Download
from lrbench.tasks.series import mnist
from tests import made_up_mnist

Run = Callable[..., Any]


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with made-up files; lrbench is told that these are the ones it wants."""
    folder = made_up_mnist.write(tmp_path / "mirror", compressed=True) / "mnist"
    files = tuple(
        Download(path.name, len(path.read_bytes()), hashlib.sha256(path.read_bytes()).hexdigest())
        for path in sorted(folder.iterdir())
    )
    assert {file.name for file in files} == {file.name for file in mnist.FILES}
    monkeypatch.setattr(mnist, "FILES", files)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LRBENCH_DATA", raising=False)
    return folder


def test_what_was_fetched_is_what_the_task_reads(lrbench: Run, mirror: Path) -> None:
    assert "lrbench data fetch psmnist" in lrbench("show", "task=psmnist").err
    ended = lrbench("data", "fetch", "psmnist", "--mirror", mirror.as_uri())
    assert (ended.code, ended.out) == (0, "data/mnist: 4 files, 4 new, each with its sha256\n")
    assert ended.err.count("bytes)") == 4
    shown = lrbench("show", "task=psmnist", "length=5", "count=1")
    assert shown.code == 0 and "answer" in shown.out
    again = lrbench("data", "fetch", "psmnist", "--mirror", "http://127.0.0.1:9")
    assert (again.code, again.out) == (0, "data/mnist: 4 files, 0 new, each with its sha256\n")


def test_another_folder(lrbench: Run, mirror: Path, tmp_path: Path) -> None:
    ended = lrbench("data", "fetch", "psmnist", "--mirror", mirror.as_uri(), "--folder", "here")
    assert ended.code == 0
    assert len(list((tmp_path / "here").iterdir())) == 4


def test_failures_are_reported_in_a_few_lines(lrbench: Run, mirror: Path, tmp_path: Path) -> None:
    ended = lrbench("data", "fetch", "psmnist", "--mirror", "file:///nowhere")
    assert (ended.code, ended.out) == (1, "")
    assert "could not be downloaded" in ended.err and "Traceback" not in ended.err
    ended = lrbench("data", "fetch", "psmnst")
    assert ended.code == 2 and "Did you mean 'psmnist'?" in ended.err


def test_the_real_files_are_named_with_their_hashes() -> None:
    assert len(mnist.FILES) == 4
    assert all(len(bytes.fromhex(file.sha256)) == 32 for file in mnist.FILES)
    assert all(mirror.startswith("https://") for mirror in mnist.MIRRORS)
