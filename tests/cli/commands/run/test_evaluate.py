"""`lrbench evaluate` names one run or one table, and says what goes with neither."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.runs.evaluate import evaluation

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "a run's folder or a --table, one of them"),
        (("x", "--table", "length_curves"), "a run's folder or a --table, one of them"),
        (("--table", "length_curves"), "--table goes with --lengths"),
        (("--table", "length_curves", "--splits", "dev"), "--splits goes with a run"),
        (("--table", "lenght_curves", "--lengths", "5"), "Did you mean 'length_curves'?"),
        (("--table", "rir2023_table2", "--lengths", "5"), "over a corpus"),
        (("x", "--all"), "--all and --runs go with --table"),
    ],
)
def test_what_cannot_be_meant(
    lrbench: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = lrbench("evaluate", *arguments)
    assert ended.code in (1, 2) and message in ended.err


TINY = [
    *("task=sum", "model=elman", "model.width=4", "protocol.max_steps=2", "device=cpu"),
    *("protocol.look_every=1", "protocol.test_size=8", "protocol.further_lengths=[]"),
    *("protocol.look_size=4", "protocol.validation_size=4", "protocol.test_lengths=[41]"),
    *("protocol.stop=never", "protocol.batch_size=2", "output_dir=runs"),
]

LENGTHS = """\
kind: lengths
columns: [sum]
cells: [{overrides: [task=sum, model=elman, protocol.stop=never]}]
"""


def test_a_table_is_scored_and_then_reported(
    lrbench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert lrbench("train", *TINY).code == 0
    (tmp_path / "mine.yaml").write_text(LENGTHS)
    command = ("evaluate", "--table", "mine.yaml", "--runs", "runs", "--lengths", "45,60")
    ended = lrbench(*command, "--strings", "8", "--all", "--device", "cpu")
    assert ended.code == 0, ended.err
    assert "1 finished runs" in ended.err and "45, 60" in ended.err and "accuracy" in ended.out
    csv = lrbench("report", "--runs", "runs", "--format", "csv")
    assert ",45,further,accuracy," in csv.out
    report = lrbench("report", "--runs", "runs", "--table", "mine.yaml")
    assert report.code == 0 and "does not reach 0.99 at 41: sum x elman" in report.out


def test_a_folder_that_may_not_be_written_is_refused_before_scoring(
    lrbench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "may_write", lambda _: False)
    monkeypatch.setattr(evaluation, "score_run", None)
    (tmp_path / "s0").mkdir()
    ended = lrbench("evaluate", str(tmp_path / "s0"), "--lengths", "9")
    assert ended.code == 1 and "evaluations' cannot be written to" in ended.err


def test_old_weights_are_not_scored_in_other_code(
    lrbench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert lrbench("train", *TINY).code == 0
    (file,) = tmp_path.glob("runs/**/result.json")
    whole = json.loads(file.read_text())
    Path("mine.py").write_text("")
    other = {"plugins": {"mine": "0" * 64}}
    for versions, plugin, words in (
        ({"model": 99}, "", "model 99 is 1 now"),
        (other, "", "was trained with plugin mine, which is not loaded"),
        (other, "mine", "the source of plugin 'mine' was changed"),
    ):
        monkeypatch.setenv("LRBENCH_PLUGINS", plugin)
        file.write_text(json.dumps(whole | {"versions": whole["versions"] | versions}))
        ended = lrbench("evaluate", str(file.parent), "--lengths", "5")
        assert ended.code == 1 and words in ended.err
    assert not list(file.parent.glob("evaluations/*"))


def test_without_a_rule_it_is_the_first_of_the_protocol(
    lrbench: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`suite_v1` keeps no `best`."""
    monkeypatch.chdir(tmp_path)
    words = [word for word in TINY if "max_steps" in word or "batch_size" in word]
    words += ["protocol=suite_v1", "task=parity", "model=elman", "model.width=4", "device=cpu"]
    words += ["protocol.test.lengths=[40]", "protocol.look.strings=4", "protocol.certify=never"]
    assert lrbench("train", *words, "output_dir=runs").code == 0
    (folder,) = Path("runs").glob("parity/elman/suite_v1/*/s0")
    assert lrbench("evaluate", str(folder), "--lengths", "41", "--strings", "9").code == 0
    (kept,) = folder.glob("evaluations/*.json")
    rows = json.loads(kept.read_text())["evaluations"]
    assert {(row["which"], row["length"], row["n"]) for row in rows} == {("last", 41, 9)}
    ended = lrbench("evaluate", str(folder), "--which", "best")
    assert ended.code == 2 and "rule of suite_v1 'best' unknown" in ended.err
