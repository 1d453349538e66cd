"""`lrbench sweep` as it is typed: what it refuses and says, and that looking changes nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lrbench.tables import load_table

TINY = [
    *("model=blockdiag", "model.width=8", "model.mixer.block_size=4", "model.mixer.hidden=8"),
    *("model.backbone.noise=0", "optim.warmup=0", "optim.label_smoothing=0"),
    *("optim.schedule=constant", "protocol.train_length=6", "protocol.test_lengths=[9]"),
    *("protocol.further_lengths=[12]", "protocol.band=[7,8]", "protocol.batch_size=8"),
    *("protocol.look_every=4", "protocol.look_size=8", "protocol.validation_size=16"),
    *("protocol.test_size=20", "protocol.max_steps=4", "protocol.stop=never", "device=cpu"),
]


def test_devices_without_a_gpu_are_refused(lrbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    words = [word for word in TINY if word != "device=cpu"]
    ended = lrbench("sweep", "task=sum", "seed=0,1", *words, "devices=0,1", "output_dir=out")
    assert ended.code == 1
    assert "devices=0,1: torch finds no GPU here" in ended.err
    assert not list(Path("out").rglob("s0"))


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--table", "fan2024_tabel2"], 1, "Did you mean 'fan2024_table2'?"),
        (["--table", "mine.yaml"], 1, "no table file at 'mine.yaml'"),
        (["--table", "fan2024_table2", "task=cycle"], 1, "no cell with task=cycle"),
        (["task=sum,sume"], 1, "sume"),
        (["optim.lr=1e-3,abc"], 1, "optim.lr must be a number, not 'abc'"),
        (["optim.lrr=1,2"], 1, "Did you mean 'optim.lr'?"),
        (["task=sum,mod_arith", "protocol.test_lengths=[500]"], 1, "only odd lengths"),
        (["hydra/launcher=joblip"], 1, "Did you mean 'joblib'?"),
        (["hydra/launcher=joblib", "hydra.launcher.njobs=2"], 1, "hydra.launcher.n_jobs"),
        (["hydra/launcher=joblib", "hydra.launcher.n_jobs=two"], 1, "whole number, not 'two'"),
        (["hydra/launcher=joblib", "hydra.launcher.n_jobs=0"], 1, "at least 1, or -1 for all"),
        (["hydra/launcher=joblib", "hydra.launcher.n_jobs=-2"], 1, "processors, not -2"),
        (["hydra.sweep.dir=x"], 1, "Hydra's own settings"),
        (["--multirun", "seed=0,1"], 2, "--dry-run"),
        (["--config-dir", "nowhere"], 2, "not a folder"),
    ],
)
def test_refused_in_our_words_before_anything_is_written(
    lrbench, arguments: list[str], code: int, said: str
) -> None:
    ended = lrbench("sweep", *arguments)
    assert ended.code == code, ended.err
    assert said in ended.err
    assert ended.err.startswith("lrbench: ")
    assert len(ended.err.splitlines()) <= 6
    assert not list(Path().iterdir())


def test_a_dry_run_tells_what_there_is_to_do_and_writes_nothing(lrbench) -> None:
    words = ("--table", "fan2024_table2", "task=mod_arith", "trials=2")
    ended = lrbench("sweep", *words, "--dry-run")
    assert ended.code == 0, ended.err
    assert "mod_arith · blockdiag_release" in ended.out
    cells = load_table("fan2024_table2").cells
    runs = 2 * sum("task=mod_arith" in cell.overrides for cell in cells)
    assert runs > 20 and f"\n{runs} runs: 0 finished, {runs} to do" in ended.out
    assert not list(Path().iterdir())


def test_a_cell_that_its_task_has_trained_by_another_protocol_is_refused(lrbench) -> None:
    """The table's report would not show its runs."""
    Path("mine.yaml").write_text("cells:\n  - {overrides: [task=listops, model=bbt_grc]}\n")
    ended = lrbench("sweep", "--table", "mine.yaml", "--dry-run")
    assert ended.code == 1
    assert "table 'mine' is of protocol fan2024, and a cell of it would be trained by" in ended.err
    assert "write protocol: rir2023 in the table's file" in ended.err
    typed = lrbench("sweep", "--table", "mine.yaml", "protocol=rir2023", "--dry-run")
    assert "is of protocol" not in typed.err  # the user's own wish


def test_what_is_missing_is_done_and_a_dry_run_knows_its_price(lrbench) -> None:
    grid = ("sweep", "task=sum", "optim.lr=1e-3,1e-4", *TINY)
    ended = lrbench(*grid)
    assert ended.code == 0, ended.err
    assert "[2/2] sum · blockdiag · optim.lr=0.0001 · seed 0" in ended.err
    ended = lrbench(*grid, "seed=0,1", "--dry-run")
    price = r"4 runs: 2 finished, 2 to do; one after the other up to about \d"
    assert re.search(price, ended.out)
    ended = lrbench(*grid, "seed=0,1")
    assert "skipped: 2 of 4 runs are finished" in ended.err
    assert "[2/2]" in ended.err
    assert "finished  skipped" in ended.out


def test_what_train_did_is_finished(lrbench) -> None:
    assert lrbench("train", "task=sum", *TINY, "trials=2").code == 0
    ended = lrbench("sweep", "task=sum", *TINY, "seed=0,1")
    assert "skipped: 2 of 2 runs are finished" in ended.err


def test_a_run_that_a_sweep_left_unsearched_is_searched_by_the_same_command(lrbench) -> None:
    """As after a kill between a run's end and its search for wrong strings; without a clock."""
    bare = ("sweep", "task=sum", "optim.lr=1e-3,1e-4", *TINY)
    words = (*bare, "protocol.certify=always")
    assert lrbench(*words).code == 0
    first, second = sorted(Path("outputs").rglob("certificates/last.json"))
    found = first.read_bytes()
    first.unlink()
    (witness,) = first.parents[1].glob("counterexample.json")
    witness.unlink()
    before = second.stat()
    ended = lrbench(*words)
    assert ended.code == 0
    (line,) = (line for line in ended.err.splitlines() if ": wrong on " in line)
    assert re.match(r"sum · blockdiag · optim\.lr=0\.\d+ · seed 0: wrong on \d", line)
    now, then = (json.loads(content)["witness"] for content in (first.read_bytes(), found))
    assert now["tokens"] == then["tokens"]
    assert second.stat() == before
    first.unlink()
    assert ": wrong on " not in lrbench(*bare, "protocol.certify=never").err and not first.exists()


def test_presets_of_ones_own_count(lrbench, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    preset = folder / "preset" / "model" / "fan2024_sum_blockdiag.yaml"
    preset.parent.mkdir(parents=True)
    preset.write_text("# @package _global_\noptim: {lr: 0.0123}\n")
    arguments = ("--config-dir", str(folder), "task=sum", *TINY, "output_dir=out")
    assert lrbench("sweep", *arguments).code == 0
    (config,) = Path("out").rglob("config.json")
    assert '"lr": 0.0123' in config.read_text()


def test_tables_are_listed(lrbench) -> None:
    ended = lrbench("tables")
    assert ended.code == 0
    assert "\nfan2024_table2  " in ended.out
