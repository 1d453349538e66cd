"""The rules of entering: each is broken once, and told."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from lrbench.report.runs.collect import collect
from lrbench.report.suite import rules
from lrbench.report.suite.entries import folders_of, suite_of
from lrbench.report.suite.lock import read_lock
from lrbench.report.suite.rules import violations
from lrbench.tables import load_table
from tests.report.suite.conftest import searched

Enter = Callable[..., Path]
LSTM: dict[str, Any] = {"name": "lstm"}
TESTED = {"lengths": [40], "strings": 2000, "fewer": 400, "data_seed": 424242}
SEARCH = {"max_steps": 2000, "test": TESTED}
RATES = {0.001: 0.3, 0.003: 0.1, 0.01: 0.2}  # rate: validation loss


@pytest.fixture
def entered(tmp_path: Path, enter: Enter) -> Path:
    """A whole entry of an LSTM, with one of its 36 searches and one of its 36 runs left out."""
    for at in range(12):
        for rate, loss in RATES.items():
            if (at, rate) != (2, 0.01):
                enter(at, lambda _: 1.0, LSTM, seed=1000, lr=rate, protocol=SEARCH, loss=loss)
        for seed in range(3):
            if (at, seed) != (8, 1):
                enter(at, lambda _: 1.0, LSTM, seed=seed, lr=0.003)
    return tmp_path / "runs"


def told(runs: Path, label: str = "lstm", by_clock: bool = False) -> list[str]:
    lock, spec = read_lock("suite_v1"), load_table("suite_v1")
    return violations(suite_of(collect(runs), spec, lock, "last"), lock, label, by_clock)


def whole(enter: Enter) -> None:
    enter(2, lambda _: 1.0, LSTM, seed=1000, lr=0.01, protocol=SEARCH, loss=0.2)
    enter(8, lambda _: 1.0, LSTM, seed=1, lr=0.003)


def test_what_is_missing_is_told_and_nothing_of_a_whole_entry(entered: Path, enter: Enter) -> None:
    assert told(entered) == ["dfa: no run of seed 1", "mod_arith: rate 0.01 was not tried"]
    whole(enter)
    assert told(entered) == []
    suite = suite_of(collect(entered), load_table("suite_v1"), read_lock("suite_v1"), "last")
    assert len(folders_of(suite, ["lstm"])) == 72
    assert folders_of(suite, ["gru"]) == set()


def test_every_run_is_searched_for_wrong_strings_as_far_as_the_suite_says(
    entered: Path, enter: Enter, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole(enter)
    run = next(
        path.parent
        for path in entered.glob("mod_arith_ltr/lstm/suite_v1/*/s0/result.json")
        if json.loads(path.read_text())["config"]["optim"]["lr"] == 0.003
    )
    line = "mod_arith_ltr: 1 run not searched for wrong strings as far as the suite says"
    searched(run, longest=499)
    assert told(entered) == [line]
    searched(run, out_of_time=["beam"])
    assert told(entered) == [line] == told(entered, by_clock=True)
    file = run / "certificates" / "last.json"
    content = json.loads(file.read_text())
    content["searched"] = {"complete_to": 9, "beam": 100, "longest": 1000, "seconds_allowed": 5.0}
    file.write_text(json.dumps(content | {"out_of_time": ["beam"]}))  # as before the suite said it
    assert told(entered) == [line] == told(entered, by_clock=True)  # of a row that is not so old
    monkeypatch.setattr(rules, "BY_CLOCK_ONCE", {"lstm"})
    assert told(entered) == [line] and told(entered, by_clock=True) == []
    searched(run)
    file.write_text(json.dumps(json.loads(file.read_text()) | {"trained_again": "same scores"}))
    assert told(entered) == [line] and told(entered, by_clock=True) == []
    file.unlink()
    assert told(entered) == [line] == told(entered, by_clock=True)


def test_another_rate_than_the_search_chose_does_not_count(entered: Path, enter: Enter) -> None:
    whole(enter)
    enter(0, lambda _: 1.0, LSTM, seed=3, lr=0.001)
    assert told(entered) == []
    for at in range(12):
        enter(at, lambda _: 1.0, LSTM, seed=3, lr=0.01 if at == 0 else 0.003)
    assert told(entered) == ["parity: no run of seed 3"]


def test_another_string_is_told(entered: Path, enter: Enter) -> None:
    whole(enter)
    path = enter(0, lambda _: 1.0, LSTM, seed=4, lr=0.003) / "result.json"
    old, new = '"sha256": {"strings": "', '"sha256": {"strings": "0'
    path.write_text(path.read_text().replace(old, new, 1))
    assert any(line.startswith("1 runs tested on other strings") for line in told(entered))


@pytest.fixture
def one(entered: Path, enter: Enter) -> Callable[[Callable[[dict[str, Any]], None]], list[str]]:
    """Change one run of a whole entry; return what is told of the entry then."""
    whole(enter)
    path = next(
        path
        for path in entered.glob("parity/lstm/suite_v1/*/s0/result.json")
        if json.loads(path.read_text())["config"]["optim"]["lr"] == 0.003
    )

    def changed(change: Callable[[dict[str, Any]], None]) -> list[str]:
        kept = path.read_text()
        content = json.loads(kept)
        change(content)
        path.write_text(json.dumps(content))
        found = told(entered)
        path.write_text(kept)
        return found

    return changed


def rows_at(content: dict[str, Any], length: int) -> list[dict[str, Any]]:
    rows = content["evaluations"]
    return [row for row in rows if row["kind"] == "test" and row["length"] == length]


def test_scores_are_one_at_each_length_of_all_strings_after_all_updates(one: Any) -> None:
    line = "parity, seed 0: its scores are not one at each of the suite's lengths and numbers"
    assert one(lambda run: None) == []
    assert one(lambda run: run["evaluations"].remove(*rows_at(run, 5000))) == [line]
    assert one(lambda run: run["evaluations"].extend(rows_at(run, 500))) == [line]
    assert one(lambda run: rows_at(run, 40)[0].update(n=1)) == [line]
    assert one(lambda run: run.update(steps=50_000)) == [
        "parity, seed 0: 50,000 updates; the suite has 5,000"
    ]
    none = ["parity, seed 0: chance is no accuracy below 1"]
    assert one(lambda run: [row.update(value=-1e6) for row in run["baselines"]]) == none
    assert one(lambda run: [row.update(value=1.0) for row in run["baselines"]]) == none
    assert one(lambda run: run.update(seed=2**40)) == ["parity: no run of seed 0"]  # else 2^40
    assert one(lambda run: run.update(seed=2**40, data_seed=2**40)) == [
        f"seed {2**40}: the seeds are 0, 1, 2 and those that follow"
    ]


def test_a_run_that_diverged_has_no_scores(one: Any, entered: Path) -> None:
    assert one(lambda run: run.update(status="diverged", data=None)) == []
    suite = suite_of(collect(entered), load_table("suite_v1"), read_lock("suite_v1"), "last")
    assert {len(run.tested) > 0 for entry in suite.entries for run in entry.every_run} == {True}


def test_weights_made_by_hand_and_strings_of_another_seed_are_of_the_open_division(
    one: Any,
) -> None:
    missing = ["parity: no run of seed 0"]
    assert one(lambda run: run["config"]["model"].update(mixer={"init": "exact"})) == missing
    assert one(lambda run: run["config"].update(data_seed=7)) == missing
    assert one(lambda run: run.update(data_seed=7)) == missing


def test_an_automaton_twice_does_not_stand_for_another(entered: Path, enter: Enter) -> None:
    whole(enter)
    first, second = (
        next(
            path.parent
            for path in entered.glob("dfa/lstm/suite_v1/*/s0/result.json")
            if (config := json.loads(path.read_text())["config"])["task"]["automaton"] == number
            and config["optim"]["lr"] == 0.003
        )
        for number in (0, 1)
    )
    (second / "result.json").unlink()
    (second / "result.json").write_text((first / "result.json").read_text())
    assert told(entered) == ["dfa: no run of seed 0"]


def test_a_rate_is_tried_once(entered: Path, enter: Enter) -> None:
    whole(enter)
    first = next(entered.glob("parity/lstm/suite_v1/*/s1000")).parent
    again = first.with_name("0123456789ab")
    shutil.copytree(first, again)
    content = json.loads((again / "s1000" / "result.json").read_text())
    (again / "s1000" / "result.json").write_text(json.dumps(content | {"fingerprint": again.name}))
    (line,) = told(entered)
    assert line.startswith("parity: rate 0.0") and line.endswith("was tried 2 times")


def test_sizes_are_bounded_and_a_model_must_be_there(entered: Path, enter: Enter) -> None:
    assert told(entered, "gru") == ["no run of it has ended"]
    whole(enter)
    for path in entered.rglob("result.json"):
        text = path.read_text().replace('"parameters": 1000', '"parameters": 2000001')
        path.write_text(text.replace('"state_size": 64', '"state_size": 70000'))
    assert told(entered) == [
        "2,000,001 parameters; an entry has at most 2,000,000",
        "a state of 70,000 numbers; an entry has at most 65,536",
    ]


def test_an_entry_has_the_weights_of_every_run_that_has_scores(
    entered: Path, enter: Enter, lrbench: Callable[..., Any], tmp_path: Path
) -> None:
    """`lrbench verify` would refuse it; of runs of the search nobody asks for weights."""
    whole(enter)
    words = ("enter", "lstm", "--runs", str(entered), "--output", "lstm.zip")
    ended = lrbench(*words)
    assert (ended.code, ended.out) == (1, "") and not (tmp_path / "lstm.zip").exists()
    assert "no checkpoints/last.pt below" in ended.err and "and 28 more" in ended.err
    for result in entered.glob("*/lstm/suite_v1/*/s[012]/result.json"):
        weights = result.parent / "checkpoints" / "last.pt"
        weights.parent.mkdir()
        told = json.loads(result.read_text())
        state = {key: told[key] for key in ("fingerprint", "seed")}
        torch.save(state | {"model": {}, "step": 5000}, weights)
    ended = lrbench(*words)
    assert ended.code == 0 and (tmp_path / "lstm.zip").exists()
