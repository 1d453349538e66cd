from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lrbench.errors import UserError
from lrbench.report.output.render import render
from lrbench.report.runs.collect import collect
from lrbench.report.runs.collection import cell_of
from lrbench.report.runs.schema import failure_complaint, is_length, result_complaint

Write = Callable[..., Path]


def test_a_row_for_each_run_and_evaluation(runs: Path, write: Write) -> None:
    write(seed=1, accuracy=0.75)
    write(seed=0)
    found = collect(runs)
    assert found.problems == []
    assert found.unfinished == []
    assert list(found.runs["seed"]) == [0, 1]
    assert list(found.runs["folder"]) == [f"sum/blockdiag/fan2024/{'a' * 12}/s{s}" for s in (0, 1)]
    assert list(found.runs["perfect_step"].isna()) == [False, True]
    assert len(found.frame) == 2 * 16
    rows = found.frame.query("seed == 1 and which == 'best' and split == 'test' and kind == 'test'")
    row = rows.iloc[0]
    assert (row["value"], row["n"], row["checkpoint_step"]) == (0.75, 10_000, 2000)
    assert (row["chance"], row["chance_baseline"], row["guessing"]) == (0.204, "majority", 0.279)


def test_only_what_varies_becomes_a_column(runs: Path, write: Write) -> None:
    write(seed=0)
    write(seed=1, fingerprint="b" * 12, lr=3e-4, versions={"torch": "2.13.1"})
    found = collect(runs)
    assert found.varying == ("optim.lr", "versions.torch")
    assert list(found.with_settings(found.runs)["optim.lr"]) == [1e-4, 3e-4]
    assert list(found.every_row.columns[-2:]) == ["optim.lr", "versions.torch"]
    settings = found.settings[f"sum/blockdiag/fan2024/{'a' * 12}/s0"]
    assert settings["protocol.test_lengths"] == "[500, 997]"
    assert settings["task.modulus"] == 5


def test_csv_keeps_every_digit(runs: Path, write: Write) -> None:
    value = 0.1 + 0.2
    write(accuracy=value)
    text = StringIO(render(collect(runs), "csv"))
    back = pd.read_csv(text, converters={"value": float})  # pandas 2 rounds by default
    assert set(back.loc[back["split"] == "test", "value"]) == {value}
    assert list(back["steps"].unique()) == [2000]


def test_a_failed_run_is_a_row(runs: Path, write: Write, fail: Write) -> None:
    write(seed=0)
    fail(seed=1, error="first line\nsecond")
    found = collect(runs)
    row = found.runs.set_index("seed").loc[1]
    assert (row["status"], row["steps"]) == ("failed", 17)
    assert row["error"] == "ValueError: first line\nsecond"
    assert list(row[["task", "model", "protocol", "fingerprint"]]) == [
        "sum",
        "blockdiag",
        "fan2024",
        "a" * 12,
    ]
    assert found.varying == ()  # its versions are unknown, not different
    assert found.frame.query("status == 'failed'")["value"].isna().tolist() == [True]
    assert found.problems == []


def test_a_failed_run_with_a_broken_configuration_is_both(runs: Path, fail: Write) -> None:
    folder = fail()
    (folder.parent / "config.json").write_text("[]")
    found = collect(runs)
    assert list(found.runs["status"]) == ["failed"]
    assert found.problems == [(folder.parent / "config.json", "holds no object")]


def test_a_failed_run_outside_the_usual_folders(tmp_path: Path) -> None:
    folder = tmp_path / "s3"
    folder.mkdir()
    (folder / "failure.json").write_text('{"schema": 1, "error": "x"}')
    row = collect(tmp_path).runs.iloc[0]
    assert (row["seed"], row["fingerprint"], row["error"]) == (3, tmp_path.name, "Error: x")


def test_a_result_outlives_an_older_failure(runs: Path, write: Write) -> None:
    (write() / "failure.json").write_text("{}")
    found = collect(runs)
    assert list(found.runs["status"]) == ["finished"]
    assert found.problems == []


def test_foreign_and_replaced_folders_are_left_alone(runs: Path, write: Write) -> None:
    folder = write()
    text = (folder / "result.json").read_text()
    for name in ("s0.new", "s0.old", "s1.old", ".s0", "seed0", "s", "s1x"):
        (folder.parent / name).mkdir()
        (folder.parent / name / "result.json").write_text(text)
    for name in ("b.new", "c.old", ".d"):  # of a whole configuration
        (folder.parent.with_name(name) / "s0").mkdir(parents=True)
        (folder.parent.with_name(name) / "s0/result.json").write_text(text)
    (runs / "s5").mkdir()  # empty: a name alone is not a run
    (runs / "notes.txt").write_text("mine")
    found = collect(runs)
    assert len(found.runs) == 1
    assert (found.problems, found.unfinished) == ([], [])


def test_a_model_called_s4_is_no_run(runs: Path, write: Write) -> None:
    write(model="s4")
    assert list(collect(runs).runs["model"]) == ["s4"]


def test_any_folder_of_the_tree_can_be_named(
    runs: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write()
    monkeypatch.chdir(folder)
    for place in (folder, folder.parent, runs / "sum", Path(".")):
        assert len(collect(place).runs) == 1


def test_a_copy_is_not_counted_twice(runs: Path, write: Write) -> None:
    folder = write()
    copy = runs / "zz_backup" / "s0"
    copy.mkdir(parents=True)
    (copy / "result.json").write_text((folder / "result.json").read_text())
    found = collect(runs)
    assert len(found.runs) == 1
    [(path, reason)] = found.problems
    assert path == copy
    assert str(folder) in reason


def test_a_run_without_a_result_is_unfinished(runs: Path) -> None:
    folder = runs / "sum" / "blockdiag" / "fan2024" / "abc" / "s0"
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text('{"step": 1}\n')
    found = collect(runs)
    assert found.unfinished == [folder]
    assert found.runs.empty


def test_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no folder of runs"):
        collect(tmp_path / "nowhere")


CORRUPT = {
    "empty": ("", "is not json"),
    "truncated": ('{"schema": 1, "task": "su', "is not json"),
    "deep": ("[" * 100_000, "is not json"),
    "a list": ("[1]", "holds a list"),
    "null": ("null", "holds a NoneType"),
    "no schema": ("{}", "schema None"),
    "newer schema": ('{"schema": 2}', "schema 2"),
    "half a character": (r'{"schema": 1, "task": "\ud800"}', "is not json"),
}


@pytest.mark.parametrize("name", ["result.json", "failure.json"])
@pytest.mark.parametrize(("text", "reason"), CORRUPT.values(), ids=CORRUPT)
def test_a_corrupt_file_is_reported(
    runs: Path, write: Write, name: str, text: str, reason: str
) -> None:
    write(seed=1)
    folder = runs / "sum" / "blockdiag" / "fan2024" / ("a" * 12) / "s0"
    folder.mkdir()
    (folder / name).write_text(text)
    found = collect(runs)
    assert list(found.runs["seed"]) == [1]
    [(path, reported)] = found.problems
    assert path == folder / name
    assert reported.startswith(reason)


def test_what_cannot_be_opened_is_reported(runs: Path, write: Write) -> None:
    (write(seed=0) / "result.json").unlink()
    folder = write(seed=1)
    (folder / "result.json").unlink()
    (folder / "result.json").mkdir()
    dangling = write(seed=2) / "result.json"
    dangling.unlink()
    dangling.symlink_to("nowhere")
    binary = write(seed=3) / "result.json"
    binary.write_bytes(b"\x80\x04pickled\xff")
    found = collect(runs)
    assert found.runs.empty
    reported = dict(found.problems)
    assert reported[folder / "result.json"].startswith("cannot be read")
    assert reported[dangling].startswith("cannot be read")
    assert reported[binary].startswith("is not json")


WRONG: dict[str, dict[str, Any]] = {
    "'task' is 3": {"task": 3},
    "'seed' is True": {"seed": True},
    "'seed' is 1.5": {"seed": 1.5},
    "'steps' is 1000000": {"steps": 10**30},
    "'status' is 'running'": {"status": "running"},
    "'status' is a list": {"status": []},
    "'config' is a list": {"config": []},
    "'evaluations' is a dict": {"evaluations": {}},
    "'evaluations[0]' is 7": {"evaluations": [7]},
    "'evaluations[0].length' is missing": {"evaluations": [{}]},
    "'parameters' is 'many'": {"parameters": "many"},
    "'checkpoints.best' is 'x'": {"checkpoints": {"best": "x"}},
    "'perfect_look[0].step' is None": {"perfect_look": {"step": None}},
    "'baselines[0].baseline' is missing": {"baselines": [{"value": 1}]},
    "'baselines[1].split' is 3": {
        "baselines": [
            {"baseline": "a", "length": 5, "value": 1.0},
            {"baseline": "a", "split": 3, "value": 1.0},
        ]
    },
    "'guessing[0]' is None": {"guessing": [None]},
    "'not_hashed' is a dict": {"not_hashed": {"mine": ["table.npy", 3]}},
    "'horizon[0].text' is missing": {"horizon": {"best": {}}},
}


@pytest.mark.parametrize(("reason", "changes"), WRONG.items(), ids=list(WRONG))
def test_a_wrong_type_is_reported(
    runs: Path, write: Write, reason: str, changes: dict[str, Any]
) -> None:
    folder = write()
    content = json.loads((folder / "result.json").read_text()) | changes
    (folder / "result.json").write_text(json.dumps(content))
    found = collect(runs)
    assert found.runs.empty
    assert found.problems[0][1].startswith(reason)


@pytest.mark.parametrize(("levels", "good"), [(32, True), (33, False)])
def test_settings_may_be_nested_so_deeply(
    result: Callable[..., dict[str, Any]], levels: int, good: bool
) -> None:
    nested: dict[str, Any] = {}
    for _ in range(levels - 1):
        nested = {"in": nested}
    assert (result_complaint(result() | {"config": nested}) is None) is good


def test_settings_of_one_cell_are_told_apart_by_their_type(runs: Path, write: Write) -> None:
    for seed, value in enumerate((True, 1, 1.0)):
        folder = write(seed=seed)
        content = json.loads((folder / "result.json").read_text())
        content["config"] |= {"seed": seed, "told": value}
        (folder / "result.json").write_text(json.dumps(content))
    found = collect(runs)
    told = {settings["seed"]: repr(settings["told"]) for settings in found.settings.values()}
    assert told == {0: "True", 1: "1", 2: "1.0"}
    assert "told" in found.varying


@pytest.mark.parametrize("field", ["task", "fingerprint", "seed", "config", "evaluations"])
def test_a_missing_field_is_reported(result: Callable[..., dict[str, Any]], field: str) -> None:
    content = result()
    del content[field]
    assert result_complaint(content) == f"'{field}' is missing"


@pytest.mark.parametrize("value", [1.5, -0.1, float("nan"), float("inf"), "1.0", True])
def test_an_impossible_accuracy_is_reported(
    result: Callable[..., dict[str, Any]], value: object
) -> None:
    content = result()
    content["evaluations"][3]["value"] = value
    assert "'evaluations[3].value'" in str(result_complaint(content))


def test_a_loss_may_be_infinite(result: Callable[..., dict[str, Any]]) -> None:
    content = result()
    content["evaluations"][0] |= {"metric": "loss", "value": float("inf")}
    assert result_complaint(content) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = (
    "schema task task_title seed status steps config versions evaluations baselines guessing"
    " horizon checkpoints perfect_look parameters train_seconds"
)


@pytest.mark.slow
@given(field=st.sampled_from(FIELDS.split()), value=JSON)
def test_whatever_stands_in_a_field_the_report_is_written(
    tmp_path_factory: pytest.TempPathFactory,
    result: Callable[..., dict[str, Any]],
    field: str,
    value: Any,
) -> None:
    runs = tmp_path_factory.mktemp("any")
    folder = runs / "s0"
    folder.mkdir()
    (folder / "result.json").write_text(json.dumps(result() | {field: value}))
    found = collect(runs)
    assert len(found.runs) + len(found.problems) == 1
    render(found, "csv")
    render(found, "markdown")


@pytest.mark.slow
@given(JSON)
def test_any_json_gets_an_answer(data: Any) -> None:
    for complaint in (result_complaint, failure_complaint):
        assert complaint(data) is None or isinstance(complaint(data), str)


def test_torch_is_never_imported(root: Path) -> None:
    modules = sorted((root / "lrbench" / "report").rglob("*.py"))
    named = (path.relative_to(root).with_suffix("") for path in modules if path.stem != "__init__")
    names = [".".join(path.parts) for path in named]
    assert "lrbench.report.output.summary" in names
    heavy = ["torch", "omegaconf", "hydra"] + [
        f"lrbench.{name}" for name in ("training", "models", "mixers", "scan", "tasks", "runs")
    ]
    code = f"""
import sys
from importlib import import_module
import_module("lrbench.report.output.summary")
assert "pandas" not in sys.modules, "the end of a run needs no pandas"
for name in {names}: import_module(name)
found = [name for name in {heavy} if name in sys.modules]
assert not found, found
"""
    environment = os.environ | {"PYTHONPATH": str(root)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_the_whole_file_system_is_not_looked_through() -> None:
    with pytest.raises(UserError, match="'/' is the root of the file system"):
        collect(Path("/"))


def test_csv_is_every_row_as_pandas_writes_it(runs: Path, write: Write, fail: Write) -> None:
    def same(varying: tuple[str, ...]) -> bool:
        found = collect(runs)
        assert found.varying == varying
        return found.csv() == found.every_row.to_csv(index=False, lineterminator="\n")

    write(seed=1, task_title='a, "b"\nc')
    assert same(())
    write(seed=2, fingerprint="b" * 12, lr=3e-4)
    assert same(("optim.lr",))
    fail(seed=3, fingerprint="c" * 12, error="first\nsecond, third")  # has no such setting
    write(seed=4, fingerprint="b" * 12, lr=3e-4, evaluations=[])
    assert same(("optim.lr",))


@pytest.mark.parametrize("folder", ["a/b/s0", "s0", "/a/s0", "a//b/s0", "./a/./s0", "a/s0/", ""])
def test_the_cell_of_a_folder_is_the_folder_above(folder: str) -> None:
    assert cell_of(folder) == Path(folder).parent.as_posix()


def test_a_length_is_a_count_that_a_table_can_hold() -> None:
    assert all(map(is_length, (1, 40, 2**63 - 1)))
    assert not any(map(is_length, (0, -1, 2**63, True, 40.0, "40", None)))
