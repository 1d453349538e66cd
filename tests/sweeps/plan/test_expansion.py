"""Products of typed values, and the cells of a table with what was typed beside it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lrbench.cli.hydra.compose import composed
from lrbench.errors import UserError
from lrbench.sweeps.plan.expansion import distinct_names, expand, of_table, table_cells, varying
from lrbench.tables import SUITE, TableCell, TableSpec

TABLE = TableSpec(
    "mine",
    "Mine",
    (
        TableCell(("trials=5", "task=sum", "model=a", "optim.lr=1e-3")),
        TableCell(("trials=5", "task=sum", "model=b")),
        TableCell(("trials=5", "task=even_pair", "model=a", "trials=3")),
    ),
)


@pytest.mark.parametrize(
    ("arguments", "cells"),
    [
        ([], [()]),
        (["a=1"], [("a=1",)]),
        (["a=1,2", "b=3"], [("a=1", "b=3"), ("a=2", "b=3")]),
        (
            ["a=1,2", "b=x,y"],
            [("a=1", "b=x"), ("a=1", "b=y"), ("a=2", "b=x"), ("a=2", "b=y")],
        ),
        (["seed=range(3)"], [("seed=0",), ("seed=1",), ("seed=2",)]),
        (["a=[1,2]"], [("a=[1,2]",)]),
        (["a=[1,2],[3]"], [("a=[1,2]",), ("a=[3]",)]),
        (["a='x,y'"], [("a='x,y'",)]),
        (["a='x,y','z w'"], [("a='x,y'",), ("a='z w'",)]),
        (["a=choice(1,2)"], [("a=1",), ("a=2",)]),
        (["a=1,2", "a=3"], [("a=3",)]),
        (["not an override"], [("not an override",)]),
    ],
)
def test_product(arguments: list[str], cells: list[tuple[str, ...]]) -> None:
    assert expand(arguments) == cells


def test_glob_is_of_registered_names() -> None:
    assert expand(["task=glob(*pair)"]) == [("task=even_pair",)]
    assert expand(["model=glob(*ebt_grc)"]) == [("model=ebt_grc",), ("model=rir_ebt_grc",)]
    with pytest.raises(UserError, match="no task matches"):
        expand(["task=glob(zzz*)"])
    with pytest.raises(UserError, match="not with seed"):
        expand(["seed=glob(*)"])


def test_an_interval_is_no_list() -> None:
    with pytest.raises(UserError, match="interval"):
        expand(["optim.lr=interval(0,1)"])


def test_typed_words_win_over_every_cell_of_a_table() -> None:
    cells = list(table_cells(TABLE, ["trials=2", "optim.lr=3e-4,1e-4"]))
    assert len(cells) == 6
    assert all("trials=2" in cell and "trials=5" not in cell for cell in cells)
    assert [cell for cell in cells if "optim.lr=1e-3" in cell] == []


def test_a_group_that_is_typed_wins_over_its_name_in_a_cell() -> None:
    """The cells of `protocols` say which optimiser they have, as walks compare them by settings."""
    cell = TableCell(("task=sum", "model=lstm", "optim.name=adamw", "optim.lr=0.5"))
    (words,) = table_cells(replace(TABLE, cells=(cell,)), ["optim=adam"])
    assert words == ("task=sum", "model=lstm", "optim.lr=0.5", "optim=adam")
    optim = composed(words).optim
    assert (optim.name, optim.lr) == ("adam", 0.5)


def test_the_last_word_of_a_cell_counts() -> None:
    assert list(table_cells(TABLE, []))[2] == ("trials=3", "task=even_pair", "model=a")


def test_task_and_model_choose_among_the_cells() -> None:
    assert [cell[1:3] for cell in table_cells(TABLE, ["task=sum", "model=a,b"])] == [
        ("task=sum", "model=a"),
        ("task=sum", "model=b"),
    ]
    with pytest.raises(UserError, match="no cell with task=mod_arith\nit has"):
        table_cells(TABLE, ["task=mod_arith"])
    with pytest.raises(UserError, match=r"task=even_par\. Did you mean 'even_pair'\?"):
        table_cells(TABLE, ["task=even_par"])


def test_what_tells_cells_apart() -> None:
    cells = expand(["task=a,b", "seed=0,1", "optim.lr=1,2", "x=3"])
    assert varying(cells) == ["optim.lr"]


def test_cells_of_one_name_are_distinguished() -> None:
    cells = [("task=a", "layers=3"), ("task=a",), ("task=b", "layers=3", "seed=1"), ("task=b",)]
    assert distinct_names(cells, ["a · ours", "a · plain", "b · s4", "b · s4"]) == [
        *("a · ours", "a · plain", "b · s4 · layers=3", "b · s4"),
    ]


def test_labels_of_a_table() -> None:
    labelled = TableCell(("task=sum", "model=a", "optim.lr=1"), label="a, plain")
    labels = table_cells(replace(TABLE, cells=(*TABLE.cells, labelled)), ["model=a", "task=sum"])
    assert list(labels.values()) == ["", "a, plain"]


def test_cells_that_become_one_have_the_label_of_what_is_trained() -> None:
    words = ("trials=3", "model.width=8", "task=group", "model=a")
    z60, a5 = (
        TableCell((*words, f"task.group={name}"), label=f"a, {name}") for name in ("Z60", "A5")
    )
    groups = replace(TABLE, cells=(z60, a5))
    [(cell, label)] = table_cells(groups, ["trials=1", "task.group=A5"]).items()
    assert "task.group=A5" in cell and label == "a, A5"
    assert list(table_cells(groups, ["task.group=S3"]).values()) == [""]
    positive = TableCell(words, label="a [0,1]")
    signed = TableCell((*words, "model.mixer.range=signed"), label="a [-1,1]")
    ranges = replace(TABLE, cells=(positive, signed))
    for value, label in (("signed", "a [-1,1]"), ("positive", "a [0,1]")):
        typed = ["seed=1", f"model.mixer.range={value}"]
        assert list(table_cells(ranges, typed).values()) == [label]


def test_a_tables_report_shows_cells_that_keep_what_it_names() -> None:
    named = replace(TABLE, cells=(TableCell(("trials=3", "task=sum", "model=a", "model.width=8")),))
    assert of_table(named, table_cells(named, ["trials=1", "protocol.max_steps=2"]))
    assert of_table(named, table_cells(named, ["model.width=8,9"]))
    assert not of_table(named, table_cells(named, ["model.width=9"]))
    assert of_table(replace(named, kind=SUITE), [("task=sum", "model=mine")])
