"""`lrbench bundle` and `lrbench verify` as they are typed."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lrbench.cli.hydra.compose import composed
from lrbench.runs.train.job import run_cell
from tests import made_up_corpora

SMALL = [
    "task=sum",
    "model=blockdiag",
    "model.width=8",
    "model.mixer.block_size=4",
    "protocol.train_length=6",
    "protocol.test_lengths=[9]",
    "protocol.further_lengths=[]",
    "protocol.band=[7,8]",
    "protocol.batch_size=8",
    "protocol.look_every=2",
    "protocol.validation_size=16",
    "protocol.test_size=500",
    "protocol.max_steps=2",
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundled")
    run_cell(composed([*SMALL, f"output_dir={folder}"]))
    return folder


def test_packed_and_verified_elsewhere(
    runs: Path, lrbench: Callable[..., object], tmp_path: Path
) -> None:
    made = lrbench("bundle", "--runs", str(runs), "--anonymous", "--output", "b.tar.gz")
    digest = hashlib.sha256(Path("b.tar.gz").read_bytes()).hexdigest()
    assert (made.code, made.out) == (0, f"{digest}  b.tar.gz\n")
    assert ": 1 run, " in made.err
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    kept = {name: os.environ[name] for name in ("PYTHONPATH", "LRBENCH_SELFCHECK")}
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "lrbench",
            "verify",
            str(tmp_path / "b.tar.gz"),
            "--seed",
            "0",
            "--strings",
            "100",
        ],
        cwd=elsewhere,
        env={"HOME": str(tmp_path), "PATH": os.defpath, **kept},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{tmp_path / 'b.tar.gz'}  sha256 {digest}\n")
    assert done.stdout.count("within sampling error") == 2
    assert done.stdout.count("confirmed") == 9
    assert list(elsewhere.iterdir()) == []


def test_what_differs_is_exit_code_1(runs: Path, lrbench: Callable[..., object]) -> None:
    text = next(runs.rglob("result.json")).read_text()
    flattered = Path("flattered/sum/blockdiag/fan2024", next(runs.glob("*/*/*/*")).name, "s0")
    flattered.mkdir(parents=True)
    cell = next(runs.glob("*/*/*/*"))
    for path in (cell / "config.json", cell / "s0/checkpoints/best.pt"):
        target = flattered.parent / path.relative_to(cell)
        target.parent.mkdir(exist_ok=True)
        target.write_bytes(path.read_bytes())
    lines = [
        '"value": 1.0,' if '"value"' in line and "0." in line else line
        for line in text.splitlines()
    ]
    (flattered / "result.json").write_text("\n".join(lines))
    assert lrbench("bundle", "--runs", "flattered").code == 0
    done = lrbench("verify", "runs.zip", "--seed", "0", "--strings", "200")
    assert "fresh strings: --seed 0 draws the same again" in done.out
    assert done.code == 1
    assert "differs      scores: sum/blockdiag" in done.out


USAGE = [
    (["bundle", "--table", "no_such_table"], 1, "table 'no_such_table' unknown"),
    (["bundle", "--output", "x.rar"], 2, "must end with .zip"),
    # before the runs are read, which may take minutes
    (["bundle", "--output", "no/b.zip", "--runs", "nowhere"], 1, "there is no folder 'no'"),
    (["enter", "lstm", "--output", "no/e.zip", "--runs", "nowhere"], 1, "there is no folder 'no'"),
    (["bundle", "--rule", "bset"], 2, "Did you mean 'best'?"),
    (["bundle", "--table", "fan2024_table2", "--rows", "x"], 2, "not both"),
    (["bundle", "--runs", "nowhere"], 1, "no folder of runs"),
    (["enter", "lstm", "--runs", "."], 1, "no run of suite_v1 in ."),
    (["verify", "nowhere.zip"], 1, "cannot be read"),
    (["verify", "nowhere.zip", "--strings", "0"], 2, "at least 1"),
]


@pytest.mark.parametrize(("arguments", "code", "message"), USAGE)
def test_mistakes(
    lrbench: Callable[..., object], arguments: list[str], code: int, message: str
) -> None:
    ended = lrbench(*arguments)
    assert (ended.code, ended.out) == (code, "")
    assert message in ended.err
    assert len(ended.err.splitlines()) <= 6


def test_over_a_corpus(
    lrbench: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LRBENCH_DATA", str(made_up_corpora.write(tmp_path / "data")))
    arguments = ["task=listops", "model=bbt_grc", "model.width=8", "protocol.max_steps=1"]
    arguments += ["protocol.test_splits=[near_iid,args_10]", "protocol.batch_size=8", "device=cpu"]
    run_cell(composed([*arguments, "output_dir=runs"]))
    made = lrbench("bundle", "--runs", "runs", "--output", "b.zip")
    assert made.code == 0, made.err
    done = lrbench("verify", "b.zip", "--seed", "0")
    assert (done.code, done.err) == (0, "")
    assert done.out.count("of the same 24: confirmed") == 2
    assert "confirmed    scores: 1 of 1 runs scored again on their splits" in done.out
    monkeypatch.setenv("LRBENCH_DATA", str(tmp_path / "nowhere"))
    done = lrbench("verify", "b.zip", "--seed", "0")
    assert (done.code, done.err) == (0, "")
    missing = "not checked  listops: near_iid, args_10 not scored again: the data are not here"
    assert missing in done.out


def test_what_is_left_out_is_told(
    runs: Path, lrbench: Callable[..., object], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(runs, tmp_path / "more"))
    first = next(folder.rglob("s0"))
    for seed in (1, 2):
        shutil.copytree(first, first.with_name(f"s{seed}"))
    (first.with_name("s1") / "result.json").unlink()
    cut = first.with_name("s2") / "result.json"
    cut.write_text(cut.read_text()[:50])
    made = lrbench("bundle", "--runs", str(folder))
    assert made.code == 0
    (damaged,) = (line for line in made.err.splitlines() if line.startswith("damaged"))
    assert damaged.startswith("damaged, left out: 1 (") and "s2/result.json" in damaged
    name = first.with_name("s1").relative_to(folder).as_posix()
    assert f"unfinished, left out: 1 ({name})\n" in made.err
