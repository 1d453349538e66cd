from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from lrbench.errors import UserError
from lrbench.records import POSITIONS
from lrbench.report.output.render import render
from lrbench.report.runs.collect import collect
from lrbench.report.tables.summary_table import positions_table, report_tables
from tests.report.conftest import evaluation

Write = Callable[..., Path]
A, B = "a" * 12, "b" * 12
CELL = {"protocol": "fan2024", "task": "group", "model": "lstm", "task_title": "group (S3)"}


def cells(runs: Path, references: Path) -> list[dict[str, str]]:
    """Each row of the one table as title -> text."""
    [table] = report_tables(collect(runs), references)
    titles = [column.title for column in table.columns]
    return [dict(zip(titles, [cell.text for cell in row], strict=True)) for row in table.rows]


def notes(runs: Path, references: Path) -> list[str]:
    [table] = report_tables(collect(runs), references)
    return list(table.notes)


def test_golden_markdown(runs: Path, write: Write, fail: Write, references: Path) -> None:
    write(seed=0)
    write(seed=1, accuracy=0.75, steps=4000)
    fail(model="mine", fingerprint="c" * 12, error="a | b")
    nothing = {"evaluations": [], "checkpoints": {}, "stopped": "diverged", "steps": 700}
    write(task="even_pair", status="diverged", perfect_look=None, **nothing)
    (runs / "x" / "s0").mkdir(parents=True)
    (runs / "x" / "s0" / "result.json").write_text("{")
    golden = (Path(__file__).parent / "golden.md").read_text()
    found = render(collect(runs), references=references).replace(str(runs), "RUNS")
    assert found == golden


def test_mean_and_sample_std_over_seeds(runs: Path, write: Write, references: Path) -> None:
    write(seed=0, accuracy=1.0)
    write(seed=1, accuracy=0.5)
    [row] = cells(runs, references)
    assert row["test: best"] == "0.7500 ± 0.3536 (2)"
    assert row["best look"] == "0.7500 ± 0.3536 (2)"
    assert row["train: best"] == "1.0000 ± 0.0000 (2)"
    assert row["runs"] == "2 finished"
    assert row["lengths"] == "40 → 500"
    assert (row["chance"], row["guessing"], row["paper"]) == ("0.204", "0.279", "0.90")


def test_one_seed_has_no_spread(runs: Path, write: Write, references: Path) -> None:
    write(accuracy=0.5)
    [row] = cells(runs, references)
    assert row["test: last"] == "0.5000"
    assert row["updates"] == "2,000"


def test_rules_have_columns_of_their_own(runs: Path, write: Write, references: Path) -> None:
    folder = write(checkpoints={"best": 1000, "id": 2000, "band": 3000, "last": 4000})
    content = json.loads((folder / "result.json").read_text())
    by_rule = {"best": 0.9, "id": 0.8, "band": None}
    content["evaluations"] = [
        row | {"value": by_rule[row["which"]]}
        for row in content["evaluations"]
        if row["which"] in by_rule
    ]
    (folder / "result.json").write_text(json.dumps(content))
    [row] = cells(runs, references)
    found = [row[f"test: {rule}"] for rule in ("best", "id", "band", "last")]
    assert found == ["0.9000", "0.8000", "-", "-"]


def test_rules_with_one_checkpoint_share_its_scores(
    runs: Path, write: Write, references: Path
) -> None:
    folder = write(checkpoints={"best": 2000, "id": 1500, "band": 2000, "last": 2000})
    content = json.loads((folder / "result.json").read_text())
    content["evaluations"] = [row for row in content["evaluations"] if row["which"] == "best"]
    (folder / "result.json").write_text(json.dumps(content))
    [row] = cells(runs, references)
    found = [row[f"test: {rule}"] for rule in ("best", "id", "band", "last")]
    assert found == ["1.0000", "-", "1.0000", "1.0000"]
    frame = collect(runs).frame
    assert sorted(frame.loc[frame["kind"] == "look", "which"]) == ["best"]


def test_fingerprints_never_mix_and_competitors_are_reported(
    runs: Path, write: Write, references: Path
) -> None:
    write(seed=0, accuracy=1.0)
    write(seed=1, fingerprint=B, lr=3e-4, accuracy=0.5)
    first, second = cells(runs, references)
    assert first["configuration"] == f"{A} optim.lr=0.0001"
    assert second["configuration"] == f"{B} optim.lr=0.0003"
    assert (first["test: best"], second["test: best"]) == ("1.0000", "0.5000")
    [reported] = [note for note in notes(runs, references) if "compete" in note]
    assert reported.startswith("2 configurations compete for sum x blockdiag")
    assert "differ in optim.lr;" in reported


def test_equal_configurations_of_two_versions_are_reported(
    runs: Path, write: Write, references: Path
) -> None:
    write()
    write(fingerprint=B, versions={"torch": "3"})
    assert [row["configuration"] for row in cells(runs, references)] == [A, B]
    assert any("another version of the task" in note for note in notes(runs, references))


def test_other_models_do_not_compete(runs: Path, write: Write, references: Path) -> None:
    write()
    write(model="mine", fingerprint=B)
    assert [row["configuration"] for row in cells(runs, references)] == [A, B]
    assert not any("compete" in note for note in notes(runs, references))


def test_missing_and_failed_are_words(
    runs: Path, write: Write, fail: Write, references: Path
) -> None:
    fail(model="broken", fingerprint="c" * 12)
    fail(seed=1)
    write(seed=0, evaluations=[])
    by_model = {row["model"]: row for row in cells(runs, references)}
    assert by_model["broken"]["test: best"] == "failed"
    assert by_model["broken"]["parameters"] == "-"
    assert by_model["blockdiag"]["runs"] == "1 finished, 1 failed"
    assert by_model["blockdiag"]["test: best"] == "-"
    assert "failed: sum/broken/fan2024/cccccccccccc/s0: ValueError: out of memory" in notes(
        runs, references
    )


def test_many_failures_are_counted(runs: Path, fail: Write, references: Path) -> None:
    for seed in range(10):
        fail(seed=seed)
    assert not any("more that failed" in note for note in notes(runs, references))
    for seed in (10, 11):
        fail(seed=seed)
    reported = notes(runs, references)
    assert sum(note.startswith("failed: ") for note in reported) == 10
    assert reported[-1] == "and 2 more that failed or diverged"


def test_a_perfect_look_that_ended_a_run_is_reported(
    runs: Path, write: Write, references: Path
) -> None:
    write(seed=0)
    write(seed=1, accuracy=0.5)
    assert any(note.startswith("1 of 2 runs ended early") for note in notes(runs, references))


def test_the_papers_number_stands_only_at_its_length(
    runs: Path, write: Write, references: Path
) -> None:
    folder = write()
    content = json.loads((folder / "result.json").read_text())
    for row in content["evaluations"]:
        row["length"] = {500: 600}.get(row["length"], row["length"])
    (folder / "result.json").write_text(json.dumps(content))
    [row] = cells(runs, references)
    assert (row["lengths"], row["paper"]) == ("40 → 600", "-")


def test_a_row_for_each_test_length(runs: Path, write: Write, references: Path) -> None:
    folder = write(accuracy=0.5)
    content = json.loads((folder / "result.json").read_text())
    for row in content["evaluations"]:
        row["split"] = "test" if row["split"] == "further" else row["split"]
    (folder / "result.json").write_text(json.dumps(content))
    first, second = cells(runs, references)
    assert (first["lengths"], first["test: best"]) == ("40 → 500", "0.5000")
    assert (second["lengths"], second["test: best"]) == ("40 → 997", "0.2500")


def test_a_length_of_looks_alone_has_no_row(runs: Path, write: Write, references: Path) -> None:
    """As under `suite_v1`, whose looks are at 40; but for a run that has nothing else."""
    look = evaluation(40, "test", 0.7, kind="look")
    write(evaluations=[look, evaluation(40, "train_length", 1.0), evaluation(500, "test", 0.9)])
    [row] = cells(runs, references)
    assert (row["lengths"], row["test: best"]) == ("40 → 500", "0.9000")
    write(evaluations=[look])
    [row] = cells(runs, references)
    assert (row["lengths"], row["best look"]) == ("- → 40", "0.7000")


def test_protocols_have_tables_of_their_own(runs: Path, write: Write, references: Path) -> None:
    write()
    write(protocol="mine")
    tables = report_tables(collect(runs), references)
    assert [table.title for table in tables] == ["fan2024", "mine"]
    assert all(len(row) == len(table.columns) for table in tables for row in table.rows)


def test_nothing_yet(runs: Path) -> None:
    assert render(collect(runs)) == "No finished run yet: lrbench train makes one.\n"
    assert render(collect(runs), "csv").startswith("task,task_title,model,")


def test_unfinished_runs_are_reported(runs: Path) -> None:
    (runs / "s0" / "checkpoints").mkdir(parents=True)
    assert "no result yet" in render(collect(runs))


def test_unknown_format(runs: Path) -> None:
    with pytest.raises(UserError, match=r"'markdwon' unknown.*'markdown'"):
        render(collect(runs), "markdwon")


def rows_of(folder: str, which: str, sequence: float) -> list[dict[str, object]]:
    reported = [("token", 20, 0.9), ("sequence", 20, sequence), ("token", 10, 1.0)]
    reported += [("prefix", 1, 1.0), ("prefix", 20, sequence)]
    kept = [
        {"split": POSITIONS, "metric": metric, "length": length, "value": value}
        for metric, length, value in reported
    ]
    usual = {"split": "test", "metric": "accuracy", "length": 20, "value": 0.123}
    return [{**row, "folder": folder, "which": which} for row in [*kept, usual]]


def test_every_position_a_row_a_cell() -> None:
    runs = pd.DataFrame(
        [
            {**CELL, "fingerprint": name, "folder": f}
            for name, f in (("a", "1"), ("a", "2"), ("b", "3"))
        ]
    )
    frame = pd.DataFrame(
        [*rows_of("1", "last", 0.2), *rows_of("2", "last", 0.4), *rows_of("1", "best", 0.9)]
    )
    (table,) = positions_table("fan2024", runs, frame)
    assert [column.title for column in table.columns][3:] == [
        "length",
        "token",
        "sequence",
        "prefix 1",
        "prefix 20",
    ]
    (row,) = table.rows  # b was not scored at every position
    assert [cell.text for cell in row[:4]] == ["group (S3)", "lstm", "a", "20"]
    assert [cell.values for cell in row[4:]] == [(0.9, 0.9), (0.2, 0.4), (1.0, 1.0), (0.2, 0.4)]


def test_a_prefix_that_counts_a_start_symbol_is_of_the_string_before_it() -> None:
    rows = rows_of("1", "last", 0.2)
    rows[4]["length"] = 21  # as files had it
    runs = pd.DataFrame([{**CELL, "fingerprint": "a", "folder": "1"}])
    (table,) = positions_table("fan2024", runs, pd.DataFrame(rows))
    assert [cell.text for cell in table.rows[0][3:6]] == ["20", "0.9000", "0.2000"]


def test_no_table_of_positions_where_none_was_scored() -> None:
    frame = pd.DataFrame(rows_of("1", "last", 0.2))
    usual = frame[frame["split"] == "test"]
    assert positions_table("fan2024", pd.DataFrame(), usual) == []
