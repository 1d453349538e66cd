"""Runs without a result: what they are and how far, in tables as unfinished, counted nowhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench.report.output.cells import Table
from lrbench.report.output.render import render
from lrbench.report.runs.collect import collect
from lrbench.report.runs.columns import UnderWay
from lrbench.report.tables.matrix import paper_tables
from lrbench.report.tables.request import Request, chosen_tables, narrowed
from lrbench.tables import TableCell, TableSpec
from tests.made_up_results import make_split_result, open_table
from tests.report.conftest import run_folder

Write = Callable[..., Path]
A, B = "a" * 12, "b" * 12
LOOK = {
    **{"step": 400, "test_length": 500, "test_accuracy": 0.25, "test_n": 128},
    **{"validation_accuracy": 0.9, "validation_loss": 0.1, "seconds": 1.5},
}
DEV = {
    **{"step": 300, "epoch": 1.5, "validation_accuracy": 0.691, "validation_loss": 0.8},
    **{"validation_n": 1000, "seconds": 2.5},
}
SPEC = TableSpec(
    "mine", "Mine", (TableCell(("task=sum", "model=blockdiag", "optim.lr=1e-4", "trials=3")),)
)


def config(task: str = "sum", model: str = "blockdiag", lr: float = 1e-4) -> dict[str, Any]:
    protocol = {"name": "fan2024", "max_steps": 2000, "test_lengths": [500, 997]}
    settings = {"name": task, "modulus": 5}
    return {
        "task": settings,
        "model": {"name": model},
        "protocol": protocol,
        "optim": {"lr": lr},
    }


def going(
    runs: Path,
    settings: dict[str, Any] | None = None,
    seed: int = 0,
    fingerprint: str = A,
    lines: tuple[Any, ...] = (
        {"step": 400, "loss": 1.0, "seconds": 1.5},
        {"step": 400, "look": LOOK},
    ),
) -> Path:
    """Write a run under way, which ends in a line that was torn off."""
    settings = settings or config()
    names = {name: settings[name]["name"] for name in ("task", "model", "protocol")}
    folder = run_folder(runs, {**names, "fingerprint": fingerprint, "seed": seed})
    (folder.parent / "config.json").write_text(json.dumps(settings))
    words = [f"{name}={settings[name]['name']}" for name in ("task", "model")]
    words += [f"optim.lr={settings['optim']['lr']}"] if "optim" in settings else []
    command = {"command": ["lrbench", "train", *words, "trials=2"]}
    (folder.parent / "environment.json").write_text(json.dumps(command))
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (folder / "metrics.jsonl").write_text(text + '{"step": 500, "lo')
    return folder


def over_corpus(runs: Path, model: str = "ebt_grc", **changes: Any) -> Path:
    result = make_split_result({"near_iid": 0.0, "args_10": 0.0}, model=model)
    settings = result["config"]
    settings["protocol"] |= changes
    return going(runs, settings, lines=({"step": 300, "look": DEV}, {"step": 320, "loss": 1}))


def scored(folder: Path, place: str | int, value: float, which: str = "best") -> None:
    length, split = (900, place) if isinstance(place, str) else (place, "further")
    row = {"length": length, "split": split, "metric": "accuracy", "value": value, "n": 1000}
    (folder / "evaluations").mkdir(exist_ok=True)
    path = folder / "evaluations" / f"{len(list((folder / 'evaluations').iterdir()))}.json"
    rows = [{**row, "which": which, "kind": "test"}]
    path.write_text(json.dumps({"schema": 1, "evaluations": rows}))


def only(runs: Path) -> UnderWay:
    [run] = collect(runs).under_way
    return run


def cell(table: Table, row: str, number: str, column: str) -> str:
    titles = [one.title for one in table.columns]
    [found] = [r for r in table.rows if (r[0].text, r[1].text) == (row, number)]
    return found[titles.index(column)].text


def test_what_it_is_and_how_far(runs: Path) -> None:
    folder = going(runs, seed=3)
    run = only(runs)
    assert (run.task, run.model, run.protocol) == ("sum", "blockdiag", "fan2024")
    assert (run.fingerprint, run.seed, run.folder) == (A, 3, f"sum/blockdiag/fan2024/{A}/s3")
    assert (run.steps, run.seconds, run.budget, run.look) == (400, 1.5, 2000, LOOK)
    assert (run.settings["optim.lr"], run.settings["protocol.test_lengths"]) == (1e-4, "[500, 997]")
    assert run.last_look == "0.250 at 500"
    found = collect(runs)
    assert found.unfinished == [folder]
    assert found.runs.empty and found.frame.empty


def test_what_has_a_damaged_result_is_not_under_way(runs: Path) -> None:
    (going(runs) / "result.json").write_text("{")
    found = collect(runs)
    assert (found.under_way, found.unfinished) == ([], []) and len(found.problems) == 1


def test_updates_of_epochs_follow_from_a_look(runs: Path) -> None:
    over_corpus(runs)
    run = only(runs)
    assert (run.steps, run.budget, run.last_look) == (320, 100 * 200, "0.691 on dev")


def test_the_least_budget_counts(runs: Path) -> None:
    over_corpus(runs, max_steps=500)
    assert only(runs).budget == 500


@pytest.mark.parametrize("epoch", [0, -1, None, "one", float("nan"), float("inf")])
def test_no_budget_without_an_epoch(runs: Path, epoch: Any) -> None:
    folder = over_corpus(runs)
    look = {**DEV, "epoch": epoch}
    (folder / "metrics.jsonl").write_text(json.dumps({"step": 300, "look": look}))
    assert only(runs).budget is None


@pytest.mark.parametrize(
    "text", ["", "{", "[1]\n", '{"step": "x"}\n', '{"step": true}\n', "\xff\n", "[" * 99_999]
)
def test_nothing_whole_is_no_progress(runs: Path, text: str) -> None:
    (going(runs) / "metrics.jsonl").write_text(text, encoding="latin-1")
    run = only(runs)
    assert (run.steps, run.look, run.seconds) == (0, None, None)
    assert render(collect(runs), "csv").count(",unfinished,") == 1


@pytest.mark.parametrize("content", [None, "{", "[]", '{"task": 1}', '{"task": {"name": 3}}'])
def test_without_a_configuration_it_is_only_unfinished(runs: Path, content: str | None) -> None:
    path = going(runs).parent / "config.json"
    path.unlink()
    if content is not None:
        path.write_text(content)
    found = collect(runs)
    assert found.under_way == []
    assert len(found.unfinished) == 1


def test_without_metrics_it_is_only_unfinished(runs: Path) -> None:
    folder = going(runs)
    (folder / "metrics.jsonl").rename(folder / "run.log")
    assert (collect(runs).under_way, collect(runs).unfinished) == ([], [folder])


def test_a_copy_of_what_has_ended_is_not_under_way(runs: Path, write: Write) -> None:
    write(seed=0)
    going(runs / "copies", seed=0)
    assert collect(runs).under_way == []


def test_of_two_copies_the_furthest_counts(runs: Path) -> None:
    going(runs)
    going(runs / "a", lines=({"step": 900},))
    going(runs / "z", lines=({"step": 100},))
    assert only(runs).steps == 900


def test_rows_of_the_csv_file_come_last(runs: Path, write: Write) -> None:
    write(seed=1)
    scored(going(runs, seed=0), 100_003, 0.5)
    found = collect(runs)
    rows = found.every_row.query("which != 'every'").tail(2)
    assert list(rows["status"]) == ["unfinished"] * 2
    assert list(rows["kind"]) == ["look", "test"]
    assert list(rows["value"]) == [0.25, 0.5]
    assert list(rows["which"]) == ["last", "best"]
    assert set(rows["steps"]) == {400}
    assert "unfinished" not in set(found.frame["status"])
    assert render(found, "csv") == found.every_row.to_csv(index=False, lineterminator="\n")


def test_a_cell_without_another_run(runs: Path) -> None:
    scored(going(runs), 500, 0.6831)
    main = paper_tables(collect(runs), SPEC)[0]
    assert cell(main, "blockdiag", "fresh strings", "sum (mod 5)") == "0.6831, unfinished"
    assert cell(main, "blockdiag", "best look", "sum (mod 5)") == "unfinished"
    last = paper_tables(collect(runs), SPEC, "last")[0]
    assert cell(last, "blockdiag", "last look", "sum (mod 5)") == "0.2500, unfinished"
    assert (
        "sum x blockdiag seed 0: unfinished, 400 of 2,000 updates, last look 0.250 at 500; goes on"
        " with: lrbench train task=sum model=blockdiag optim.lr=0.0001 seed=0"
    ) in main.notes
    assert "sum x blockdiag: 0 of 3 runs have ended" in main.notes


def test_it_is_counted_nowhere(runs: Path, write: Write) -> None:
    for seed in range(3):
        write(seed=seed)
    before = [table.rows for table in paper_tables(collect(runs), SPEC)]
    scored(going(runs, seed=7), 500, 0.0)
    tables = paper_tables(collect(runs), SPEC)
    assert [table.rows for table in tables] == before
    assert sum("seed 7: unfinished" in note for note in tables[0].notes) == 1


def test_alone_it_has_no_row_in_other_tables(runs: Path) -> None:
    for seed in range(3):
        scored(going(runs, seed=seed), 500, 0.5)
    main, *others = paper_tables(collect(runs), SPEC)
    assert cell(main, "blockdiag", "fresh strings", "sum (mod 5)") == (
        "0.5000 ± 0.0000 (3), unfinished"
    )
    assert all(table.rows == () for table in others)


def test_beside_failed_runs_it_is_unfinished(runs: Path, fail: Write) -> None:
    fail(seed=1)
    going(runs)
    main = paper_tables(collect(runs), SPEC)[0]
    assert cell(main, "blockdiag", "fresh strings", "sum (mod 5)") == "unfinished"


def test_another_configuration_than_the_shown_is_not_of_the_cell(runs: Path, write: Write) -> None:
    write(seed=0)
    going(runs, fingerprint=B)
    main = paper_tables(collect(runs), SPEC)[0]
    assert not any("unfinished" in note for note in main.notes)


def test_of_two_configurations_there_is_no_number(runs: Path) -> None:
    scored(going(runs), 500, 0.5)
    scored(going(runs, fingerprint=B), 500, 0.75)
    main = paper_tables(collect(runs), SPEC)[0]
    assert cell(main, "blockdiag", "fresh strings", "sum (mod 5)") == "unfinished"
    assert sum("unfinished" in note for note in main.notes) == 2
    chosen = paper_tables(collect(runs), SPEC, choose=["bbbb"])[0]
    assert cell(chosen, "blockdiag", "fresh strings", "sum (mod 5)") == "0.7500, unfinished"


def test_the_cell_that_asks_for_most_has_it(runs: Path) -> None:
    going(runs, config(lr=3e-4))
    arguments = ("task=sum", "model=blockdiag")
    spec = TableSpec("t", "T", (TableCell(arguments), TableCell((*arguments, "optim.lr=3e-4"))))
    main = paper_tables(collect(runs), spec)[0]
    assert [row[2].text for row in main.rows if row[1].text == "best look"] == ["-", "unfinished"]
    [note] = [note for note in main.notes if "goes on with" in note]
    assert note.endswith("lrbench train task=sum model=blockdiag optim.lr=0.0003 seed=0")


def test_many_notes_are_capped(runs: Path) -> None:
    for seed in range(12):
        going(runs, seed=seed)
    notes = paper_tables(collect(runs), SPEC)[0].notes
    assert sum("goes on with" in note for note in notes) == 10
    assert "and 2 more such runs" in notes


def test_splits_of_a_corpus(runs: Path) -> None:
    scored(over_corpus(runs), "near_iid", 0.6831)
    main, *others = paper_tables(collect(runs), open_table("rir2023_table2"))
    assert cell(main, "ebt_grc", "best", "near_iid") == "0.6831, unfinished"
    assert cell(main, "ebt_grc", "best", "args_10") == "unfinished"
    assert cell(main, "bbt_grc", "best", "near_iid") == "-"
    assert others == []
    [note] = [note for note in main.notes if "unfinished" in note]
    assert note == (
        "listops x ebt_grc seed 0: unfinished, 320 of 20,000 updates, last look 0.691 on dev; goes"
        " on with: lrbench train task=listops model=ebt_grc optim.lr=0.001 seed=0"
    )


def test_a_table_of_ones_own(runs: Path) -> None:
    scored(going(runs), 500, 0.5)
    scored(over_corpus(runs), "args_10", 0.25)
    first, second = (
        chosen_tables(collect(runs), [], [])[0],
        chosen_tables(collect(runs), [], [])[-1],
    )
    assert cell(first, "blockdiag", "fresh strings", "sum (mod 5)") == "0.5000, unfinished"
    assert cell(second, "ebt_grc", "best", "args_10") == "0.2500, unfinished"
    [alone] = chosen_tables(collect(runs), ["ebt_grc"], ["args_10"])
    assert cell(alone, "ebt_grc", "best", "args_10") == "0.2500, unfinished"


def test_a_request_is_about_its_own(runs: Path, write: Write) -> None:
    going(runs, fingerprint=B)
    over_corpus(runs)
    found = collect(runs)
    table = Request(table=open_table("rir2023_table2"))
    wanted = {
        "table": table,
        "row": Request(rows=("ebt_grc",)),
        "task": Request(columns=("listops",)),
    }
    for request in wanted.values():
        assert [run.model for run in narrowed(found, request).under_way] == ["ebt_grc"]
    assert narrowed(found, Request(fingerprints=("bbbb",))).under_way == found.under_way
    write(fingerprint=A)
    going(runs, seed=9, fingerprint=A)
    kept = narrowed(collect(runs), Request(fingerprints=("bbbb",))).under_way
    assert [(run.model, run.fingerprint) for run in kept] == [("blockdiag", B), ("ebt_grc", A)]


def test_the_default_tables_do_not_change(runs: Path, write: Write) -> None:
    write(seed=0)
    before = render(collect(runs)).splitlines()
    folder = going(runs, seed=1)
    over_corpus(runs)
    after = render(collect(runs)).splitlines()
    assert after[: len(before)] == before
    assert str(folder) in after[-1] and "no result yet" in after[-1]


def test_a_log_that_cannot_be_read_is_named(runs: Path) -> None:
    log = going(runs) / "metrics.jsonl"
    log.unlink()
    log.mkdir()
    collection = collect(runs)
    [(path, reason)] = collection.problems
    assert path == log and reason.startswith("cannot be read")
    assert [run.steps for run in collection.under_way] == [0]
