"""What a page says continues its runs does: a table's cells are those that are published.

Reports go by fingerprints that are kept; they are those of the cells, too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from lrbench.cli.hydra.compose import composed
from lrbench.cli.hydra.searching import TunedCell
from lrbench.cli.hydra.sharing import SharedComposition
from lrbench.locations import conf_dir
from lrbench.runs.folder.cell import Cell
from lrbench.sweeps.plan.expansion import table_cells
from lrbench.sweeps.plan.filling import fingerprints
from lrbench.tables import fingerprints_file, load_table

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
        ("rir_ebt_grc", "epochs=2"),
        ("ordered_memory", "epochs=2"),
        ("crvnn", "epochs=2"),
    ],
}


ROWS = {  # published beside the models that their table names
    "suite_v1": [
        ["model=mamba2", "model.mixer.range=signed"],
        ["model=gated_deltanet", "model.mixer.range=signed"],
        ["model=m2rnn", "model.mixer.layer=released", "model.mixer.conv_size=4"],
        *([f"model={name}"] for name in ("gated_deltaproduct", "mamba3", "rwkv7", "m2rnn")),
    ],
}

Place = tuple[str, str, str, str]


def place_of(cell: Sequence[str]) -> Place:
    """The model and the automaton of a cell, by its words."""
    words = dict(word.split("=", 1) for word in cell)
    group, automaton = words.get("task.group", ""), words.get("task.automaton", "")
    return words["task"], words["model"], group, automaton


def published_place(folder: Path) -> Place:
    """The same of a folder of published runs."""
    task = json.loads((folder / "config.json").read_text())["task"]
    group, automaton = task.get("group", ""), str(task.get("automaton", ""))
    return folder.parts[-4], folder.parts[-3], group, automaton


@pytest.fixture(scope="module")
def compose() -> SharedComposition:
    """One for all tables: composing is most of the time here."""
    return SharedComposition(composed)


def test_there_are_such_tables() -> None:
    assert {"fan2024_table2", "fixed_point", "length_curves"} <= set(SWEPT)


@pytest.mark.parametrize("name", SWEPT)
def test_published_runs_are_those_that_a_sweep_would_make(
    name: str, compose: SharedComposition
) -> None:
    """Where a task's or a model's `version` was raised, train the tables that have it again."""
    published = {path.parent for path in RESULTS.glob(f"{name}/records/*/*/*/*/config.json")}
    spec = load_table(name)
    cells = list(table_cells(spec, []))
    for row in ROWS.get(name, ()):
        cells += table_cells(spec, row)
    if spec.search is not None:
        known = {place_of(cell)[1] for cell in cells}  # entries of others: test_suite_entries.py
        published = {folder for folder in published if published_place(folder)[1] in known}
        places = {published_place(folder) for folder in published}
        searches = [TunedCell.of(cell, spec.search) for cell in cells if place_of(cell) in places]
        cells = [cell for search in searches for cell in (*search.tried, *search.chosen)]
    for model, budget in SHORTER.get(name, ()):
        cells += table_cells(load_table(name), [f"model={model}", f"protocol.{budget}"])
    made = {Cell.of(compose(cell)).folder.relative_to("outputs") for cell in cells}
    there = {folder.relative_to(RESULTS / name / "records") for folder in published}
    assert there <= made


def test_kept_fingerprints_are_those_of_a_sweep(compose: SharedComposition) -> None:
    names = [path.stem for path in (conf_dir() / "table").glob("*.yaml")]
    made = fingerprints([load_table(name) for name in names], compose)
    kept = json.loads(fingerprints_file().read_bytes())
    assert kept == made, "python -m benchmarks.fingerprints writes them anew"
    assert len(made) > 300
