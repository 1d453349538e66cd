"""Help: every command explains itself without importing torch, and a wrong word is put right."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from typer.core import TyperCommand
from typer.main import get_command

from lrbench import __version__
from lrbench.cli import Commands, Registered, app
from lrbench.cli.commands.run.train import COMMON
from lrbench.config import Config, OptimConfig, StackConfig
from lrbench.protocols.fan2024.declaration import Fan2024Config

Run = Callable[..., Any]
COMMANDS = [
    *("train", "sweep", "tune", "evaluate"),
    *("report", "status", "show", "tasks", "models", "protocols", "tables", "certify", "diagnose"),
    *("publish", "bundle", "enter", "verify", "export"),
    *("check", "bench", "data", "doctor"),
]


def test_help_of_everything_without_torch(
    without_torch: Callable[..., tuple[list[int], str]],
) -> None:
    codes, out = without_torch([["--help"], *([command, "--help"] for command in COMMANDS)])
    assert codes == [0] * (1 + len(COMMANDS))
    usages = [line.split() for line in out.splitlines() if line.startswith(" Usage: ")]
    assert [words[2] for words in usages[1:]] == COMMANDS
    assert max(map(len, out.splitlines())) <= 80
    assert "\x1b" not in out
    assert "<list[" not in out


def test_common_keys_of_train_are_settings(lrbench: Run) -> None:
    shown = [line.split("=")[0] for line in COMMON.splitlines()[1:]]
    assert len(shown) >= 12 and all(f" {key}=" in lrbench("train", "--help").out for key in shown)
    schemas = {"": Config, "model.": StackConfig, "protocol.": Fan2024Config, "optim.": OptimConfig}
    known = {prefix + one.name for prefix, schema in schemas.items() for one in fields(schema)}
    assert set(shown) <= known


def test_version(lrbench: Run) -> None:
    assert lrbench("--version") == type(lrbench("--version"))(0, f"lrbench {__version__}\n", "")


def test_help_lists_every_command_with_what_it_does(lrbench: Run) -> None:
    out = lrbench("--help").out
    for command in COMMANDS:
        line = next(line for line in out.splitlines() if line.startswith(f"│ {command} "))
        assert len(line.strip("│ ").split()) > 3
    assert [line.split()[1] for line in out.splitlines() if line.startswith("╭─")] == [
        *("Options", "Run", "Look", "Share", "Extend")
    ]
    shown = out[out.index("╭─ Run") :].splitlines()
    assert len([line for line in shown if line.startswith("│")]) <= 2 * len(COMMANDS)


ONE = """
import sys
from lrbench.cli import main
sys.argv = ["lrbench", "models", "lstm"]
main()
found = [name for name in sys.modules if name.startswith("lrbench.cli.commands.")]
assert "lrbench.cli.commands.look.listing" in found
assert not {"train", "report", "doctor"} & {name.split(".")[-1] for name in found}, found
"""


def test_a_command_imports_no_other() -> None:
    subprocess.run([sys.executable, "-c", ONE], check=True, capture_output=True, timeout=60)


def test_commands_are_those_of_the_panels() -> None:
    commands = Registered()
    assert list(commands) == COMMANDS and len(commands) == len(COMMANDS)
    assert "trian" not in commands and commands.get("trian") is None
    with commands.briefly():
        assert "Train" in commands["train"].help and not commands["train"].params
    assert commands["train"].params and commands["train"] is commands["train"]
    assert set(commands["bench"].commands) >= {"train", "selfcheck"}


def test_a_command_line_is_used_again_after_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    group = get_command(app)
    for words in (["--help"], ["tables"]):
        group.main(words, "lrbench", standalone_mode=False)
        out = capsys.readouterr().out
    assert "fan2024_table2" in out


def test_a_file_of_a_command_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(module: str) -> None:
        raise KeyError("a name of its own")

    monkeypatch.setattr("lrbench.cli.import_module", broken)
    with pytest.raises(RuntimeError, match=r"commands\.run\.train cannot be imported"):
        Registered().get("train")


def test_a_command_added_from_outside_is_there() -> None:
    group = Commands(commands={"mine": TyperCommand("mine")})
    assert group.get_command(None, "mine").name == "mine"
    assert group.list_commands(None) == [*COMMANDS, "mine"]


def test_no_arguments_print_the_help(lrbench: Run) -> None:
    ended = lrbench()
    assert "lrbench [OPTIONS] COMMAND" in ended.out + ended.err
    assert "Start with: lrbench train" in ended.out + ended.err


def test_an_unknown_command(lrbench: Run) -> None:
    ended = lrbench("repotr")
    assert (ended.code, ended.out) == (2, "")
    assert "No such command 'repotr'" in ended.err and "'report'" in ended.err
    assert "Traceback" not in ended.err and "\x1b" not in ended.err


def test_an_unknown_option(lrbench: Run) -> None:
    ended = lrbench("report", "--fromat", "csv")
    assert (ended.code, ended.out) == (2, "")
    assert "--fromat" in ended.err and "--format" in ended.err
    assert "Traceback" not in ended.err
