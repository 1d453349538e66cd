"""`lrbench tune` over a corpus: what it refuses, equal budgets, and a search from end to end."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.cli.hydra.compose import composed, run_hydra
from lrbench.cli.hydra.grid import cells, protocol_of
from lrbench.config import Config
from lrbench.protocols.base import declared
from lrbench.registry import PROTOCOLS, TASKS
from tests import made_up_corpora

Run = Callable[..., Any]
TINY = [
    *("task=listops", "model=bbt_grc", "model.width=8", "device=cpu", "protocol.batch_size=12"),
    *("protocol.epochs=2", "protocol.test_splits=[near_iid]"),
]
LR = "optim.lr=1e-4,1e-2"
PATIENT = declared("rir2023").whole_budget
PRESET = Path("outputs/tuned/preset/model/rir2023_listops_bbt_grc.yaml")


@pytest.fixture(autouse=True)
def corpora(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in an empty folder, with made-up corpora somewhere else."""
    monkeypatch.setenv("LRBENCH_DATA", str(made_up_corpora.write(tmp_path / "data")))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--grid", LR, "protocol.patience=4"], "'protocol.patience=4' would end runs before"),
        (["--grid", "protocol.patience=1,2"], "would not compare"),
        (["--grid", "protocol.select_by=loss,accuracy"], "would not compare"),
        (["--grid", "protocol.dev_split=dev,lra_dev"], "would not compare"),
        (["--grid", "protocol.test_splits=[near_iid],[args_10]"], "chosen by a test split"),
        (["--grid", "protocol.max_steps=2,3"], "every run has the same budget"),
        (["--grid", LR, "protocol.epochs=2,3"], "names several values"),
        (["--grid", LR, "protocol.test_splits=[nope]"], "split 'nope' unknown"),
        (["--grid", LR, "protocol=fan2024"], "write protocol=rir2023"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_tuned_is_reported(lrbench: Run, arguments: list[str], said: str) -> None:
    ended = lrbench("tune", "task=listops", "model=bbt_grc", *arguments)
    assert ended.code == 1, ended.err
    assert said in ended.err
    assert len(ended.err.splitlines()) <= 6
    assert list(Path().iterdir()) == []


NO_SPLIT = "protocol.test_splits=[]"


def test_patience_is_set_aside_only_over_a_corpus() -> None:
    [fresh] = cells(["optim.lr=1"], ["task=sum", "seed=3"])
    assert fresh[:4] == ("task=sum", "seed=3", "protocol.stop=never", "optim.lr=1")
    [corpus] = cells(["optim.lr=1"], ["task=listops", "seed=3"])
    assert corpus == ("task=listops", "seed=3", PATIENT, "optim.lr=1", NO_SPLIT)
    assert cells(["optim.lr=1"], ["task=listops", PATIENT]) == [
        ("task=listops", PATIENT, "optim.lr=1", NO_SPLIT)
    ]


def test_tests_at_the_end_are_left_out_unless_they_are_typed() -> None:
    [fresh] = cells(["optim.lr=1"], ["task=sum", "protocol.test_size=50"])
    left_out = ("protocol.further_lengths=[]", "protocol.certify=never")
    assert fresh == (*("task=sum", "protocol.test_size=50"), *fresh[2:4], *left_out)
    typed = "protocol.test_splits=[near_iid]"
    assert cells(["optim.lr=1"], ["task=listops", typed])[0][-1] == "optim.lr=1"


@pytest.mark.parametrize("name", PROTOCOLS.names())
def test_what_leaves_tests_out_can_be_set_and_changes_no_look(name: str) -> None:
    theirs = [t for t in TASKS.names() if name in getattr(TASKS.get(t).cls, "protocols", ())]
    task = "parity" if name == "suite_v1" else [*theirs, "sum"][0]
    plain, short = (
        dataclasses.asdict(composed([f"task={task}", f"protocol={name}", *words]).protocol)
        for words in ([], declared(name).untested)
    )
    changed = {key for key in plain if plain[key] != short[key]}
    assert changed and changed <= {"test", "test_size", "test_splits", "further_lengths", "certify"}


def test_a_protocol_of_the_users_own_goes_by_the_task() -> None:
    assert protocol_of(["task=logic", "protocol=mine"]).by_split
    assert not protocol_of(["task=sum", "protocol=mine"]).by_split
    assert protocol_of(["protocol=rir2023"]).by_split
    assert not protocol_of([]).by_split


def test_a_dry_run_tells_the_budget_and_does_nothing(lrbench: Run) -> None:
    models = "model=bbt_grc,rnn_grc"
    ended = lrbench("tune", *TINY, models, "seed=0,1", "--grid", LR, "--dry-run")
    assert ended.code == 0, ended.err
    said = "2 settings x 2 seeds x 2 epochs of 2 updates = 4 runs, 16 updates"
    assert " ".join(ended.out.split()).count(said) == 2
    assert f"over a corpus with {PATIENT}: no run ends" in ended.out
    assert list(Path().iterdir()) == []


def used(*arguments: str) -> Config:
    """Return what `lrbench train` is given for these words, flags included."""
    given: list[Config] = []
    run_hydra(arguments, given.append)
    return given[0]


def test_from_a_search_to_a_preset_that_is_used(lrbench: Run) -> None:
    ended = lrbench("tune", *TINY, "--grid", LR)
    assert ended.code == 0, ended.err
    results = [json.loads(path.read_text()) for path in Path().rglob("result.json")]
    assert [result["stopped"] for result in results] == ["budget", "budget"]
    losses = {
        result["config"]["optim"]["lr"]: row["value"]
        for result in results
        for row in result["evaluations"]
        if (row["split"], row["metric"], row["which"]) == ("dev", "loss", "best")
    }
    best = min(losses, key=lambda rate: losses[rate])
    chosen = next(line for line in ended.out.splitlines() if line.rstrip().endswith("chosen"))
    assert chosen.split()[0] == str(best)
    assert "Nothing was chosen by a test split" in " ".join(ended.out.split())
    tested = next(row for row in results[0]["evaluations"] if row["split"] == "near_iid")
    assert "near_iid" not in ended.out and tested["kind"] == "test"
    text = PRESET.read_text()
    assert "on the dev split (dev) by loss; the test splits had no say" in text
    assert "patience" not in text
    assert "lrbench train task=listops model=bbt_grc --config-dir" in ended.err
    config = used("task=listops", "model=bbt_grc", "--config-dir", "outputs/tuned")
    assert (config.optim.lr, config.optim.name, config.tuning_runs) == (best, "ranger", 2)
    assert (config.protocol.patience, config.protocol.epochs) == (4, 100)
    again = lrbench("tune", *TINY, "--grid", LR)
    assert (again.code, "unchanged" in again.err) == (0, True)
    assert "skipped: 2 of 2 runs are finished" in again.err
