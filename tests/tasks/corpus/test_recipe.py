"""Making a corpus: what is there stays, what does not belong is refused, a kill leaves no half."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lrbench.errors import UserError
from lrbench.tasks.corpus.recipe import Progress, Recipe, load, make
from lrbench.tasks.corpus.strings import Strings

from .conftest import strings


def toy_rows(split: str, seed: int) -> list[list[int]]:
    return (np.random.default_rng([seed, *split.encode()]).integers(0, 4, (5, 3))).tolist()


def draw(splits: Sequence[str], seed: int, progress: Progress) -> Iterator[tuple[str, Strings]]:
    for split in splits:
        progress(split, 5, 5)
        yield split, strings(toy_rows(split, seed))


def toy(version: int = 1, **settings: Any) -> Recipe:
    views = {"both": ("train", "test")}
    return Recipe("toy", version, ("train", "dev", "test"), lambda split: settings, draw, views)


def run(
    recipe: Recipe, names: Sequence[str] = (), seed: int = 0, force: bool = False
) -> tuple[list[str], list[str]]:
    """Return what was made and what was told."""
    raised: list[str] = []
    return make(recipe, names, seed, force, lambda *shown: None, raised.append), raised


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LRBENCH_DATA", str(tmp_path / "data"))
    return tmp_path / "data" / "toy"


def stamps(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in sorted(folder.glob("*/*"))}


def test_what_is_there_stays(data: Path) -> None:
    assert run(toy(), ["dev"])[0] == ["dev"]
    assert run(toy())[0] == ["train", "test"]
    before = stamps(data)
    assert run(toy()) == ([], [])
    assert stamps(data) == before
    assert run(toy(), force=True)[0] == ["train", "dev", "test"]
    assert stamps(data) != before


def test_loading_joins_views() -> None:
    run(toy(), seed=4)
    train, both = load(toy(), "train"), load(toy(), "both")
    assert train.made == toy().made("train", 4)
    assert both.tokens.reshape(10, 3).tolist() == toy_rows("train", 4) + toy_rows("test", 4)


def test_a_split_that_is_not_there_names_the_command(data: Path) -> None:
    with pytest.raises(UserError, match="lrbench data make toy") as raised:
        load(toy(), "both")
    assert str(data) in str(raised.value) and "'train'" in str(raised.value)
    with pytest.raises(UserError, match=r"'tran' unknown\. Did you mean 'train'"):
        load(toy(), "tran")
    with pytest.raises(UserError, match="known: both, dev, test, train"):
        run(toy(), ["dev", "nothing"])
    assert not data.exists()


def test_the_command_makes_what_is_missing_and_no_more() -> None:
    run(toy(), ["dev"], seed=3)
    with pytest.raises(UserError) as raised:
        load(toy(), "both")
    assert "\nmake it with: lrbench data make toy --splits train,test --seed 3\n" in str(
        raised.value
    )
    run(toy(), ["train", "test"], seed=3)
    assert len(load(toy(), "both")) == 10


@pytest.mark.parametrize(
    ("recipe", "seed", "why"),
    [(toy(), 1, "seed 0, not 1"), (toy(2), 0, "version 1, not 2"), (toy(lengths=3), 0, "lengths")],
)
def test_what_was_made_otherwise_is_not_overwritten_unasked(
    recipe: Recipe, seed: int, why: str, data: Path
) -> None:
    run(toy(), ["train"])
    before = stamps(data)
    with pytest.raises(UserError, match=why) as raised:
        run(recipe, seed=seed)
    assert "--force" in str(raised.value)
    assert stamps(data) == before
    run(recipe, seed=seed, force=True)
    assert load(recipe, "train").made == recipe.made("train", seed)


def test_splits_of_two_seeds_are_never_together(data: Path) -> None:
    run(toy(), ["train"], seed=0)
    with pytest.raises(UserError, match=r"seed 0.*do not belong together"):
        run(toy(), ["test"], seed=1)
    assert not (data / "test").exists()
    with pytest.raises(UserError, match="do not belong together"):
        make_other_seed_by_hand(data)
    run(toy(), seed=1, force=True)
    assert load(toy(), "test").made["seed"] == 1


def make_other_seed_by_hand(data: Path) -> None:
    run(toy(), seed=0)
    os.rename(data, data.with_name("kept"))
    run(toy(), seed=1)
    os.rename(data / "test", data.with_name("kept") / "other")
    (data.with_name("kept") / "test").rename(data / "test")
    load(toy(), "train")


def test_an_older_version_is_reported_when_it_is_loaded() -> None:
    run(toy())
    with pytest.raises(UserError, match="made by version 1 of the corpus, this is 2") as raised:
        load(toy(2), "dev")
    assert "lrbench data make toy --force" in str(raised.value)


@pytest.mark.parametrize("name", ["tokens.npy", "split.json"])
def test_a_damaged_split_is_made_again(name: str, data: Path) -> None:
    run(toy())
    whole = (data / "dev" / name).read_bytes()
    (data / "dev" / name).write_bytes(whole[:-2])
    made, reported = run(toy())
    assert made == ["dev"]
    assert "cannot be used" in reported[0] and "made again" in reported[0]
    assert (data / "dev" / name).read_bytes() == whole


def test_exchanged_splits_are_refused_and_made_again(data: Path) -> None:
    run(toy(), seed=4)
    whole = {path.name: (path / "tokens.npy").read_bytes() for path in data.glob("[!.]*")}
    (data / "train").rename(data / "aside")
    (data / "test").rename(data / "train")
    (data / "aside").rename(data / "test")
    for name in ("train", "dev", "both"):  # of dev the seeds of all are looked at
        with pytest.raises(UserError, match=r"'train' of toy, but holds split 'test' of toy"):
            load(toy(), name)
    with pytest.raises(UserError, match="lrbench data make toy --seed 4"):
        run(toy(), ["train"], seed=4)  # the other would stay as it is
    made, told = run(toy(), seed=4)  # what the message says
    assert made == ["train", "test"] and len(told) == 4
    assert {name: (data / name / "tokens.npy").read_bytes() for name in whole} == whole
    assert load(toy(), "both").tokens.reshape(10, 3).tolist() == toy_rows("train", 4) + toy_rows(
        "test", 4
    )


def test_a_copy_in_the_place_of_another_split_is_refused(data: Path) -> None:
    run(toy())
    shutil.rmtree(data / "dev")
    shutil.copytree(data / "train", data / "dev")
    with pytest.raises(UserError, match=r"'dev' of toy, but holds split 'train'"):
        load(toy(), "dev")


def test_a_folder_that_cannot_be_written_is_reported(data: Path) -> None:
    data.parent.mkdir(parents=True)
    data.write_text("")
    with pytest.raises(UserError, match=r"cannot be written: .*\nname .* LRBENCH_DATA"):
        run(toy())


def test_two_makers_take_turns(data: Path) -> None:
    data.mkdir(parents=True)
    reported: list[str] = []
    waits = threading.Event()

    def tell(text: str) -> None:
        reported.append(text)
        waits.set()

    with open(data / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        work = threading.Thread(target=make, args=(toy(), (), 0, False, lambda *_: None, tell))
        work.start()
        assert waits.wait(10)
        assert "waiting" in reported[0] and not (data / "train").exists()
    work.join(10)
    assert load(toy(), "train").made["seed"] == 0


KILLED_AT_EACH_MOMENT = """
import os, shutil, signal, sys
from pathlib import Path
from tests.tasks.corpus.test_recipe import run, toy
from lrbench.tasks.corpus.storage import read

def content(folder):
    return {path.name + "/" + file.name: file.read_bytes()
            for path in folder.iterdir() if path.is_dir() for file in path.iterdir()}

def die_at(moment, force):
    moments = iter(range(1, 1000))
    for owner, name in ((os, "fsync"), (Path, "rename"), (shutil, "rmtree")):
        def sabotaged(*words, real=getattr(owner, name), **more):
            if next(moments) == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*words, **more)
        setattr(owner, name, sabotaged)
    run(toy(), ["train", "test"], force=force)
    os._exit(0)

folder = toy().folder
run(toy(), ["train", "test"])
wanted = content(folder)
killed = left = 0
for force in (False, True):
    for moment in range(1, 1000):
        if not force:
            shutil.rmtree(folder)
        child = os.fork()
        if not child:
            die_at(moment, force)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if ended == 0:
            break
        assert ended == -signal.SIGKILL, ended
        killed += 1
        for split in folder.iterdir():
            if split.is_dir() and not split.name.startswith("."):
                read(split)
        left += any(folder.glob(".*.tmp"))
        run(toy(), ["train", "test"])
        assert content(folder) == wanted
        assert not any(folder.glob(".*.tmp"))
print(killed, left)
"""


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_nothing_half(data: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", KILLED_AT_EACH_MOMENT],
        capture_output=True,
        text=True,
        env=dict(os.environ),
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
    killed, left = map(int, ended.stdout.split())
    assert killed > 30 and left > 10, "it was not killed where it matters"
