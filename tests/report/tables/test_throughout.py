"""Tables of strings that are right throughout: the curve beside the paper's, the depth needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lrbench.errors import UserError
from lrbench.report.output.cells import Table
from lrbench.report.runs.collect import collect
from lrbench.report.tables.matrix import paper_tables
from lrbench.report.tables.throughout import depth_needed
from lrbench.tables import TableCell, TableSpec, load_table, table_file

Write = Callable[..., Path]


def rows_of(table: Table) -> dict[tuple[str, ...], dict[str, str]]:
    titles = [column.title for column in table.columns]
    heads = sum(not column.right for column in table.columns)
    return {
        tuple(cell.text for cell in row[:heads]): {
            title: cell.text for title, cell in zip(titles[heads:], row[heads:], strict=True)
        }
        for row in table.rows
    }


def config(protocol: str, layers: int = 1, **model: Any) -> dict[str, Any]:
    return {
        "task": {"name": "group", "group": "S5"},
        "model": {"name": "deltaproduct", "width": 128, "layers": layers, **model},
        "protocol": {"name": protocol, "stop_at": 0.99},
        "optim": {"name": "adamw"},
    }


def scores(curve: dict[int, float], length: int, value: float) -> list[dict[str, Any]]:
    common = {"n": 1000, "which": "best", "kind": "test"}
    return [
        {"length": length, "split": "test", "metric": "accuracy", "value": value, **common},
        *(
            {"length": t, "split": "positions", "metric": "prefix", "value": one, **common}
            for t, one in curve.items()
        ),
    ]


def test_the_curve_stands_above_the_paper_s(write: Write, runs: Path) -> None:
    for seed, at_256 in enumerate((0.8, 0.6)):
        write(
            task="group",
            model="deltaproduct",
            protocol="siems2025",
            seed=seed,
            config=config(
                "siems2025", mixer={"range": "signed", "householders": 4, "conv_size": 0}
            ),
            evaluations=scores({128: 1.0, 192: 0.9, 256: at_256, 512: 0.0}, 512, 0.0),
        )
    first, *others = paper_tables(collect(runs), load_table("siems2025_figure1"))
    named = [row for table in others if table.columns[1].title == "model" for row in table.rows]
    assert named and {row[1].text for row in named} == {"4 reflections ¶"}
    rows = rows_of(first)
    ours, paper = (rows["4 reflections", whose] for whose in ("ours", "paper"))
    assert ours["128"] == "1.0000 ± 0.0000 (2) ¶"  # of other settings than the table's
    assert ours["256"] == "0.7000 ± 0.1414 (2) ¶"
    assert ours["200"] == "0.7000..0.9000 ¶"  # between 192 and 256
    assert ours["25"] == "-"  # before the first that is recorded
    assert any(note.startswith("¶ runs of other settings") for note in first.notes)
    assert (paper["128"], paper["300"], paper["256"]) == ("1.0 ± 0.05", "0.68 ± 0.05", "-")
    assert rows["1 reflection", "paper"]["10"] == "0.0 ± 0.05"
    assert set(rows["lstm", "ours"].values()) == {"-"}
    assert ("lstm", "paper") not in rows


def test_the_curve_beside_ours_is_of_the_paper_that_the_table_names(
    runs: Path, tmp_path: Path
) -> None:
    """A copy for a smaller budget has a protocol that no paper has; `printed` says whose curve."""
    text = table_file("siems2025_figure1").read_text()
    short = tmp_path / "short.yaml"
    short.write_text(text.replace("protocol: siems2025", "protocol: siems2025_short"))
    alone = rows_of(paper_tables(collect(runs), load_table(str(short)))[0])
    assert ("4 reflections", "paper") not in alone
    short.write_text(f"{short.read_text()}printed: siems2025\n")
    beside = rows_of(paper_tables(collect(runs), load_table(str(short)))[0])
    assert beside["4 reflections", "paper"]["128"] == "1.0 ± 0.05"


DEPTHS = TableSpec(
    "depths",
    "Depths",
    tuple(
        TableCell(("task=group", "model=deltaproduct", f"model.layers={n}"), label="S5")
        for n in (1, 2, 3)
    ),
    protocol="merrill2024",
    kind="depths",
    columns=("group",),
)


def write_depth(write: Write, layers: int, value: float, seed: int = 0) -> None:
    """Write a run of so many layers, right on a share `value` of its strings of 16."""
    write(
        task="group",
        model="deltaproduct",
        protocol="merrill2024",
        seed=seed,
        fingerprint=str(layers) * 12,
        config=config("merrill2024", layers),
        evaluations=scores({}, 16, value),
    )


@pytest.mark.parametrize(
    ("found", "needed"),
    [
        ({1: [0.2], 2: [0.995], 3: [1.0]}, "2"),
        ({1: [0.995, 0.2], 2: [0.995]}, "2"),
        ({3: [0.995]}, "<= 3"),
        ({1: [0.2], 2: [0.5]}, "> 2"),
        ({}, "-"),
    ],
)
def test_the_depth_needed(
    write: Write, runs: Path, found: dict[int, list[float]], needed: str
) -> None:
    for layers, values in found.items():
        for seed, value in enumerate(values):
            write_depth(write, layers, value, seed)
    runs.mkdir(exist_ok=True)
    row = rows_of(paper_tables(collect(runs), DEPTHS)[0])[("S5",)]
    assert row["depth needed"] == needed
    assert row["3 layers"] == ("-" if 3 not in found else f"{found[3][0]:.4f}")


def test_every_depth_has_a_row_of_its_own_below(write: Write, runs: Path) -> None:
    for layers, value in ((1, 0.2), (2, 0.995), (3, 1.0)):
        write_depth(write, layers, value)
    paper = paper_tables(collect(runs), DEPTHS)[1]
    told = {(row[0].text, row[2].text.partition(",")[0]) for row in paper.rows}
    wanted = {("S5, 1 layer", "0.2000"), ("S5, 2 layers", "0.9950"), ("S5, 3 layers", "1.0000")}
    assert wanted <= told


def test_a_depth_of_other_settings_than_the_table_s_is_marked(write: Write, runs: Path) -> None:
    for layers in (1, 2):
        write_depth(write, layers, 0.2)
    cells = tuple(
        replace(cell, fingerprint=one * 12) for cell, one in zip(DEPTHS.cells, "143", strict=True)
    )
    first = paper_tables(collect(runs), replace(DEPTHS, cells=cells))[0]
    row = rows_of(first)[("S5",)]
    assert (row["1 layer"], row["2 layers"], row["3 layers"]) == ("0.2000", "0.2000 ¶", "-")
    assert row["depth needed"] == "> 2 ¶"
    assert any(note.startswith("¶ runs of other settings") for note in first.notes)


def test_without_a_threshold_no_depth_is_named() -> None:
    assert depth_needed({1: [1.0]}, None) == "-"


def test_a_cell_without_layers_is_named(runs: Path) -> None:
    runs.mkdir(exist_ok=True)
    cell = TableCell(("task=group", "model=lstm"), label="S5")
    with pytest.raises(UserError, match=r"no model\.layers=N: task=group model=lstm"):
        paper_tables(collect(runs), TableSpec("x", "X", (cell,), kind="depths"))
