"""Rows and columns of a user's own choice, and runs of both kinds in one folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from lrbench.errors import UserError
from lrbench.report.runs.collect import collect
from lrbench.report.runs.collection import Collection
from lrbench.report.tables.request import Request, chosen_tables, narrowed

Write = Callable[..., Path]
B, C = "b" * 12, "c" * 12


@pytest.fixture
def mixed(runs: Path, write: Write, write_splits: Write) -> Collection:
    """Runs of blockdiag on sum, and of bbt_grc on listops (two ways) and on logic."""
    write()
    write_splits({"near_iid": 0.59, "args_10": 0.4})
    write_splits({"lra_test": 0.55}, source="lra_train", fingerprint=B)
    write_splits({"test_8": 0.7}, task="logic", fingerprint=C)
    return collect(runs)


def mains(
    collection: Collection, rows: Sequence[str], columns: Sequence[str], rule: str = "best"
) -> dict[str, str]:
    """The title of each main table, with its columns."""
    return {
        table.title: ",".join(column.title for column in table.columns[2:])
        for table in chosen_tables(collection, rows, columns, rule)
        if table.columns[1].title == "number"
    }


OURS = "rir2023: listops: best"
LRA = "rir2023: listops, trained on lra_train: best"
LOGIC = "rir2023: logic: best"
SUM = "fan2024: best look"


def test_all_there_is(mixed: Collection) -> None:
    assert mains(mixed, (), ()) == {
        SUM: "sum (mod 5)",
        OURS: "near_iid,args_10",
        LRA: "lra_test",
        LOGIC: "test_8",
    }


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [
        ((), ("listops",), {OURS: "near_iid,args_10", LRA: "lra_test"}),
        ((), ("args_10", "test_8"), {OURS: "args_10", LOGIC: "test_8"}),
        ((), ("sum", "near_iid"), {SUM: "sum (mod 5)", OURS: "near_iid"}),
        (("blockdiag",), (), {SUM: "sum (mod 5)"}),
        (("bbt_grc",), ("lra_test",), {LRA: "lra_test"}),
        (("MEGA",), ("near_iid",), {OURS: "near_iid"}),
    ],
)
def test_columns_are_tasks_or_splits(
    mixed: Collection, rows: tuple[str, ...], columns: tuple[str, ...], expected: dict[str, str]
) -> None:
    assert mains(mixed, rows, columns) == expected


def test_a_row_of_the_paper_beside_ours(mixed: Collection) -> None:
    main = chosen_tables(mixed, ("bbt_grc", "MEGA"), ("near_iid",))[0]
    found = [(row[0].text, row[1].text, row[2].text) for row in main.rows[:3]]
    assert found == [
        ("bbt_grc", "best", "0.5900"),
        ("bbt_grc", "paper: BBT-GRC", "0.5918"),
        ("MEGA", "paper", "0.7545 ± 0.0026"),
    ]


@pytest.mark.parametrize(
    ("rows", "columns", "known"),
    [
        (("nope",), (), "bbt_grc, blockdiag"),
        ((), ("nope",), "args_10, listops, logic, lra_test, near_iid, sum, test_8"),
    ],
)
def test_a_name_that_nothing_knows(
    mixed: Collection, rows: tuple[str, ...], columns: tuple[str, ...], known: str
) -> None:
    with pytest.raises(UserError, match=known):
        chosen_tables(mixed, rows, columns)


def test_a_rule_of_lengths_leaves_runs_over_corpora_out(mixed: Collection, runs: Path) -> None:
    assert mains(mixed, (), (), rule="id") == {"fan2024: id look": "sum (mod 5)"}
    with pytest.raises(UserError, match=r"rule .of runs over a corpus. 'id' unknown") as caught:
        chosen_tables(mixed, ("bbt_grc",), (), "id")
    assert caught.value.exit_code == 2


def test_a_split_as_a_column_keeps_the_runs_of_its_task(mixed: Collection) -> None:
    assert set(narrowed(mixed, Request(columns=("near_iid",))).runs["task"]) == {"listops"}
    assert set(narrowed(mixed, Request(columns=("sum",))).runs["task"]) == {"sum"}
