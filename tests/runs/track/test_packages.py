"""Each tracker for real, where its package is installed: what it kept is what the files say."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lrbench.config import Config
from lrbench.runs.track.export import export_runs
from lrbench.runs.train.job import run_cell
from tests.runs.track.readers import Curves, expected, of_tensorboard, of_trackio, of_wandb

Tiny = Callable[..., Config]
pytestmark = pytest.mark.filterwarnings("default")  # packages of others, in whatever version


def read(name: str, folder: Path, database: Path) -> Curves:
    if name == "tensorboard":
        return of_tensorboard(folder)
    return of_wandb(folder) if name == "wandb" else of_trackio(database)


def agree(found: Curves, wanted: Curves) -> None:
    assert found.keys() == wanted.keys()
    for name, points in wanted.items():
        assert [step for step, _ in found[name]] == [step for step, _ in points]
        values = [value for _, value in found[name]]
        assert values == pytest.approx([value for _, value in points], rel=1e-6)  # float32


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "trackio"])
def test_tracked_resumed_and_exported(
    name: str, tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(name, reason=f"{name} is not installed: the extra {name}")
    monkeypatch.setenv("WANDB_MODE", "offline")
    if name == "trackio":
        import trackio.utils

        for module in (trackio, trackio.utils, trackio.sqlite_storage):
            monkeypatch.setattr(module, "TRACKIO_DIR", tmp_path / "trackio", raising=False)
    database = tmp_path / "trackio" / "lrbench.db"
    [outcome] = run_cell(tiny(track=name))
    agree(read(name, outcome.folder, database), expected(outcome.folder))
    # the result is gone: the last checkpoint is examined again, and told again
    (outcome.folder / "result.json").unlink()
    [outcome] = run_cell(tiny(track=name))
    agree(read(name, outcome.folder, database), expected(outcome.folder))
    export_runs([outcome.folder.parent], name, afresh=False, tell=print)
    agree(read(name, outcome.folder, database), expected(outcome.folder))
    # a run that was never tracked
    kept = shutil.copytree(outcome.folder, tmp_path / "elsewhere" / "s0")
    shutil.copy(outcome.folder.parent / "config.json", kept.parent)
    for path in (kept / "wandb", kept / "tensorboard"):
        shutil.rmtree(path, ignore_errors=True)
    (kept / "tracked.json").unlink(missing_ok=True)
    if name != "trackio":
        export_runs([kept], name, afresh=False, tell=print)
        agree(read(name, kept, database), expected(kept))
