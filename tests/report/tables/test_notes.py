from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from lrbench.protocols.base import declared
from lrbench.report.runs.collect import collect
from lrbench.report.tables.notes import competition, reading_notes, reading_texts, table_notes


def broken(runs: Path, number: int) -> None:
    for index in range(number):
        folder = runs / f"x{index:03}" / "s0"
        folder.mkdir(parents=True)
        (folder / "result.json").write_text("{")


def test_one_file_is_named(runs: Path) -> None:
    broken(runs, 1)
    [line] = reading_texts(collect(runs))
    assert line.startswith(f"not used: {runs / 'x000' / 's0' / 'result.json'}: is not json")


def test_several_are_counted_and_named(runs: Path, write: Callable[..., Path]) -> None:
    broken(runs, 1)
    folder = write()
    content = json.loads((folder / "result.json").read_text())
    (folder / "result.json").write_text(json.dumps(content | {"schema": 0}))
    lines = reading_texts(collect(runs))
    assert lines[0] == "2 files or folders were not used:"
    assert sum(line.startswith("not used: ") for line in lines) == len(lines) - 1 == 2
    assert any("schema 0" in line for line in lines)


def test_of_many_the_first_are_named(runs: Path) -> None:
    broken(runs, 125)
    lines = reading_texts(collect(runs))
    assert lines[0] == "125 files or folders were not used, of which the first are:"
    assert len(lines) == 101


def test_runs_without_a_result_are_counted(runs: Path) -> None:
    for seed in range(3):
        (runs / "cell" / f"s{seed}" / "checkpoints").mkdir(parents=True)
    [line] = reading_texts(collect(runs))
    assert line.startswith("3 runs have no result yet")


def test_markdown_lines_are_escaped(runs: Path) -> None:
    (runs / "a|b" / "s0" / "checkpoints").mkdir(parents=True)
    [line] = reading_notes(collect(runs))
    assert line.startswith("- no result yet")
    assert r"a\|b" in line


def test_a_legend_says_what_the_number_of_a_test_is(runs: Path, write: Callable[..., Path]) -> None:
    write()
    collection = collect(runs)

    def legend(protocol: str, *lengths: int) -> str:
        common = {"n": 100, "metric": "accuracy", "kind": "test"}
        ranged = [{"length": t, "split": "by_length", **common} for t in lengths]
        frame = pd.DataFrame([{"length": max(lengths), "split": "test", **common}, *ranged])
        return table_notes(collection.runs, frame, collection, declared(protocol))[0]

    assert "at the two lengths on 100 fresh strings, final position, of" in legend("fan2024", 500)
    assert "(test: mean over 3 lengths, 41 to 500)" in legend("deletang2022", 41, 200, 500)
    assert "right at every position on 100 fresh strings" in legend("siems2025", 512)


def of_data_seed(write: Callable[..., Path], fingerprint: str, seed: int | None) -> None:
    folder = write(fingerprint=fingerprint)
    content = json.loads((folder / "result.json").read_text())
    content["config"] |= {"data_seed": seed, "trials": 1}
    (folder / "result.json").write_text(json.dumps(content))


def test_cells_that_differ_in_their_data_alone_say_so(
    runs: Path, write: Callable[..., Path]
) -> None:
    of_data_seed(write, "a" * 12, 7)
    of_data_seed(write, "b" * 12, 8)
    collection = collect(runs)
    [line] = competition(collection.runs, collection)
    assert "they differ in data_seed;" in line


def test_a_data_seed_that_is_not_hashed_makes_no_difference(
    runs: Path, write: Callable[..., Path]
) -> None:
    of_data_seed(write, "a" * 12, None)
    of_data_seed(write, "b" * 12, 0)
    collection = collect(runs)
    [line] = competition(collection.runs, collection)
    assert "equal configurations, so another version" in line
