from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from lrbench import plugins
from lrbench.bundles.archive import unpacked
from lrbench.bundles.choice import TableChoice
from lrbench.bundles.pack import pack
from lrbench.errors import UserError
from lrbench.report.runs.collect import collect
from lrbench.runs.evaluate.evaluation import evaluate_run
from lrbench.tables import TableCell, TableSpec

Edit = Callable[[Path, Callable[[dict[str, Any]], object]], None]


def test_what_is_in_it(original: dict[str, bytes]) -> None:
    kinds = {name.rpartition("/")[2] for name in original}
    assert kinds == {
        "manifest.json",
        "table.md",
        "runs.csv",
        "strings.json",
        "config.json",
        "environment.json",
        "result.json",
        "metrics.jsonl",
        "best.pt",
    }
    manifest = json.loads(original["manifest.json"])
    assert manifest["schema"] == 1
    assert manifest["commands"]["bundle"] == "lrbench bundle --rule best"
    assert set(manifest["files"]) == set(original) - {"manifest.json"}
    assert original["runs.csv"].startswith(b"task,")
    assert "sum" in original["table.md"].decode()
    assert manifest["versions"]["torch"] == torch.__version__
    [digest] = {
        len(h)
        for reported in json.loads(original["strings.json"]).values()
        for h in reported.values()
    }
    assert digest == 64


def test_weights_only(original: dict[str, bytes]) -> None:
    data = next(data for name, data in original.items() if name.endswith(".pt"))
    state = torch.load(io.BytesIO(data), weights_only=True)
    assert set(state) == {"model", "step", "fingerprint", "seed"}
    assert all(isinstance(value, torch.Tensor) for value in state["model"].values())


def test_scores_of_later_with_the_run(runs: Path, tmp_path: Path) -> None:
    run = next(runs.rglob("s0"))
    evaluate_run(run, "15", "best", 400, "cpu")
    [written] = (run / "evaluations").iterdir()
    (written.parent / f".{written.name}").write_text("half a")
    (tmp_path / "a.zip").write_bytes(pack(runs, TableChoice(), "a.zip").data)
    files = unpacked(tmp_path / "a.zip")
    assert [name for name in files if "/evaluations/" in name] == [
        f"runs/{written.relative_to(runs).as_posix()}"
    ]
    assert b",15,further,accuracy," in files["runs.csv"]


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
def test_the_same_bytes_from_a_copy(trained: Path, runs: Path, name: str) -> None:
    assert pack(trained, TableChoice(), name).data == pack(runs, TableChoice(), name).data


def test_a_table(trained: Path) -> None:
    table = TableSpec("mine", "Mine", (TableCell(("task=sum", "model=blockdiag")),))
    assert pack(trained, TableChoice(table, rule="id"), "a.zip").runs == 2
    empty = TableSpec("mine", "Mine", (TableCell(("task=even_pair", "model=blockdiag")),))
    with pytest.raises(UserError, match="no run of mine"):
        pack(trained, TableChoice(empty), "a.zip")


def test_rows_and_columns(trained: Path) -> None:
    assert pack(trained, TableChoice(rows=("blockdiag",), columns=("sum",)), "a.zip").runs == 2
    with pytest.raises(UserError, match=r"--rows s4: no run of that model\nthere are: blockdiag"):
        pack(trained, TableChoice(rows=("s4",)), "a.zip")


def test_rows_of_which_no_run_has_ended(runs: Path) -> None:
    for path in runs.glob("*/*/*/*/s*/result.json"):
        path.unlink()
    message = (
        r"--rows blockdiag: no run of that model has ended: 2 runs under way\nno other run has"
    )
    with pytest.raises(UserError, match=message) as raised:
        pack(runs, TableChoice(rows=("blockdiag",)), "a.zip")
    assert len(str(raised.value).splitlines()) == 3


def test_competing_configurations_are_to_be_chosen(runs: Path, edit: Edit) -> None:
    cell = next(runs.glob("*/*/*/*"))
    other = cell.with_name("f" * 12)
    shutil.copytree(cell, other)
    for path in other.glob("s*/result.json"):
        edit(path, lambda result: result.update(fingerprint="f" * 12))
    table = TableSpec("mine", "Mine", (TableCell(("task=sum", "model=blockdiag")),))
    for choice in (TableChoice(), TableChoice(table)):
        message = f"2 configurations compete.*\n.*--fingerprint {cell.name}"
        with pytest.raises(UserError, match=message):
            pack(runs, choice, "a.zip")
        assert pack(runs, choice, "a.zip", (cell.name[:6],)).runs == 2


def test_a_run_without_a_checkpoint_is_reported(runs: Path) -> None:
    for path in runs.rglob("s1/checkpoints/*.pt"):
        path.unlink()
    assert [Path(f).name for f in pack(runs, TableChoice(), "a.zip").without_checkpoint] == ["s1"]


def test_the_checkpoint_of_another_run_is_refused(runs: Path) -> None:
    [cell] = runs.glob("*/*/*/*")
    shutil.copy(cell / "s1/checkpoints/best.pt", cell / "s0/checkpoints/best.pt")
    with pytest.raises(UserError, match=r"not the checkpoint that result\.json was made from"):
        pack(runs, TableChoice(), "a.zip")


def test_the_checkpoint_of_another_update_is_refused(runs: Path) -> None:
    path = next(runs.rglob("s0/checkpoints/best.pt"))
    state = torch.load(path, weights_only=True)
    torch.save(state | {"step": state["step"] + 4}, path)
    with pytest.raises(UserError, match=rf"it is of .*, seed 0, update {state['step'] + 4}"):
        pack(runs, TableChoice(), "a.zip")


def test_a_failed_run_of_other_settings_competes_with_none(runs: Path) -> None:
    """Only settings of which a run has ended are a choice to make."""
    cell = next(runs.rglob("s0")).parent
    other = cell.with_name("0123456789ab")
    shutil.copytree(cell, other)
    shutil.rmtree(other / "s1")
    (other / "s0" / "result.json").unlink()
    failure = {"schema": 1, "error": "no memory", "type": "MemoryError", "step": 3}
    (other / "s0" / "failure.json").write_text(json.dumps(failure))
    assert pack(runs, TableChoice(), "a.zip").digest


def test_a_damaged_checkpoint_is_refused(runs: Path) -> None:
    path = next(runs.rglob("best.pt"))
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match="cannot be bundled"):
        pack(runs, TableChoice(), "a.zip")


def test_a_plugin_must_be_there_and_unchanged(
    runs: Path, edit: Edit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "_loaded", {})
    for path in runs.rglob("result.json"):
        edit(path, lambda result: result["versions"].update(plugins={"bundled_one": "0" * 64}))
    with pytest.raises(UserError, match="LRBENCH_PLUGINS=bundled_one lrbench bundle"):
        pack(runs, TableChoice(), "a.zip")
    (tmp_path / "bundled_one.py").write_text("ONE = 1\n")
    monkeypatch.setenv("LRBENCH_PLUGINS", "bundled_one")
    with pytest.raises(UserError, match="was changed after runs were made"):
        pack(runs, TableChoice(), "a.zip")


def test_runs_that_failed_alone_are_no_bundle(runs: Path) -> None:
    for path in runs.rglob("result.json"):
        told = json.loads(path.read_text())
        names = ("schema", "task", "model", "protocol", "fingerprint", "seed")
        failure = {name: told[name] for name in names} | {"error": "x", "type": "X", "step": 1}
        path.with_name("failure.json").write_text(json.dumps(failure))
        path.unlink()
    with pytest.raises(UserError, match="no run of the table has ended\nlrbench status"):
        pack(runs, TableChoice(), "a.zip")


def test_damaged_and_unfinished_runs_are_named(runs: Path, tmp_path: Path) -> None:
    """A bundle without them would tell of fewer runs than were trained."""
    whole = pack(runs, TableChoice(), "a.zip")
    assert (whole.runs, whole.damaged, whole.unfinished) == (2, [], [])
    result = next(runs.rglob("s1/result.json"))
    text = result.read_text()
    result.write_text(text[:100])
    cut = pack(runs, TableChoice(), "a.zip")
    assert cut.runs == 1 and cut.unfinished == []
    (line,) = cut.damaged
    assert "s1/result.json" in line
    result.unlink()
    table = TableSpec("mine", "Mine", (TableCell(("task=sum", "model=blockdiag")),))
    for choice in (TableChoice(), TableChoice(table), TableChoice(rows=("blockdiag",))):
        waiting = pack(runs, choice, "a.zip")
        folder = result.parent.relative_to(runs).as_posix()
        assert (waiting.runs, waiting.damaged, waiting.unfinished) == (1, [], [folder])
        assert waiting.digest != whole.digest
    assert TableChoice(columns=("parity",)).unfinished(collect(runs)) == []
