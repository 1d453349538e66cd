"""A published table says what the runs said: read back, every report of it is the same."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from lrbench.errors import UserError
from lrbench.report.figures.draw import drawings
from lrbench.report.output.render import render
from lrbench.report.runs.archive import archive, ended_runs, read_archive
from lrbench.report.runs.collect import collect
from lrbench.report.runs.collection import Collection
from lrbench.report.tables.request import Request, narrowed
from lrbench.tables import load_table, table_names
from tests.made_up_results import make_split_result
from tests.report.conftest import make_result, run_folder

Write = Callable[..., Path]
RESULTS = Path(__file__).parents[3] / "results"
REAL = sorted(
    str(path.relative_to(RESULTS))
    for path in [*RESULTS.glob(".*"), *RESULTS.glob("*/records")]
    if path.is_dir()
)
FORMATS = ("markdown", "csv", "latex", "html")


def published(collection: Collection, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in archive(collection, Path()).items():
        (folder / name).write_bytes(content)
    return folder


def same_frames(ours: pd.DataFrame, theirs: pd.DataFrame) -> bool:
    return bool(ours.equals(theirs)) and list(ours.dtypes) == list(theirs.dtypes)


def same_collection(first: Collection, second: Collection) -> None:
    """Compare all that reports are made of but for `looks`, functions whose rows runs.csv has."""
    names = {one.name for one in dataclasses.fields(Collection)} - {"looks", "told_varying"}
    for name in (*names, "varying"):
        ours, theirs = getattr(first, name), getattr(second, name)
        same = same_frames(ours, theirs) if isinstance(ours, pd.DataFrame) else ours == theirs
        assert same, name


def write_odd_runs(write: Write, fail: Write, runs: Path) -> None:
    """What a collection may hold: of each kind of value one that a csv file could lose."""
    write(seed=0, accuracy=0.1 + 0.2, train_seconds=1e-17)
    write(seed=1, parameters=2**63 - 1, perfect_look=None, mode=None)
    write(seed=2, status="diverged", stopped="diverged", evaluations=[])
    write(seed=3, task_title='None, "NA"\n nan')
    fail(seed=4, error="first\nsecond, 'third'\r\"fourth\"")
    write(model="s4", fingerprint="b" * 12, lr=1e-3)
    write(model="s4", fingerprint="c" * 12, lr=1, config={"flag": True, "none": None, "list": []})
    write(model="s4", fingerprint="d" * 12, config={"flag": 1, "empty": {}, "text": ""})
    reported = {"date": "2026-11-21T20:00:00+00:00", "torch": "2.13.0", "commit": "0" * 40}
    place = runs / "sum" / "blockdiag" / "fan2024" / ("a" * 12)
    (place / "environment.json").write_text(json.dumps(reported))
    (runs / "copy" / "s0").mkdir(parents=True)
    (runs / "copy" / "s0" / "result.json").write_text((place / "s0/result.json").read_text())
    (runs / "broken" / "s0").mkdir(parents=True)
    (runs / "broken" / "s0" / "result.json").write_text("{")


def write_unfinished(runs: Path, result: dict[str, Any], look: dict[str, Any]) -> None:
    folder = run_folder(runs, result)
    (folder.parent / "config.json").write_text(json.dumps(result["config"]))
    (folder / "metrics.jsonl").write_text(json.dumps({"step": 500, "look": look}) + '\n{"st')
    row = {**result["evaluations"][0], "which": "best"}
    trees = {**row, "value": 0.75, "kind": "trees", "metric": "brackets", "n": 20}
    rows = [{**row, "value": 0.1 + 0.7, "kind": "test"}, trees]
    (folder / "evaluations").mkdir()
    (folder / "evaluations" / "1.json").write_text(json.dumps({"schema": 1, "evaluations": rows}))


def write_without_a_look(runs: Path, config: dict[str, Any]) -> None:
    """A run that was stopped before its first look."""
    result = make_result(model="lru", fingerprint="d" * 12, config=config)
    folder = run_folder(runs, result)
    (folder.parent / "config.json").write_text(json.dumps(config))
    (folder / "metrics.jsonl").write_text('{"step": 100, "loss": 2.25, "seconds": 1.5}\n')


def write_corpus_runs(runs: Path) -> None:
    scores = {"near_iid": 0.61, "args_10": 1 / 3}
    for seed in range(3):
        result = make_split_result(scores, seed=seed)
        (run_folder(runs, result) / "result.json").write_text(json.dumps(result))
    logic = make_split_result({"test_7": 0.9, "test_8": 0.8}, task="logic", seed=7)
    (run_folder(runs, logic) / "result.json").write_text(json.dumps(logic))
    look = {"step": 500, "epoch": 0.5, "validation_accuracy": 0.7, "validation_n": 1000}
    going = make_split_result(scores, model="ebt_grc", fingerprint="e" * 12)
    write_unfinished(runs, going, look)


@pytest.fixture
def odd(
    runs: Path, write: Write, fail: Write, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Collection]:
    """Write runs of every kind; what is called collects them, its paths relative to them."""
    write_odd_runs(write, fail, runs)
    look = {"step": 500, "test_length": 500, "test_accuracy": 0.25, "test_n": 128}
    config = {"protocol": {"name": "fan2024"}, "task": {"name": "sum"}, "model": {"name": "lru"}}
    write_unfinished(runs, make_result(model="lru", fingerprint="f" * 12, config=config), look)
    write_without_a_look(runs, config)
    write_corpus_runs(runs)
    monkeypatch.chdir(runs)
    return lambda: collect(Path())


def test_every_report_is_the_same(odd: Callable[[], Collection], tmp_path: Path) -> None:
    first = odd()
    assert len(first.runs) == 12
    assert len(first.under_way) == 3
    second = read_archive(published(first, tmp_path / "published"))
    for format in FORMATS:  # the page has the figures
        assert render(first, format) == render(second, format), format
    figures = [list(drawings(each, Request())) for each in (first, second)]
    assert figures[0] == figures[1]
    chosen = Request(rows=("blockdiag", "lru", "ebt_grc"), fingerprints=("aaaa",), digits=3)
    tables = [Request(table=load_table(name)) for name in table_names()]
    for request in (chosen, *tables):
        made = [render(each, request=request) for each in (first, second)]
        assert made[0] == made[1], request.table and request.table.name


def test_it_is_the_same_collection(odd: Callable[[], Collection], tmp_path: Path) -> None:
    first = odd()
    second = collect(published(first, tmp_path / "published") / "runs.csv")
    same_collection(first, second)
    assert same_frames(first.every_row, second.every_row)
    flags = [one.with_settings(one.runs)["flag"] for one in (first, second)]
    assert [type(flag) for flag in flags[0]] == [type(flag) for flag in flags[1]]
    assert first.csv() == first.every_row.to_csv(index=False, lineterminator="\n")


def test_archived_again_it_is_the_same(odd: Callable[[], Collection], tmp_path: Path) -> None:
    first = archive(odd(), Path())
    again = archive(read_archive(published(odd(), tmp_path / "published")), tmp_path)
    assert first == again
    table = Request(table=load_table("rir2023_table2"))
    part = narrowed(odd(), table)
    assert {run.task for run in part.under_way} == {"listops"}
    narrow = read_archive(published(part, tmp_path / "part"))
    assert archive(narrow, Path()) == archive(part, Path())
    assert set(narrow.settings) == set(part.runs["folder"])


def test_the_csv_file_is_the_reports(odd: Callable[[], Collection]) -> None:
    made = archive(odd(), Path())["runs.csv"].decode()
    assert made == render(odd(), "csv")
    unfinished = [line for line in made.split("\n") if ",unfinished," in line]
    assert len(unfinished) == 4 + 2 + 2 + 1  # looks of two, trees of each; one without a look
    assert made.endswith("\n".join([*unfinished, ""]))


def test_no_path_of_the_machine(runs: Path, write: Write, tmp_path: Path) -> None:
    folder = write()
    reported = {"torch": "2", "home": "/home/me", "shell": "~/bin", "command": ["lrbench", "x"]}
    (folder.parent / "environment.json").write_text(json.dumps(reported))
    (runs / "copy" / "s0").mkdir(parents=True)
    (runs / "copy" / "s0" / "result.json").write_text((folder / "result.json").read_text())
    (runs / "other" / "s1").mkdir(parents=True)
    (runs / "other" / "s1" / "metrics.jsonl").write_text("")
    made = archive(collect(runs), runs)
    assert not any(str(place).encode() in text for text in made.values() for place in (tmp_path,))
    assert b"/home" not in made["settings.json"] and b"~" not in made["settings.json"]
    assert b"the same run as copy/s0" in made["settings.json"]


@pytest.mark.parametrize("place", REAL)
def test_the_real_runs(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(RESULTS / place)
    first = collect(Path())
    second = read_archive(published(first, tmp_path / "published"))
    assert archive(second, Path()) == archive(first, Path())
    same_collection(first, second)


def test_one_file_alone(runs: Path, write: Write, tmp_path: Path) -> None:
    write()
    folder = published(collect(runs), tmp_path / "published")
    (folder / "settings.json").unlink()
    with pytest.raises(UserError, match=r"no settings.json beside '.*runs.csv'") as raised:
        collect(folder / "runs.csv")
    assert len(str(raised.value).splitlines()) <= 6
    assert collect(folder).runs.empty  # a csv file among runs is no published table


DAMAGE: dict[str, tuple[str, str, str, str]] = {
    "a column": ("runs.csv", "task,task_title", "task,title", "has no column 'task_title'"),
    "one too many": ("runs.csv", "task,", "mine,task,", "has a column 'mine'"),
    "in another order": ("runs.csv", "task,task_title", "task_title,task", "another order"),
    "a number": ("runs.csv", ",2000,", ",many,", "row 2, column 'steps': 'many'"),
    "a huge number": ("runs.csv", ",2000,", f",{2**63},", "row 2, column 'steps': '9223"),
    "a status": ("runs.csv", ",finished,", ",ended,", "'ended', none of finished"),
    "a folder": ("runs.csv", "/s0", "x/s0", "knows nothing"),
    "no json": ("settings.json", "{", "", "is not json"),
    "a part": ("settings.json", '"varying"', '"var"', "'varying' is missing"),
    "a type": ("settings.json", '"varying": []', '"varying": [1, [2]]', "columns|column"),
    "a schema": ("settings.json", '"schema": 1', '"schema": 2', "schema 2"),
    "an environment": ("settings.json", '"environments": {}', '"environments": {"a": 1}', "object"),
    "settings": ("settings.json", '"cells": {', '"cell": {', "does not fit runs.csv"),
}


@pytest.mark.parametrize(("name", "old", "new", "message"), DAMAGE.values(), ids=list(DAMAGE))
def test_damage_is_reported(
    runs: Path, write: Write, tmp_path: Path, name: str, old: str, new: str, message: str
) -> None:
    write()
    folder = published(collect(runs), tmp_path / "published")
    text = (folder / name).read_text()
    assert old in text
    (folder / name).write_text(text.replace(old, new))
    with pytest.raises(UserError, match=message) as raised:
        collect(folder)
    assert name in str(raised.value)
    assert "fix:" in str(raised.value)
    assert len(str(raised.value).splitlines()) <= 6


NO_ACCURACY = "of sum/blockdiag/.*/s0: .*, no accuracy, which is a number from 0 to 1"


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("value", "7.5", f"column 'value' {NO_ACCURACY}"),
        ("value", "-0.5", f"column 'value' {NO_ACCURACY}"),
        ("value", "inf", f"column 'value' {NO_ACCURACY}"),
        ("value", "", f"column 'value' {NO_ACCURACY}"),
        ("value", "nan", "row [0-9]+, column 'value': 'nan'"),
        ("n", "", "column 'n' of .*: empty, no count of strings"),
        ("n", "-3", "column 'n' of .*: -3, no count of strings"),
        ("length", "", "column 'length' of .*: empty, no length"),
        ("kind", "tests", "column 'kind' of .*: 'tests', none of look, test"),
        ("split", "", "column 'split' of .*: empty, no split of a row with a length"),
        ("seed", "", "column 'seed' of .*: empty, no whole number"),
    ],
)
def test_a_score_that_is_none(
    runs: Path, write: Write, tmp_path: Path, column: str, value: str, message: str
) -> None:
    write()
    folder = published(collect(runs), tmp_path / "published")
    frame = pd.read_csv(folder / "runs.csv", dtype=str, keep_default_na=False)
    tests = frame.index[(frame["metric"] == "accuracy") & (frame["kind"] == "test")]
    frame.loc[tests[0], column] = value
    frame.to_csv(folder / "runs.csv", index=False, lineterminator="\n")
    with pytest.raises(UserError, match=message) as raised:
        collect(folder)
    assert "runs.csv': row " in str(raised.value)
    assert len(str(raised.value).splitlines()) == 3


def test_what_was_not_measured_is_read_back(runs: Path, write: Write, tmp_path: Path) -> None:
    folder = write()
    row = {"length": 5003, "split": "further", "metric": "accuracy", "value": None, "n": 10}
    loss = {**row, "metric": "loss", "which": "best", "kind": "test"}
    (folder / "evaluations").mkdir()
    (folder / "evaluations" / "1.json").write_text(
        json.dumps({"schema": 1, "evaluations": [row | {"which": "id", "kind": "test"}, loss]})
    )
    first = collect(runs)
    table = published(first, tmp_path / "published")
    again = read_archive(table)
    assert same_frames(first.every_row, again.every_row)
    assert archive(again, Path()) == archive(first, Path())
    settings = json.loads((table / "settings.json").read_text())
    assert settings.pop("unmeasured") == {first.runs["folder"][0]: 1}
    (table / "settings.json").write_text(json.dumps(settings))
    with pytest.raises(UserError, match=NO_ACCURACY):
        collect(table)


def test_a_csv_file_that_was_cut(runs: Path, write: Write, tmp_path: Path) -> None:
    for seed in range(3):
        write(seed=seed)
    write(model="s4", fingerprint="b" * 12)
    table = published(collect(runs), tmp_path / "published")
    whole = (table / "runs.csv").read_text()
    lines = whole.splitlines(keepends=True)
    first = next(at for at, line in enumerate(lines) if "/s1," in line)
    (table / "runs.csv").write_text("".join(lines[:first]))
    with pytest.raises(UserError, match=r"has no row of sum/blockdiag/.*/s1 and of 2 more") as cut:
        collect(table)
    assert len(str(cut.value).splitlines()) == 3
    with pytest.raises(UserError, match="was cut"):
        list(ended_runs(table))
    (table / "runs.csv").write_text(whole[:-4])
    with pytest.raises(UserError, match="its last line has no end: it was cut"):
        collect(table)


def test_line_ends_of_windows(odd: Callable[[], Collection], tmp_path: Path) -> None:
    first = odd()
    table = published(first, tmp_path / "published")
    for path in table.iterdir():
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    same_collection(first, collect(table))
