from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.errors import UserError
from lrbench.protocols.base import rule_names
from lrbench.registry import ENCODERS, MIXERS, PROTOCOLS, TASKS
from lrbench.report.paper import reference
from lrbench.report.paper.recipe import lookup_run
from lrbench.report.paper.reference import load, lookup, names, printed, reference_dir
from lrbench.tables import load_table, table_names


@pytest.mark.parametrize("model", ["blockdiag", "blockdiag_release"])
@pytest.mark.parametrize(
    ("task", "name"), [("sum", "Sum"), ("even_pair", "EvenPair"), ("mod_arith", "ModArith")]
)
def test_our_reference_tables_answer_as_printed(task: str, name: str, model: str) -> None:
    with (reference_dir() / "lrnn_table2.csv").open(newline="") as file:
        printed = [
            row
            for row in csv.DictReader(file)
            if row["task"] == f"{name}(5)" and row["model"].startswith("Ours")
        ]
    found = lookup(task, 5, model, "fan2024")
    assert len(printed) == 1
    assert found is not None
    assert found.text == printed[0]["value"]
    assert found.value == float(printed[0]["value"])
    assert found.length == (499 if task == "mod_arith" else 500)
    assert "Table 2" in found.source


def test_the_value_is_the_files(references: Path) -> None:
    found = lookup("sum", 5, "blockdiag", "fan2024", references)
    assert found is not None
    assert (found.text, found.value) == ("0.90", 0.9)
    assert [found.at(500), found.at(499), found.at(None)] == ["0.90", "-", "-"]


@pytest.mark.parametrize(
    ("task", "modulus", "model", "protocol"),
    [
        ("sum", 3, "blockdiag", "fan2024"),
        ("sum", None, "blockdiag", "fan2024"),
        ("parity", 2, "blockdiag", "fan2024"),
        ("sum", 5, "mine", "fan2024"),
        ("sum", 5, "blockdiag", "rir2023"),
    ],
)
def test_no_value_where_the_paper_has_none(
    task: str, modulus: int | None, model: str, protocol: str, references: Path
) -> None:
    assert lookup(task, modulus, model, protocol, references) is None


def test_a_run_is_looked_up_by_its_configuration(
    result: Callable[..., dict[str, Any]], references: Path
) -> None:
    found = lookup_run(result(), references)
    assert found is not None
    assert found.text == "0.90"
    assert lookup_run(result(config={"task": None}), references) is None


def test_missing_tables_are_an_error_not_an_empty_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        reference, "__file__", str(tmp_path / "lrbench" / "report" / "paper" / "x.py")
    )
    with pytest.raises(UserError, match="reference tables are missing"):
        reference_dir()
    (tmp_path / "data" / "reference").mkdir(parents=True)
    assert reference_dir() == tmp_path / "data" / "reference"
    (tmp_path / "lrbench" / "data" / "reference").mkdir(parents=True)
    assert reference_dir() == tmp_path / "lrbench" / "data" / "reference"


@pytest.mark.parametrize(
    ("protocol", "task", "source", "turned"),
    [
        ("fan2024", "sum", "Fan2024-LRNN (arXiv:2309.07412v2), Table 2", ""),
        ("grazzi2025", "xlstm_parity", "Grazzi2025 (arXiv:2411.12537v5) Table 3", "chance is 0"),
        ("deletang2022", "nnch_parity_check", "", "percentages as shares"),
    ],
)
def test_a_legend_can_say_where_a_number_is_from_and_how_it_was_turned(
    protocol: str, task: str, source: str, turned: str
) -> None:
    first = printed(task, 5, protocol)[0]
    assert first.source.startswith(source) and first.source.count("Table") == 1
    assert turned in first.turned and bool(turned) == bool(first.turned)


def test_every_row_of_the_paper_in_its_order() -> None:
    found = printed("sum", 5, "fan2024")
    assert [row.model for row in found][1:] == ["S4", "S4D", "Liquid-S4"]
    assert {(row.rule, row.trials) for row in found} == {("best", 5)}
    assert printed("sum", 7, "fan2024") == printed("sum", 5, "mine") == []


@pytest.mark.parametrize(
    ("model", "row", "text"),
    [
        ("s4", None, "0.11"),
        ("S-4", None, "0.11"),
        ("mine", "S4", "0.11"),
        ("blockdiag", "S4", "0.11"),
    ],
)
def test_a_row_is_found_by_its_name_or_as_the_table_says(
    model: str, row: str | None, text: str, references: Path
) -> None:
    found = lookup("sum", 5, model, "fan2024", references, row=row)
    assert found is not None
    assert found.text == text
    assert (found.rule, found.trials) == (None, None)  # these tables tell neither


@pytest.mark.parametrize(
    ("protocol", "task", "model", "reach", "row"),
    [
        ("walker2025", "slice_parity", "deltanet", None, "DeltaNet"),
        ("walker2025", "slice_parity", "deltanet", "positive", "DeltaNet"),
        ("walker2025", "slice_parity", "deltanet", "signed", "DeltaNet[-1,1]"),
        ("walker2025", "slice_parity", "gated_deltanet", "signed", None),
        ("walker2025", "slice_parity", "gated_deltaproduct", "signed", "Gated DeltaProduct[-1,1]"),
        ("grazzi2025", "xlstm_parity", "mamba", "positive", "Mamba [0,1]"),
        ("grazzi2025", "xlstm_parity", "mamba", "signed", "Mamba [-1,1]"),
        ("grazzi2025", "xlstm_parity", "mamba", None, None),
        ("walker2025", "slice_parity", "lstm", None, "LSTM"),
    ],
)
def test_eigenvalues_of_either_sign_are_another_row(
    protocol: str, task: str, model: str, reach: str | None, row: str | None
) -> None:
    found = lookup(task, None, model, protocol, reach=reach)
    assert (found and found.model) == row
    run: dict[str, Any] = {"task": task, "model": model, "protocol": protocol}
    run["config"] = {"model": {"mixer": {} if reach is None else {"range": reach}}}
    alone = lookup_run(run)
    assert (alone and alone.model) == row


@pytest.mark.parametrize("table", ["grazzi2025_table3", "walker2025_table2"])
def test_cells_are_held_against_the_row_with_their_eigenvalues(table: str) -> None:
    spec = load_table(table)
    labelled = [cell for cell in spec.cells if (cell.label or "").endswith("1]")]
    assert len(labelled) >= 8
    for cell in labelled:
        found = lookup(cell.task, None, cell.model, spec.paper, row=cell.reference)
        assert found is not None, cell
        assert ("[-1,1]" in found.model) == ("[-1,1]" in str(cell.label)), cell


def test_every_name_of_the_papers_is_one_that_the_tables_have_and_lrbench_knows() -> None:
    rows = load(reference_dir())

    def there(named: dict[str, str], *columns: str) -> bool:
        return any(
            row["paper"].startswith(named["paper"]) and all(named[c] in row[c] for c in columns)
            for row in rows
        )

    for row in names("tasks"):
        printed_task = row | {"task": row["task"].replace("{modulus}", "5")}
        assert there(printed_task, "table", "task"), row
        assert row["lrbench_task"] in TASKS and row["protocol"] in {*PROTOCOLS, *table_names()}
    for row in names("models"):
        assert there(row, "model"), row
        assert row["lrbench_model"] in {*MIXERS.names(), *ENCODERS.names()}
    for row in names("settings"):
        assert there(row, "metric"), row
    for row in names("rules"):
        assert there(row, "aggregation"), row
        assert row["rule"] in rule_names()
