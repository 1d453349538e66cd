"""Measured tables: raw output into rows, rows into a page that reads nothing else."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.pages.__main__ import main
from benchmarks.pages.build import TABLES, build, rebuild
from benchmarks.pages.figure import Plot, _ticks, svg
from lrbench.errors import UserError
from lrbench.publish.layout import is_measured
from tests.cli.conftest import lrbench

__all__ = ["lrbench"]  # a fixture

RESULTS = Path(__file__).resolve().parents[3] / "results"
ENVIRONMENT = {
    **{"lrbench": "0.1.0", "commit": "c" * 40, "dirty": False, "python": "3.11.7"},
    **{"torch": "2.13.0", "cpu": "A CPU", "cores": 2, "threads": 1, "devices": []},
    **{"date": "2026-11-21T20:11:09+00:00"},
}
PrintedCell = dict[str, Any]
Run = Callable[..., Any]


def raw(command: list[str], **content: Any) -> dict[str, Any]:
    environment = ENVIRONMENT | {"command": command}
    return {
        "what": "x",
        "options": {"rounds": 3, "device": "cpu"},
        "environment": environment,
        **content,
    }


def tree_cell(
    model: str, paper: str, lengths: str, passes: list[float], **changes: Any
) -> PrintedCell:
    unit = [0.5] * len(passes)
    return {
        **{"model": model, "paper": paper, "lengths": lengths, "strings": len(passes)},
        **{"seconds": None, "ratio": None, "peak_bytes": 3 * 2**20, "failed": ""},
        **{"passes": passes, "unit_passes": unit},
    } | changes


CELLS = [
    tree_cell("rnn_grc", "RNN-GRC", "200-250", [0.5, 0.5, 0.5]),
    tree_cell("ebt_grc", "EBT-GRC", "200-250", [1.0, 2.0, 1.5]),
    tree_cell("bt_grc", "BT-GRC", "200-250", [], peak_bytes=None, failed="out of memory"),
    tree_cell("ebt_grc", "EBT-GRC", "500-600", [6.6, 6.6]),
]


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    """A folder of Table 1 with the raw output of a small measurement."""
    folder = tmp_path / "rir_table1"
    (folder / "records").mkdir(parents=True)
    command = ["lrbench", "bench", "rir_table1", "--output", "/tmp/x/raw.json", "--strings", "3"]
    put(folder, "raw.json", raw(command, cells=CELLS))
    return folder


def put(folder: Path, name: str, content: Any) -> None:
    (folder / "records" / name).write_text(json.dumps(content))


def written(folder: Path) -> dict[str, bytes]:
    made = build(folder)
    for name, content in made.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    return made


def table_rows(page: str) -> list[list[str]]:
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    return [[text.strip() for text in line.strip("| ").split(" | ")] for line in lines]


def test_which_folders_are_measured(trees: Path, tmp_path: Path) -> None:
    assert is_measured(trees), "by its raw output"
    written(trees)
    shutil.rmtree(trees / "records")
    assert is_measured(trees), "by its settings"
    assert not is_measured(tmp_path / "toy") and not is_measured(RESULTS / "fan2024_table2")
    assert set(TABLES) == {"fan2024_speed", "rir_table1", "lmu_speed"}


def test_rows_of_a_table_of_trees(trees: Path) -> None:
    made = build(trees)
    assert set(made) == {
        *("runs.csv", "settings.json", "README.md"),
        *("figures/figure_time.svg", "figures/figure_memory.svg"),
    }
    rows = list(csv.DictReader(made["runs.csv"].decode().splitlines()))
    assert len(rows) == 3 + 3 + 1 + 2
    assert rows[3] == {
        **{"model": "ebt_grc", "paper": "EBT-GRC", "lengths": "200-250", "string": "0"},
        **{"seconds": "1.0", "unit_seconds": "0.5", "peak_bytes": "3145728", "failed": ""},
    }
    assert (rows[6]["model"], rows[6]["failed"], rows[6]["seconds"]) == (
        *("bt_grc", "out of memory", ""),
    )


def test_page_of_a_table_of_trees(trees: Path) -> None:
    page = build(trees)["README.md"].decode()
    assert page.startswith("<!-- made by benchmarks.pages")
    assert "\n# Time and memory of encoders (Ray Chowdhury & Caragea 2023, Table 1)\n" in (
        page.replace("\\", "")
    )
    found = table_rows(page.replace("\\", ""))
    assert ["rnn_grc", "3", "0.500", "1.00", "1.00", "3", "0.02"] in found
    assert ["ebt_grc", "3", "1.500", "3.00", "5.45", "3", "0.19"] in found
    assert ["bt_grc", "0", "out of memory", "-", "5.00", "-", "1.71"] in found
    assert ["ebt_grc", "2", "6.600", "13.20", "5.93", "3", "1.01"] in found
    assert "- **500-600 x ebt_grc**: ours 13.2, paper 5.93" in page.replace("\\", "")
    assert "factor of 2, 1 of 2:" in page, "RNN-GRC is not compared with itself"
    assert "Not looked into yet." in page
    command = "lrbench bench rir_table1 --output results/rir_table1/records/raw.json --strings 3"
    assert command in page and "/tmp/x" not in page
    assert "- dates: 2026-11-21" in page and "- machines: A CPU, 2 cores, 1 thread" in page


def test_a_later_file_replaces_cells(trees: Path) -> None:
    newer = raw(["lrbench", "bench", "rir_table1"], cells=[{**CELLS[1], "passes": [5.0] * 3}])
    newer["environment"]["date"] = "2026-11-23T00:00:00+00:00"
    put(trees, "a_newer.json", newer)
    page = build(trees)["README.md"].decode().replace("\\", "")
    assert ["ebt_grc", "3", "5.000", "10.00", "5.45", "3", "0.19"] in table_rows(page)
    assert "2026-11-21; 2026-11-23" in page


def test_the_page_is_made_again_without_records(trees: Path) -> None:
    first = written(trees)
    shutil.rmtree(trees / "records")
    again = build(trees)
    assert set(again) == set(first) - {"runs.csv", "settings.json"}
    assert all(first[name] == content for name, content in again.items())


def test_the_page_follows_runs_csv(trees: Path) -> None:
    written(trees)
    shutil.rmtree(trees / "records")
    path = trees / "runs.csv"
    path.write_text(path.read_text().replace("500-600,0,6.6", "500-600,0,8.8"))
    found = table_rows(build(trees)["README.md"].decode().replace("\\", ""))
    assert ["ebt_grc", "2", "7.700", "15.40", "5.93", "3", "1.01"] in found


def test_notes_stand_below_what_they_are_about(trees: Path) -> None:
    note = "disagreements:\n  - {cells: ['500-600 x *'], checked: The strings., believed: A CPU.}\n"
    (trees / "notes.yaml").write_text(f"about: Beside others.\n{note}")
    page = build(trees)["README.md"].decode()
    assert "Beside others.\n" in page and "Checked: The strings. Believed: A CPU." in page
    assert "Not looked into yet." not in page
    (trees / "notes.yaml").write_text("about: It is 3.5 times faster.\n")
    with pytest.raises(UserError, match=r"3\.5"):
        build(trees)


def test_what_is_no_raw_output(trees: Path) -> None:
    put(trees, "raw.json", raw(["x"], settings=[]))
    with pytest.raises(UserError, match="no raw output of lrbench bench rir_table1"):
        build(trees)
    (trees / "records" / "raw.json").write_text("{")
    with pytest.raises(UserError, match="is not json"):
        build(trees)
    shutil.rmtree(trees / "records")
    with pytest.raises(UserError, match=r"runs\.csv' cannot be read"):
        build(trees)


@pytest.mark.parametrize("name", ["fan2024_speed", "lmu_speed"])
def test_published_pages_are_their_records(name: str) -> None:
    folder = RESULTS / name
    made = build(folder)
    assert {name: (folder / name).read_bytes() for name in made} == made
    assert made == build(folder)


def test_ratios_are_those_that_were_measured() -> None:
    """The page computes its ratios from rounds; the commands told them beside."""
    folder = RESULTS / "fan2024_speed"
    lines = table_rows(build(folder)["README.md"].decode())
    for path in (folder / "records").glob("*.json"):
        for row in json.loads(path.read_text())["settings"]:
            numbers = (row["sequential"], row["pscan"], row["ratio"])
            reported = [row["setting"]["paper"], *(f"{number:.4f}" for number in numbers)]
            assert reported in [line[:4] for line in lines]
    lines = table_rows(build(RESULTS / "lmu_speed")["README.md"].decode().replace("\\", ""))
    record = json.loads((RESULTS / "lmu_speed/records/lmu_speed.json").read_text())
    for row in [row for network in record["networks"].values() for row in network["rows"]]:
        times = (f"{row['times_lmu_loop']:.2f}", f"{row['times_lmu']:.2f}")
        reported = [row["side"], f"{1000 * row['seconds']:.2f}", *times]
        assert reported in [[*line[:3], *line[4:5]] for line in lines]  # the paper's is between


def test_speed_ups_against_length() -> None:
    folder = RESULTS / "lmu_speed"
    seconds = {
        (row["side"], row["length"]): float(row["seconds"])
        for row in csv.DictReader(
            (folder / "records/lmu_speed_length.csv").read_text().splitlines()
        )
        if row["network"] == "psmnist"
    }
    reported = f"{seconds['lti', '1568'] / seconds['final', '1568']:.2f}"
    assert ["final", reported] in [
        [line[0], line[-1]] for line in table_rows(build(folder)["README.md"].decode())
    ]


def test_compiled_and_plain_loops_are_tables_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "fan2024_speed"
    (folder / "records").mkdir(parents=True)
    for compiled, loop in ((True, 0.01), (False, 0.08)):
        rounds = {"sequential": [loop] * 3, "pscan": [0.04] * 3}
        setting = {"paper": "train T=40 b=8", "block": 8, "length": 40, "training": True}
        arguments = ["lrbench", "bench", "fan2024_speed"]
        content = raw(arguments, settings=[{"setting": setting, "rounds": rounds}])
        content["environment"]["compiled"] = compiled
        put(folder, f"{compiled}.json", content)
    page = build(folder)["README.md"].decode()
    assert "- **train T=40 b=8 x compiled**: ours 0.25, paper 1.57" in page
    assert "x plain" not in page, "2 is no more than twice 1.57"
    assert "\nLRBENCH_COMPILED=0 lrbench bench fan2024_speed\n" in page


def test_the_figure_draws_the_same_bytes() -> None:
    plot = Plot("x", "X", "length", "s", {"a": ((10.0, 0.1), (20.0, 3.0))}, level=1.0)
    assert svg(plot) == svg(plot) and svg(plot).startswith(b"<?xml")


def test_heights_have_round_ticks() -> None:
    assert _ticks(0.3, 120.0) == [0.5, 1, 2, 5, 10, 20, 50, 100]
    assert _ticks(0.95, 2.1) == [1, 1.5, 2]
    assert len(_ticks(1e-3, 1e4)) <= 10


def test_pages_of_a_folder(trees: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def program(*arguments: str) -> int:
        monkeypatch.setattr("sys.argv", ["benchmarks.pages", *arguments])
        return main()

    results = trees.parent
    assert program(str(results), "--check") == 1 and not (trees / "README.md").exists()
    assert program(str(results)) == 0
    assert "(rir_table1/README.md) | measured | - |" in (results / "README.md").read_text()
    assert program(str(trees), "--check") == 0
    (trees / "figures" / "old.svg").write_text("<svg/>")
    (trees / "table.tex").write_text("x")
    found = list(rebuild(results, check=True).findings())
    assert [line.rpartition("/")[2] for line in found] == [
        "old.svg: is no figure of these runs",
        "table.tex: is no file of a published table",
    ]
    assert program(str(trees)) == 0 and not (trees / "figures" / "old.svg").exists()
    trees.rename(results / "rir_table2")
    assert program(str(results)) == 1


def test_lrbench_leaves_measured_tables_alone(lrbench: Run, trees: Path) -> None:
    written(trees)
    before = (trees / "README.md").read_bytes()
    (trees / "README.md").write_text("# Mine\n")
    ended = lrbench("publish", "--rebuild", str(trees.parent))
    assert ended.code == 0 and (trees / "README.md").read_text() == "# Mine\n"
    assert "measured, left to make tables (python -m benchmarks.pages): rir_table1" in ended.err
    assert "[Mine](rir_table1/README.md)" in (trees.parent / "README.md").read_text()
    err = lrbench("publish", "rir_table1", "--output", str(trees.parent)).err
    assert "is measured, not trained" in err and "python -m benchmarks.pages" in err
    rebuild(trees)
    assert (trees / "README.md").read_bytes() == before
