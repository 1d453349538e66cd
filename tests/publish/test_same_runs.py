"""What a page says continues its runs does: a table's cells are those that are published."""

from __future__ import annotations

from pathlib import Path

import pytest

from lrbench.cli.hydra.compose import composed
from lrbench.runs.folder.cell import Cell
from lrbench.sweeps.plan.expansion import table_cells
from lrbench.tables import load_table

RESULTS = Path(__file__).resolve().parents[2] / "results"
SWEPT = sorted({path.parts[-7] for path in RESULTS.glob("*/records/*/*/*/*/config.json")})


SHORTER = {  # published with a smaller budget than their table asks for, as their pages say
    "rir2023_table2": [
        ("bbt_grc", "epochs=20"),
        ("mega", "epochs=8"),
        ("rir_grc", "epochs=12"),
        ("rnn_grc", "epochs=12"),
        ("s4d_stack", "epochs=4"),
        ("pooled", "epochs=12"),
        ("rir_ebt_grc", "epochs=12"),
    ],
    "rir2023_table3": [
        ("bbt_grc", "epochs=12"),
        ("mega", "epochs=6"),
        ("rir_grc", "epochs=6"),
        ("s4d_stack", "epochs=3"),
        ("rnn_grc", "epochs=3"),
        ("pooled", "epochs=3"),
        ("ebt_grc", "epochs=2"),
    ],
}


def test_there_are_such_tables() -> None:
    assert {"fan2024_table2", "fixed_point", "length_curves"} <= set(SWEPT)


@pytest.mark.parametrize("name", SWEPT)
def test_published_runs_are_those_that_a_sweep_would_make(name: str, tmp_path: Path) -> None:
    """Where a task's or a model's `version` was raised, train the tables that have it again."""
    published = {path.parent for path in RESULTS.glob(f"{name}/records/*/*/*/*/config.json")}
    cells = list(table_cells(load_table(name), [f"output_dir={tmp_path}"]))
    for model, budget in SHORTER.get(name, ()):
        words = [f"output_dir={tmp_path}", f"model={model}", f"protocol.{budget}"]
        cells += table_cells(load_table(name), words)
    made = {Cell.of(composed(cell)).folder.relative_to(tmp_path) for cell in cells}
    there = {folder.relative_to(RESULTS / name / "records") for folder in published}
    assert there <= made
