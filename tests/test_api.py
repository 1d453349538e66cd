"""The commands from Python: the same folders and messages as theirs, and the page's own code."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import lrbench
from lrbench.cli.commands.run.train import train as command
from lrbench.config import Config
from lrbench.errors import UserError
from tests.pages import text

SETTINGS = ["task=parity", "protocol.max_steps=4", "protocol.look_every=2"]
SHORT = [*SETTINGS, "protocol.test_size=20", "protocol.further_lengths=[]"]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("api") / "my 'runs' \\ here"


@pytest.fixture(scope="module")
def run(outputs: Path) -> lrbench.TrainedRun:
    (run,) = lrbench.train(*SHORT, model="blockdiag", output_dir=outputs, **{"model.layers": 2})
    return run


def test_importing_loads_nothing_heavy() -> None:
    heavy = "{'torch', 'pandas', 'numpy', 'hydra', 'omegaconf', 'rich', 'lrbench.cli'}"
    code = f"import sys, lrbench; lrbench.register_mixer; print(sorted({heavy} & set(sys.modules)))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"


@pytest.mark.slow
def test_config_is_the_function_whatever_was_imported() -> None:
    code = (
        "import lrbench.config, lrbench; from lrbench.config import Config\n"
        "assert isinstance(lrbench.config(task='sum'), Config)\n"
        "print([name for name in lrbench.__all__ if getattr(lrbench, name)])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == str(lrbench.__all__)


@pytest.mark.slow
def test_the_command_finds_what_python_trained(run: lrbench.TrainedRun, outputs: Path) -> None:
    before = (run.folder / "result.json").stat().st_mtime_ns
    typed = str(outputs).replace("'", "\\'")
    command([*SHORT, "model=blockdiag", "model.layers=2", f"output_dir='{typed}'"])
    assert (run.folder / "result.json").stat().st_mtime_ns == before
    assert [file.parent for file in outputs.rglob("result.json")] == [run.folder]
    again = lrbench.train(*SHORT, model="blockdiag", output_dir=outputs, **{"model.layers": 2})
    assert again == [run]
    assert run.result["fingerprint"] in run.folder.parts and run.result["steps"] == 4


@pytest.mark.slow
def test_settings_are_what_is_typed(tmp_path: Path) -> None:
    typed = lrbench.config(
        "task=sum", "optim.lr=1e-05", "protocol.further_lengths=[7,9]", "output_dir='a, b=c'"
    )
    given: dict[str, Any] = {"optim.lr": 1e-5, "protocol.further_lengths": (7, 9)}
    assert lrbench.config("optim.lr=1", task="sum", output_dir="a, b=c", **given) == typed
    backbone: dict[str, Any] = {"model.backbone.name": "s4", "model.backbone.norm": "batch"}
    words = [f"{key}={value}" for key, value in backbone.items()]
    assert lrbench.config(model="gru", **backbone) == lrbench.config("model=gru", *words)
    assert isinstance(typed, Config) and typed.optim.lr == 1e-5 and typed.output_dir == "a, b=c"

    for odd in ("a\\", "\\'", "'", "\\\\b", "7", "null"):
        assert lrbench.config(task="sum", output_dir=odd).output_dir == odd


def test_own_presets_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "optim"
    folder.mkdir()
    (folder / "mine.yaml").write_text("defaults: [adam]\nlr: 0.125\n")
    assert lrbench.config(task="sum", optim="mine", config_dir=tmp_path).optim.lr == 0.125


@pytest.mark.slow
def test_model_is_the_checkpoint_read_symbol_by_symbol(run: lrbench.TrainedRun) -> None:
    model = run.model("last")
    tokens = torch.randint(0, 2, (3, 11), generator=torch.Generator().manual_seed(1))
    logits, states = model(tokens), model.states(tokens)
    kept = torch.load(run.folder / "checkpoints" / "last.pt", weights_only=True)["model"]
    assert all(torch.equal(kept[name], value) for name, value in model.network.state_dict().items())
    assert not model.training and not logits.requires_grad
    assert logits.shape == (3, 11, 2) and states.shape == (3, 11, run.result["state_size"])
    for end in (1, 6, 11):
        with torch.no_grad():
            last, state = model.network(tokens[:, :end], read="last")
        torch.testing.assert_close(last, logits[:, end - 1])
        flat = torch.cat([leaf.flatten(1) for leaf in leaves(state)], 1)
        torch.testing.assert_close(flat, states[:, end - 1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (torch.zeros(5, dtype=torch.int64), "not (5,); of a single string: tokens[None]"),
        (torch.zeros(2, 0, dtype=torch.int64), "T from 1 on, not (2, 0)"),
        (torch.zeros(2, 3), "must be torch.int64, not torch.float32"),
        (torch.full((2, 3), 2), "are from 0 to 1 (0 1), not 2 to 2"),
        (torch.full((2, 3), -1), "not -1 to -1"),
    ],
)
def test_what_is_no_string_is_refused(
    run: lrbench.TrainedRun, tokens: Tensor, message: str
) -> None:
    model = run.model("last")
    for read in (model, model.states):
        with pytest.raises(UserError, match=re.escape(message)):
            read(tokens)
    with pytest.raises(UserError, match="takes tokens alone"):
        model(tokens, tokens)
    other: Any
    for other in ([[0, 1]], np.zeros((2, 3), np.int64)):
        for read in (model, model.states):
            with pytest.raises(UserError, match=r"reads tensors, not .*; try torch.as_tensor\("):
                read(other)


def leaves(state: Any) -> list[Tensor]:
    return [state] if isinstance(state, Tensor) else [one for part in state for one in leaves(part)]


def test_evaluations_are_written_and_in_the_frame(run: lrbench.TrainedRun, outputs: Path) -> None:
    rows = lrbench.load(run.folder).evaluate([13], which="last", strings=30)
    (file,) = (run.folder / "evaluations").iterdir()
    assert json.loads(file.read_text())["evaluations"] == rows
    again = run.evaluate(13, which="last", strings=30)
    assert [row["value"] for row in again] == [row["value"] for row in rows]
    frame = lrbench.results(outputs)
    scored = frame[(frame.length == 13) & (frame.n == 30)]
    (found,) = scored[scored.which == "last"].itertuples()  # a row for each rule of that update
    assert found.value == rows[0]["value"] and found.checkpoint_step == 4
    assert len(lrbench.results(outputs, looks=True)) > len(frame)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "summ"}, "Did you mean 'sum'"),
        ({"task": "sum", "seed": [1, 2]}, "seed"),
        ({"task": "sum", "optim.lr": -1.0}, "optim.lr"),
        ({"task": "sum", "modulus": 3}, "modulus"),
    ],
)
def test_mistakes_are_the_commands_own_words(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=re.escape(message)) as raised:
        lrbench.config(**settings)
    words = [f"{key}={str(value).replace(' ', '')}" for key, value in settings.items()]
    with pytest.raises(UserError) as typed:
        command(words)
    assert str(raised.value) == str(typed.value)


@pytest.mark.parametrize(
    ("settings", "typed"),
    [
        ({"protocol": {"max_steps": 9}}, '"protocol.max_steps=9", or **{"protocol.max_steps": 9}'),
        ({"model": {"backbone": {"name": "bare"}}}, '"model.backbone.name=bare"'),
        ({"optim": {}}, '"optim.KEY=VALUE"'),
    ],
)
def test_settings_in_a_dict_are_told_how_they_are_written(
    settings: dict[str, Any], typed: str
) -> None:
    with pytest.raises(UserError, match=re.escape(typed)):
        lrbench.config(**settings)


def test_what_is_no_run_or_setting_is_refused(tmp_path: Path, run: lrbench.TrainedRun) -> None:
    with pytest.raises(UserError, match="is not a run"):
        lrbench.load(tmp_path)
    with pytest.raises(UserError, match="rule"):
        run.model("worst")
    with pytest.raises(UserError, match="config_dir=FOLDER"):
        lrbench.config("--config-dir=here")
    with pytest.raises(UserError, match=r"must be a whole number, not 2\.5"):
        run.evaluate(13, strings=2.5)  # type: ignore[arg-type]
    with pytest.raises(UserError, match="'thirteen' is not a length"):
        run.evaluate("thirteen")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="--splits does not go with"):
        run.evaluate(splits="dev")
    with pytest.raises(UserError, match="a Config alone"):
        lrbench.train(lrbench.config(task="sum"), seed=1)
    (tmp_path / "checkpoints").mkdir()
    with pytest.raises(UserError, match="has no result"):
        _ = lrbench.load(tmp_path).result


@pytest.mark.slow
def test_the_page_runs_as_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", text("python"), re.M | re.S)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert (tmp_path / "states.png").stat().st_size > 5000
    assert {100, 200} <= set(names["table"].index)
    printed = capsys.readouterr().out
    assert "finished 20" in printed and "Did you mean 'sum'" in printed
