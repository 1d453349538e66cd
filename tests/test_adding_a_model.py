"""The examples of docs/adding-a-model.md are models: they are checked, trained, and bundled."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from lrbench.registry import MIXERS
from tests.pages import SHORT, commands, lrbench, printed, text, write

PAGE = "adding-a-model"


def test_a_torch_module_is_one_line(tmp_path: Path) -> None:
    """From an empty folder, by the page's own commands: check, train, report, bundle, verify."""
    write(PAGE, "my_layers.py", tmp_path)
    check, train = commands(PAGE, "model=foreign")
    output = lrbench(tmp_path, *check).splitlines()
    expected = printed(PAGE, "foreign:")
    if not torch.cuda.is_available():
        assert output[-len(expected) :] == expected
    long = [word for word in train if "max_steps" not in word]
    lrbench(tmp_path, *long, *SHORT)
    (file,) = tmp_path.glob("outputs/parity/foreign/fan2024/*/s0/result.json")
    mixer = json.loads(file.read_text())["config"]["model"]["mixer"]
    assert mixer == {
        "target": "my_layers.MyLayer",
        "args": {"hidden": 8},
        "width_as": ["dim"],
    }
    report = lrbench(tmp_path, "report")
    assert "| foreign† |" in report and "- † foreign: a torch module" in report
    run = str(file.parent.relative_to(tmp_path))
    lrbench(tmp_path, "evaluate", run, "--lengths", "50", plugins="my_layers")
    bundle = ["bundle", "--rows", "foreign", "--columns", "parity", "--output", "b.zip"]
    lrbench(tmp_path, *bundle, plugins="my_layers")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "b.zip").rename(elsewhere / "b.zip")
    verified = lrbench(
        elsewhere, "verify", "b.zip", "--seed", "0", "--strings", "50", "--trust-plugins"
    )
    assert "confirmed    scores: 1 of 1 runs" in verified


def test_the_page_names_what_the_adapter_knows() -> None:
    from lrbench.mixers.foreign.libraries import LAYERS
    from lrbench.mixers.foreign.settings import WIDTHS

    names = set(re.findall(r"`(\w+)`", text(PAGE)))
    assert [name for name in (*WIDTHS, *LAYERS) if name not in names] == []


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    write(PAGE, "mine.py", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(MIXERS, "_entries", dict(MIXERS._entries))
    yield importlib.import_module("mine")
    del sys.modules["mine"]


def test_example_model_is_causal_and_its_modes_agree(mine: ModuleType) -> None:
    entry = MIXERS.get("mine")
    torch.manual_seed(0)
    mixer = entry.cls(entry.config(), 8).double()
    u = torch.randn(2, 13, 8, dtype=torch.float64)
    outputs = {mode: mixer(u, mode=mode)[0] for mode in mixer.modes}
    for y in outputs.values():
        torch.testing.assert_close(y, outputs["reference"], rtol=1e-9, atol=1e-12)
    y, state = mixer(u[:, :6])
    rest, _ = mixer(u[:, 6:], state)
    torch.testing.assert_close(torch.cat([y, rest], 1), outputs["reference"])
    assert state[0].numel() == mixer.state_size


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    """In processes of their own, as a user's: the check of the page's file, a short training."""
    write(PAGE, "mine.py", tmp_path)
    typed = commands(PAGE, "LRBENCH_PLUGINS=mine ")
    assert [command[0] for command in typed] == ["check", "train"]
    for command in typed:
        arguments = [*command, *(SHORT if command[0] == "train" else [])]
        assert "mine" in lrbench(tmp_path, *arguments, plugins="mine")


def test_the_table_of_the_page_has_the_published_rows_and_mine(root: Path, tmp_path: Path) -> None:
    """The page's commands are what is typed here, but for what takes hours."""
    blocks = dict(re.findall(r"^```(\w+)\n(.*?)^```", text(PAGE), re.M | re.S))
    write(PAGE, "mine.py", tmp_path)
    (tmp_path / "lrbench").symlink_to(root)  # the clone, as the page has it
    copied, into = re.search(r"^    lrbench (tables .*) > (\S+)$", text(PAGE), re.M).groups()
    (tmp_path / into).write_text(lrbench(tmp_path, *copied.split()) + blocks["yaml"])
    typed = re.findall(r"^    lrbench ((?:tune|sweep|report) .*)$", text(PAGE), re.M)
    tune, deep, sweep, report = (command.split() for command in typed)
    for search in (tune, deep):
        tiny = ["protocol.max_steps=2", "protocol.test_size=8", "protocol.further_lengths=[]"]
        arguments = [argument for argument in search if "max_steps" not in argument]
        lrbench(
            tmp_path,
            *arguments,
            *tiny,
            "task=even_pair" if search is tune else "task=mod_arith",
            plugins="mine",
        )
    planned = lrbench(tmp_path, *sweep, "--dry-run", plugins="mine")
    assert "9 runs: 0 finished, 9 to do" in planned
    (tmp_path / "outputs").mkdir()
    table = lrbench(tmp_path, *report, plugins="mine")
    assert "| mine " in table and "| blockdiag, plain " in table and "paper: Ours" in table
