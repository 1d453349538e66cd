"""What is said to SLURM, by programs of its names that write down how they were called."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lrbench.sweeps.launch.slurm import cancel_waiting


def test_only_jobs_that_are_named_are_taken_out_of_the_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`scancel --state=PENDING` alone takes away whatever its user has waiting."""
    said = tmp_path / "said"
    (tmp_path / "scancel").write_text(f'#!/bin/sh\necho "$@" >> {said}\n')
    (tmp_path / "scancel").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    cancel_waiting(iter(()))
    assert not said.exists()
    cancel_waiting(job for job in ("12_0", "12_1"))
    assert said.read_text() == "--state=PENDING 12_0 12_1\n"
