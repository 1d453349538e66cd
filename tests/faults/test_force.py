"""force=true keeps the old result until the new one is whole, wherever it is killed."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from .bits import content, differences
from .conftest import KILLED, Laboratory, Reference, run_folder


@pytest.fixture
def finished(reference: Reference, tmp_path: Path) -> Path:
    """A finished run with a file of its own, which goes when the run is replaced."""
    shutil.copytree(reference.folder.parents[4], tmp_path / "runs")
    folder = run_folder(tmp_path / "runs")
    (folder / "old").touch()
    return folder


def beside(folder: Path) -> list[str]:
    """Return the visible names in the cell's folder but those of files."""
    return sorted(p.name for p in folder.parent.iterdir() if p.is_dir() and p.name[0] != ".")


def test_a_forced_run_replaces_the_old_one(
    finished: Path, lab: Laboratory, reference: Reference
) -> None:
    program = lab.train(finished.parents[4], "force=true")

    assert program.wait() == 0
    assert not (finished / "old").exists()
    assert beside(finished) == ["s2"]
    assert not differences(content(finished), content(reference.folder))


def test_a_forced_run_killed_half_way_keeps_the_old_result_and_goes_on(
    finished: Path, lab: Laboratory, reference: Reference
) -> None:
    before = (finished / "result.json").read_bytes()
    kill = {"step": 33, "name": "send", "numbers": [int(signal.SIGKILL)]}
    killed = lab.train(finished.parents[4], "force=true", sabotage=[["act_at", kill]])
    assert killed.wait() == KILLED
    assert (finished / "result.json").read_bytes() == before

    plain = lab.train(finished.parents[4])
    assert plain.wait() == 0
    assert "already finished" in plain.err
    assert (finished / "result.json").read_bytes() == before

    forced = lab.train(finished.parents[4], "force=true")
    assert forced.wait() == 0
    assert "going on from update 30" in forced.err
    assert not (finished / "old").exists()
    assert beside(finished) == ["s2"]
    assert not differences(content(finished), content(reference.folder))


@pytest.fixture(scope="session")
def rehearsal(
    reference: Reference, lab: Laboratory, tmp_path_factory: pytest.TempPathFactory
) -> list[str]:
    """What happens when a finished run is replaced by one that has only to be examined."""
    top = tmp_path_factory.mktemp("rehearsal")
    shutil.copytree(reference.folder.parents[4], top / "runs")
    nearly_replace(run_folder(top / "runs"))
    count = [["count_events", {"log": str(top / "events")}]]
    assert lab.train(top / "runs", "force=true", sabotage=count).wait() == 0
    return (top / "events").read_text().splitlines()


def nearly_replace(folder: Path) -> None:
    """Put beside a finished run a forced one that has only to be examined."""
    new = folder.with_name("s2.new")
    shutil.copytree(folder, new)
    (new / "result.json").unlink()
    (new / "old").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("what", "occurrence", "again", "replaced"),
    [
        ("result: half a file", 0, "force=false", False),
        ("result: half a file", 0, "force=true", True),
        ("result: after replace", 0, "force=true", True),
        ("swap: before rename", 0, "force=false", True),
        ("swap: after rename", 0, "force=false", True),
        ("swap: after rename", 0, "force=true", True),
        ("swap: after rename", 1, "force=false", True),
        ("swap: after unlink", 3, "force=true", True),
    ],
)
def test_a_crash_while_replacing_is_mended(
    what: str,
    occurrence: int,
    again: str,
    replaced: bool,
    finished: Path,
    rehearsal: list[str],
    lab: Laboratory,
    reference: Reference,
) -> None:
    instant = [i for i, event in enumerate(rehearsal) if event == what][occurrence]
    nearly_replace(finished)
    kill = [["count_events", {"kill_at": instant}]]
    assert lab.train(finished.parents[4], "force=true", sabotage=kill).wait() == KILLED

    program = lab.train(finished.parents[4], again)

    assert program.wait() == 0, program.err
    assert "update 10/60" not in program.err
    assert (finished / "old").exists() == (not replaced)
    assert beside(finished) == (["s2"] if replaced else ["s2", "s2.new"])
    assert not differences(content(finished), content(reference.folder))
