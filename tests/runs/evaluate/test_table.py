"""All runs of a table scored where they have not been: real runs, as small as they can be."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.runs.evaluate.table import Wish, evaluate_table
from lrbench.runs.train.job import run_cell
from lrbench.tables import TableCell, TableSpec
from lrbench.training.procedure import parse_lengths

SPEC = TableSpec("two", "Two", (TableCell(("task=sum", "model=blockdiag")),), kind="lengths")
WISH = Wish("5,9", strings=8, every=True)
Told = list[str]


@pytest.fixture
def run(tiny: Callable[..., Config]) -> Path:
    """The folder of a finished run of six updates, which solves nothing."""
    [outcome] = run_cell(tiny())
    return outcome.folder


def evaluated(runs: Path, wish: Wish, reported: Told | None = None) -> dict[str, list[int]]:
    """The lengths that were scored now, by the name of the run's folder."""
    lines = [] if reported is None else reported
    found = evaluate_table(SPEC, runs, wish, "cpu", lines.append)
    return {folder.name: [row["length"] for row in rows] for folder, rows in found}


def files(run: Path) -> list[Path]:
    return sorted((run / "evaluations").glob("*.json"))


def change_result(run: Path, change: Callable[[dict[str, Any]], None]) -> None:
    result = json.loads((run / "result.json").read_text())
    change(result)
    (run / "result.json").write_text(json.dumps(result))


def test_what_is_missing_is_scored_once(run: Path, output_dir: Path) -> None:
    assert evaluated(output_dir, WISH) == {"s0": [5, 9]}
    [written] = files(run)
    rows = json.loads(written.read_text())["evaluations"]
    assert [(row["length"], row["n"], row["which"]) for row in rows] == [
        *((5, 8, "best"), (9, 8, "best"))
    ]
    kept = json.loads((run / "result.json").read_text())["checkpoints"]["best"]
    assert {row["checkpoint_step"] for row in rows} == {kept}

    reported: Told = []
    assert evaluated(output_dir, WISH, reported) == {}
    assert reported[-1].endswith("nothing to do") and len(files(run)) == 1
    assert evaluated(output_dir, replace(WISH, lengths="9,11")) == {"s0": [11]}
    assert evaluated(output_dir, replace(WISH, lengths="9,11", strings=16)) == {"s0": [9, 11]}


def test_what_the_run_was_tested_at_is_known(run: Path, output_dir: Path) -> None:
    assert evaluated(output_dir, replace(WISH, lengths="3,4,5", strings=4)) == {"s0": [5]}
    more = replace(WISH, lengths="4", strings=6)  # than its own test had
    assert evaluated(output_dir, more) == {"s0": [4]}
    assert evaluated(output_dir, more) == {}


def test_runs_that_solve_nothing_are_left_out(run: Path, output_dir: Path) -> None:
    reported: Told = []
    assert evaluated(output_dir, replace(WISH, every=False), reported) == {}
    assert reported == [
        "1 finished runs: 1 do not solve their test length (--all scores them too), 0 have no"
        " 'best' checkpoint, 0 to score"
    ]

    def solve(result: dict[str, Any]) -> None:
        for row in result["evaluations"]:
            if (row["split"], row["kind"], row["which"]) == ("test", "test", "best"):
                row["value"] = 1.0

    change_result(run, solve)
    assert evaluated(output_dir, replace(WISH, every=False)) == {"s0": [5, 9]}
    assert evaluated(output_dir, replace(WISH, every=False, which="last"), reported) == {}


def test_a_run_without_the_checkpoint_is_counted(run: Path, output_dir: Path) -> None:
    (run / "checkpoints" / "best.pt").unlink()
    reported: Told = []
    assert evaluated(output_dir, WISH, reported) == {}
    assert "1 have no 'best' checkpoint" in reported[0]


def test_one_that_is_damaged_stops_no_other(
    run: Path, output_dir: Path, tiny: Callable[..., Config]
) -> None:
    run_cell(tiny(trials=2))
    (run / "checkpoints" / "best.pt").write_bytes(b"torn")
    reported: Told = []
    found = evaluate_table(SPEC, output_dir, WISH, "cpu", reported.append)
    assert next(found)[0].name == "s1"
    with pytest.raises(UserError, match="1 runs could not be scored"):
        next(found)
    assert any("s0: not scored" in line for line in reported)


def test_a_length_that_the_task_lacks_is_the_nearest_below(
    output_dir: Path, tiny: Callable[..., Config]
) -> None:
    protocol = {**vars(tiny().protocol), "train_length": 3, "test_lengths": [5], "band": [7, 7]}
    run_cell(tiny(task={"name": "mod_arith"}, protocol=protocol))
    cell = TableCell(("task=mod_arith", "model=blockdiag"))
    spec = TableSpec("odd", "Odd", (cell,))
    [(_, rows)] = evaluate_table(spec, output_dir, replace(WISH, lengths="8,9,10"), "cpu", print)
    assert [row["length"] for row in rows] == [7, 9]


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (replace(WISH, lengths=""), "--table goes with --lengths"),
        (replace(WISH, lengths="5,x"), "'x' is not a length"),
        (replace(WISH, strings=0), "--strings must be at least 1"),
        (replace(WISH, which="bst"), "rule 'bst' unknown"),
    ],
)
def test_mistakes_are_reported_before_anything_is_scored(
    wish: Wish, message: str, output_dir: Path
) -> None:
    with pytest.raises(UserError, match=message):
        evaluated(output_dir, wish)


def test_a_wrong_length_is_a_wrong_command() -> None:
    with pytest.raises(UserError, match=r"'5\.5' is not a length") as raised:
        parse_lengths("500,5.5", ())
    assert raised.value.exit_code == 2
    assert parse_lengths("500, 5_003", ()) == [500, 5003]


def test_where_there_is_no_run(output_dir: Path) -> None:
    output_dir.mkdir(exist_ok=True)
    with pytest.raises(UserError, match="no finished run of table 'two'"):
        evaluated(output_dir, WISH)
    with pytest.raises(UserError, match="over a corpus"):
        list(evaluate_table(replace(SPEC, protocol="rir2023"), output_dir, WISH, "cpu", print))
