from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lrbench.errors import UserError
from lrbench.report.output.cells import Table
from lrbench.report.runs.collect import collect
from lrbench.report.tables.matrix import compact_table, grids_of, paper_tables
from lrbench.report.tables.request import chosen_tables
from lrbench.tables import TableCell, TableSpec, load_table
from tests.report.runs.test_certificates import certificate, keep

Write = Callable[..., Path]
A, B, C = "a" * 12, "b" * 12, "c" * 12
PROTOCOL = {
    "train_length": 40,
    "test_lengths": [500],
    "max_steps": 40_000,
    "look_every": 1_000,
    "look_size": 128,
}


def trained(
    write: Write, values: Sequence[float], protocol: dict[str, Any] | None = None, **changes: Any
) -> None:
    """Write a run a value; `protocol` changes what the paper's settings are."""
    for seed, value in enumerate(values):
        folder = write(seed=seed, accuracy=value, **changes)
        content = json.loads((folder / "result.json").read_text())
        content["config"]["protocol"] = {**PROTOCOL, **(protocol or {})}
        (folder / "result.json").write_text(json.dumps(content))


def spec(*cells: TableCell | str, **changes: Any) -> TableSpec:
    """A table of sum x these models."""
    made = (c if isinstance(c, TableCell) else TableCell(("task=sum", f"model={c}")) for c in cells)
    return TableSpec("mine", "Mine", tuple(made), **changes)


def shown(runs: Path, table: TableSpec, *arguments: Any, **options: Any) -> list[Table]:
    return paper_tables(collect(runs), table, *arguments, **options)


def texts(table: Table) -> list[dict[str, str]]:
    titles = [column.title for column in table.columns]
    return [dict(zip(titles, [c.text for c in row], strict=True)) for row in table.rows]


def number(table: Table, model: str, name: str, task: str = "sum (mod 5)") -> str:
    [found] = [r[task] for r in texts(table) if (r["model"], r["number"]) == (model, name)]
    return found


OURS = "paper: Ours (block-diagonal LRNN)"


def test_what_is_known_on_all_strings_stands_below(runs: Path, write: Write) -> None:
    trained(write, [1.0, 0.99])
    trained(write, [0.27], model="s4d", fingerprint=B)
    table = spec("blockdiag", "s4d")
    before = shown(runs, table)
    keep(next(runs.glob("*/blockdiag/**/s1")), certificate(which="id", step=1500), "id.json")
    assert shown(runs, table) == before  # of a rule that is not shown
    keep(next(runs.glob("*/blockdiag/**/s1")), certificate())
    tables = shown(runs, table)
    (added,) = [one for one in tables if one not in before]
    assert added.title == "On all strings" and len(tables) == len(before) + 1
    (row,) = texts(added)  # of the cell that was searched; best and last are one checkpoint
    assert row["model"] == "blockdiag" and row["runs"] == "2"
    for rule in ("best", "last"):
        assert row[f"certified: {rule}"] == "0 / 1 / 0"
        assert row[f"shortest failure: {rule}"] == "-; 12"


def test_the_papers_layout_with_its_rows_and_verdicts(runs: Path, write: Write) -> None:
    trained(write, [1.0, 0.99, 1.0])
    trained(write, [0.27, 0.28, 0.27], model="s4d", fingerprint=B)
    main = shown(runs, spec("blockdiag", "blockdiag_release", "s4d"))[0]
    assert main.title == "Mine: best look"
    assert number(main, "blockdiag", "best look") == "0.9967 ± 0.0058 (3), reproduced"
    assert number(main, "blockdiag", "fresh strings") == "0.9967 ± 0.0058 (3)"
    assert number(main, "blockdiag", OURS) == "1.00"
    assert number(main, "blockdiag_release", "best look") == "-"
    assert number(main, "blockdiag_release", OURS) == "1.00"
    assert number(main, "s4d", "best look") == "0.2733 ± 0.0058 (3), at chance"
    assert number(main, "s4d", "paper: S4D") == "0.27, at chance"
    assert number(main, "S4", "paper") == "0.27, at chance"
    assert number(main, "guessing", "by the paper's rule") == "0.284"
    assert number(main, "chance", "best baseline") == "0.204"
    models = list(dict.fromkeys(row["model"] for row in texts(main)))
    ours = ["blockdiag", "blockdiag_release", "s4d"]
    assert models == [*ours, "S4", "Liquid-S4", "guessing", "chance"]
    [cell] = {row[2] for row in main.rows if row[0].text == "S4"}
    assert (cell.mark, cell.values) == ("at chance", (0.27,))


def test_paper_rows_without_any_run(runs: Path) -> None:
    tables = shown(runs, load_table("fan2024_table2"))
    main = tables[0]
    printed = {"s4": ("S4", "0.81"), "s4d": ("S4D", "0.82"), "liquid_s4": ("Liquid-S4", "0.72")}
    for model, (theirs, value) in printed.items():
        row = f"paper: {theirs}"
        assert number(main, model, row, "even_pair (mod 5)") == f"{value}, at chance"
        assert number(main, model, row, "mod_arith (mod 5)") == "0.27, at chance"
    for row in ("blockdiag, our recipe", "blockdiag, plain", "blockdiag_release"):
        assert number(main, row, OURS, "even_pair (mod 5)") == "0.99"
    assert [table.rows for table in tables[1:]] == [()] * 4
    assert sum("runs have ended" in note for note in main.notes) == 10
    assert f"and {len(load_table('fan2024_table2').cells) - 10} more such cells" in main.notes


def test_what_a_verdict_rests_on(runs: Path, write: Write) -> None:
    trained(write, [1.0, 0.99, 1.0], {"max_steps": 11_500})
    [row] = texts(shown(runs, spec("blockdiag"))[1])
    assert row == {
        "task": "sum",
        "model": "blockdiag",
        "n": "3",
        "mean": "0.9967",
        "95 % interval": "[0.9823, 1.0000]",
        "paper": "1.00",
        "verdict": "reproduced",
        "train": "1.0000 ± 0.0000 (3)",
        "looks": "12 × 128",
        "guessing": row["guessing"],
        "up to": row["up to"],
    }
    assert 0.25 < float(row["guessing"]) < float(row["up to"]) < 0.29


@pytest.mark.parametrize(
    ("protocol", "expected"),
    [
        ({}, "reproduced"),
        ({"max_steps": 20_000}, "reproduced"),  # fewer looks flatter less
        ({"max_steps": 41_000}, "not comparable"),
        ({"look_every": 500}, "not comparable"),
        ({"train_length": 60}, "not comparable"),
    ],
)
def test_comparable_is_no_more_looks_at_the_same_lengths(
    runs: Path, write: Write, protocol: dict[str, Any], expected: str
) -> None:
    trained(write, [1.0] * 3, protocol)
    [row] = texts(shown(runs, spec("blockdiag"))[1])
    assert row["verdict"] == expected


def test_another_rule_is_not_comparable_with_the_papers(runs: Path, write: Write) -> None:
    trained(write, [1.0] * 3)
    main, _, fresh, solved, _ = shown(runs, spec("blockdiag"), "last")
    assert main.title == "Mine: last look"
    assert number(main, "blockdiag", "last look") == "1.0000 ± 0.0000 (3), not comparable"
    assert [column.title for column in fresh.columns][4] == "last"
    assert solved.title == "Solve rate (last)"


def test_two_runs_have_no_verdict(runs: Path, write: Write) -> None:
    trained(write, [0.2, 0.2])
    main = shown(runs, spec("blockdiag"))[0]
    assert number(main, "blockdiag", "best look") == "0.2000 ± 0.0000 (2)"
    assert number(main, "blockdiag", "fresh strings") == "0.2000 ± 0.0000 (2)"


def test_fresh_strings_at_chance_are_marked_under_every_rule(runs: Path, write: Write) -> None:
    trained(write, [0.204, 0.2, 0.202])
    [row] = texts(shown(runs, spec("blockdiag"))[2])
    assert (row["length"], row["strings"], row["chance"]) == ("500", "10,000", "0.204")
    assert {row[rule] for rule in ("best", "id", "band", "last")} == {
        "0.2020 ± 0.0020 (3), at chance"
    }


def test_competing_configurations_show_nothing_until_one_is_chosen(
    runs: Path, write: Write
) -> None:
    trained(write, [1.0] * 3)
    trained(write, [0.5] * 3, fingerprint=B, lr=3e-4)
    tables = shown(runs, spec("blockdiag"))
    assert number(tables[0], "blockdiag", "best look") == "2 compete"
    assert number(tables[0], "blockdiag", "fresh strings") == "2 compete"
    assert [table.rows for table in tables[1:]] == [()] * 4
    [note] = [note for note in tables[0].notes if "compete" in note]
    assert f"({A}, {B}): they differ in optim.lr; none is shown" in note
    chosen = shown(runs, spec("blockdiag"), choose=[B[:4]])[0]
    assert number(chosen, "blockdiag", "fresh strings") == "0.5000 ± 0.0000 (3)"
    assert f"sum x blockdiag: {B} is shown, not {A}" in chosen.notes
    with pytest.raises(UserError, match=r"no run with fingerprint 'dddd'"):
        shown(runs, spec("blockdiag"), choose=["dddd"])
    with pytest.raises(UserError, match="4 digits or more"):
        shown(runs, spec("blockdiag"), choose=["b"])


def test_a_cells_overrides_decide_between_configurations(runs: Path, write: Write) -> None:
    trained(write, [1.0] * 3)
    trained(write, [0.5] * 3, fingerprint=B, lr=3e-4)
    cells = [
        TableCell(("task=sum", "model=blockdiag", f"optim.lr={lr}"), "S4")
        for lr in ("1e-4", "0.0003")
    ]
    main = shown(runs, spec(*cells))[0]
    assert number(main, "blockdiag optim.lr=1e-4", "fresh strings").startswith("1.0000")
    assert number(main, "blockdiag optim.lr=0.0003", "fresh strings").startswith("0.5000")
    assert number(main, "blockdiag optim.lr=1e-4", "paper: S4") == "0.27, at chance"


def test_failed_configurations_do_not_compete(runs: Path, write: Write, fail: Write) -> None:
    trained(write, [1.0] * 3)
    fail(seed=3)
    fail(fingerprint=B)
    fail(model="broken", fingerprint=C)
    main, verdicts, _, solved, cost = shown(runs, spec("blockdiag", "broken"))
    assert number(main, "blockdiag", "best look") == "1.0000 ± 0.0000 (3), reproduced"
    assert number(main, "broken", "best look") == "failed"
    assert [row["verdict"] for row in texts(verdicts)] == ["reproduced", "failed"]
    assert [row["solved"] for row in texts(solved)] == ["3/3 [0.44, 1.00]", "-"]
    assert [row["runs"] for row in texts(cost)] == ["3 finished, 1 failed", "1 failed"]
    assert sum(note.startswith("failed: ") for note in main.notes) == 2


def test_a_diverged_run_has_not_solved(runs: Path, write: Write) -> None:
    trained(write, [1.0, 1.0])
    write(seed=7, status="diverged", stopped="diverged", evaluations=[], checkpoints={})
    main, _, _, solved, cost = shown(runs, spec("blockdiag"))
    [row] = texts(solved)
    assert row["solved"] == "2/3 [0.21, 0.94]"
    assert (row["mean [bootstrap]"], row["median"]) == ("1.0000", "1.0000")
    assert "sum x blockdiag: 1 of 3 runs have no number by best" in main.notes
    assert [row["runs"] for row in texts(cost)] == ["2 finished, 1 diverged"]


def test_solve_rate_and_cost(runs: Path, write: Write) -> None:
    trained(write, [1.0, 0.99, 0.5], {"max_steps": 5_000}, parameters=1_000, train_seconds=90.0)
    _, _, _, solved, cost = shown(runs, spec("blockdiag"), digits=2)
    [row] = texts(solved)
    assert row["solved"] == "2/3 [0.21, 0.94]"
    assert row["mean [bootstrap]"] == "0.83 [0.50, 1.00]"
    assert (row["median"], row["lowest"], row["highest"]) == ("0.99", "0.50", "1.00")
    [row] = texts(cost)
    assert (row["parameters"], row["state"], row["time"]) == ("1,000", "64", "1 min 30 s")
    assert (row["updates"], row["budget"], row["tuning"]) == ("2,000", "5,000", "-")
    assert row["configuration"] == A


def test_pairs_say_how_probable_and_how_much(runs: Path, write: Write) -> None:
    trained(write, [1.0, 0.9, 0.8])
    trained(write, [0.9, 0.5, 0.4], model="mine", fingerprint=B)
    [row] = texts(shown(runs, spec("blockdiag", "mine"))[5])
    assert (row["A"], row["B"], row["runs"]) == ("blockdiag", "mine", "3, 3")
    assert row["P(A > B)"].startswith("0.83 [")  # (3 + 2.5 + 2) / 9
    assert row["mean A - mean B"].startswith("0.300 [")


def test_many_models_are_each_compared_with_the_first(runs: Path, write: Write) -> None:
    names = [f"m{index}" for index in range(8)]
    for name in names:
        trained(write, [0.5], model=name)
    pairs = shown(runs, spec(*names))[5]
    assert [(row["A"], row["B"]) for row in texts(pairs)] == [("m0", name) for name in names[1:]]
    assert pairs.notes[-1].startswith("more than 6 models")
    assert texts(pairs)[0]["P(A > B)"] == "0.50"  # no interval of one run


def test_runs_of_no_cell_are_counted(runs: Path, write: Write) -> None:
    trained(write, [1.0] * 3)
    trained(write, [1.0] * 2, model="mine", fingerprint=B)
    write(protocol="other", fingerprint=C)
    notes = shown(runs, spec("blockdiag"))[0].notes
    assert "3 runs of no cell of this table: sum x blockdiag by other (1), sum x mine (2)" in notes


def test_runs_that_fit_no_cell_by_their_settings_are_counted(runs: Path, write: Write) -> None:
    trained(write, [1.0] * 2)
    cell = TableCell(("task=sum", "model=blockdiag", "model.width=777"))
    notes = shown(runs, replace(spec("blockdiag"), cells=(cell,)))[0].notes
    told = "sum x blockdiag with model.width=64 (the table's: 777) (2)"
    assert f"2 runs of no cell of this table: {told}" in notes


def test_one_run_of_no_cell_is_a_run(runs: Path, write: Write) -> None:
    trained(write, [1.0])
    trained(write, [1.0], model="mine", fingerprint=B)
    notes = shown(runs, spec("blockdiag"))[0].notes
    assert "1 run of no cell of this table: sum x mine (1)" in notes


def test_several_test_lengths_show_the_papers(runs: Path, write: Write) -> None:
    folder = write(accuracy=0.5)
    content = json.loads((folder / "result.json").read_text())
    for row in content["evaluations"]:
        row["split"] = "test" if row["split"] == "further" else row["split"]
    (folder / "result.json").write_text(json.dumps(content))
    main = shown(runs, spec("blockdiag"))[0]
    assert number(main, "blockdiag", "fresh strings") == "0.5000"
    assert any("tested at 997 as well" in note for note in main.notes)


def test_the_numbers_beside_ours_may_be_of_another_paper_with_the_same_protocol(runs: Path) -> None:
    def first(**changes: Any) -> dict[str, str]:
        cell = TableCell(("task=slice_parity", "model=lstm"))
        table = replace(spec(cell, protocol="walker2025"), **changes)
        return {row["model"]: row["slice_parity"] for row in texts(shown(runs, table, "best")[0])}

    assert first()["BD-SLiCE d=128 b=4"] == "0.953 ± 0.039" and "PD-SSM" not in first()
    theirs = first(printed="pdssm_fsa")
    assert theirs["PD-SSM"] == "0.999 ± 0.001" and "BD-SLiCE d=128 b=4" not in theirs
    assert load_table("pdssm_fsa").paper == "pdssm_fsa"
    with pytest.raises(UserError, match="printed of table mine 'mine' unknown"):
        first(printed="mine")


def test_an_unknown_rule(runs: Path) -> None:
    with pytest.raises(UserError, match=r"rule 'lst' unknown.*'last'"):
        shown(runs, spec("blockdiag"), "lst")


def test_a_table_of_ones_own(runs: Path, write: Write) -> None:
    trained(write, [1.0] * 3)
    trained(write, [0.5] * 3, model="mine", fingerprint=B)
    trained(write, [0.9] * 3, task="even_pair")
    tables = chosen_tables(collect(runs), ["mine", "blockdiag"], ["even_pair", "sum"])
    main = tables[0]
    assert [c.title for c in main.columns][2:] == ["even_pair (mod 5)", "sum (mod 5)"]
    assert [row["model"] for row in texts(main)][:2] == ["mine", "mine"]
    assert number(main, "mine", "fresh strings", "even_pair (mod 5)") == "-"
    assert not any(row["model"] == "S4" for row in texts(main))
    assert len(tables) == 6
    everything = chosen_tables(collect(runs), [], [])[0]
    assert {row["model"] for row in texts(everything)} >= {"mine", "blockdiag"}


def test_ones_own_table_may_name_rows_of_the_paper(runs: Path, write: Write) -> None:
    trained(write, [1.0] * 3)
    main = chosen_tables(collect(runs), ["blockdiag", "s4d"], ["sum"])[0]
    assert [row["model"] for row in texts(main)][3:] == ["S4D", "guessing", "chance"]
    assert number(main, "S4D", "paper") == "0.27, at chance"


def test_ones_own_table_has_a_part_for_each_protocol(runs: Path, write: Write) -> None:
    trained(write, [1.0] * 3)
    write(protocol="other", model="mine", fingerprint=B)
    tables = chosen_tables(collect(runs), [], ["sum"])
    titles = [table.title for table in tables if "look" in table.title and ":" in table.title]
    assert titles == ["fan2024: best look", "other: best look"]


@pytest.mark.parametrize(
    ("rows", "columns", "message"),
    [(["mien"], [], "'mine'"), (["S4"], [], "'S4' unknown"), ([], ["smu"], "'sum'")],
)
def test_misspelt_rows_and_columns(
    runs: Path, write: Write, rows: list[str], columns: list[str], message: str
) -> None:
    trained(write, [1.0], model="mine")
    with pytest.raises(UserError, match=message):
        chosen_tables(collect(runs), rows, columns)


def test_other_reference_values(runs: Path, write: Write, references: Path) -> None:
    trained(write, [1.0] * 3)
    main = shown(runs, spec("blockdiag"), references=references)[0]
    assert number(main, "blockdiag", OURS) == "0.90"
    assert number(main, "S4", "paper") == "0.11"  # these tables do not tell the rule
    assert number(main, "blockdiag", "best look").endswith("(3), not comparable")


def test_the_best_of_looks_and_of_tests_is_marked_apart(runs: Path, write: Write) -> None:
    trained(write, [1.0, 0.9, 0.9])
    trained(write, [1.0] * 3, model="gru", fingerprint=B)
    trained(write, [0.2] * 3, model="s4", fingerprint=C)
    main = shown(runs, spec("blockdiag", "gru", "s4"))[0]
    marked = [(row[0].text, row[1].text) for row in main.rows if row[2].best]
    assert marked == [("gru", "best look"), ("gru", "fresh strings")]


def compact(runs: Path, table: TableSpec, **options: Any) -> list[list[str]]:
    found = compact_table(table.title, grids_of(collect(runs), table, "best"), "best", **options)
    return [[cell.text for cell in row] for row in found.rows]


def test_a_compact_table_has_a_cell_a_model_and_task(runs: Path, write: Write) -> None:
    trained(write, [1.0, 0.9])
    trained(write, [0.25], model="s4", fingerprint=B)
    trained(write, [0.5], model="gru", fingerprint=C)
    table = spec("gru", "blockdiag", "s4", "lru")
    found = compact_table("t", grids_of(collect(runs), table, "best"), "best")
    assert [column.title for column in found.columns] == [
        "",
        "sum (chance 0.204): at 500 / at 40 / paper",
    ]
    assert [[cell.text for cell in row] for row in found.rows] == [
        ["gru", "0.500 (1) / 1.000 / -"],
        ["blockdiag", "0.950 ± 0.071 (2) / 1.000 / 1.00"],
        ["s4", "0.250 (1) / 1.000 / 0.27"],
    ]
    assert [row[1].best for row in found.rows] == [False, True, False]
    assert compact(runs, table, rows=["s4"], digits=2) == [["s4", "0.25 (1) / 1.00 / 0.27"]]
    with pytest.raises(UserError, match="row of table 'Mine' 'lru' unknown"):
        compact(runs, table, rows=["lru"])


def test_what_was_learned_is_of_the_checkpoint_that_was_best_where_it_was_trained(
    runs: Path, write: Write
) -> None:
    """One that was lucky at the test length may be worse at the training length."""
    lucky, best = (0.3, 0.4, 0.5), (0.97, 0.98, 0.99)
    for seed in range(3):
        folder = write(seed=seed, accuracy=0.27)
        content = json.loads((folder / "result.json").read_text())
        content["config"]["protocol"] = PROTOCOL
        for row in content["evaluations"]:
            if row["split"] == "train_length" and row["kind"] == "test":
                row["value"] = best[seed] if row["which"] == "id" else lucky[seed]
        (folder / "result.json").write_text(json.dumps(content))
    assert compact(runs, spec("blockdiag")) == [["blockdiag", "0.270 ± 0.000 (3) / 0.980 / 1.00"]]
    assert "not learned" not in number(shown(runs, spec("blockdiag"))[0], "blockdiag", "best look")


def test_a_table_without_cells_says_nothing_of_any_run(runs: Path, fail: Write) -> None:
    fail(seed=0)
    notes = [note for table in shown(runs, spec()) for note in table.notes]
    assert not any("failed" in note for note in notes), notes
