"""Plugins by environment variable and by entry point, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lrbench import plugins
from lrbench.errors import UserError
from lrbench.plugins import VARIABLE
from lrbench.registry import OWN, TASKS
from tests import programs

MINE = """
from dataclasses import dataclass
from lrbench import register_task
from lrbench.tasks.symbols.cyclic import Sum

@dataclass
class MineConfig:
    name: str = "mine"
    modulus: int = 3

@register_task("mine", MineConfig, "a task of my own")
class Mine(Sum):
    pass
"""


def tasks(**environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lrbench", "tasks"]
    env = {**os.environ, **environment}
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_by_environment_variable_from_the_current_folder() -> None:
    Path("mine.py").write_text(MINE)
    run = tasks(LRBENCH_PLUGINS="mine")
    assert run.returncode == 0, run.stderr
    assert "a task of my own" in run.stdout
    assert "a task of my own" not in programs.lrbench("tasks").stdout


def test_an_unknown_name_says_how_ones_own_is_found() -> None:
    assert f"{VARIABLE}=mine" in OWN
    with pytest.raises(UserError, match="one of your own: LRBENCH_PLUGINS=mine"):
        TASKS.get("mine")


def test_by_entry_point_of_an_installed_package(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "mine-1.dist-info").mkdir(parents=True)
    (site / "mine_package.py").write_text(MINE)
    (site / "mine-1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: mine\nVersion: 1\n"
    )
    (site / "mine-1.dist-info" / "entry_points.txt").write_text(
        "[lrbench.plugins]\nmine = mine_package\n"
    )
    path = os.pathsep.join([str(site), os.environ["PYTHONPATH"]])
    run = programs.lrbench("tasks", env={**os.environ, "PYTHONPATH": path})
    assert run.returncode == 0, run.stderr
    assert "a task of my own" in run.stdout


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "not found"),
        ("def broken(:", "SyntaxError"),
        ("import no_such_package", "needs a module that is missing"),
        ("raise RuntimeError('boom')", "RuntimeError: boom (mine.py, line 1)"),
        ("import sys; sys.exit(0)", "SystemExit: 0"),
    ],
)
def test_a_plugin_that_does_not_import(source: str | None, message: str) -> None:
    if source is not None:
        Path("mine.py").write_text(source)
    run = tasks(LRBENCH_PLUGINS="mine")
    assert run.returncode == 1
    assert message in run.stderr
    assert "Traceback" not in run.stderr
    assert len(run.stderr.strip().splitlines()) <= 6


def test_a_plugin_named_like_a_module_of_python_is_told() -> None:
    """That one was imported, and the plug-in's names stayed unknown."""
    Path("token.py").write_text(MINE)
    assert "token" in sys.modules
    with pytest.raises(UserError, match="python has a module of that name already") as told:
        plugins._import("token", VARIABLE)
    assert "fix: rename yours" in str(told.value)


def test_a_plugin_that_takes_long_to_import_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("slow_plugin.py").write_text("import time\ntime.sleep(0.5)\n")
    monkeypatch.setattr(plugins, "PATIENCE", 0.01)
    monkeypatch.syspath_prepend(".")
    plugins._import("slow_plugin", VARIABLE)
    assert capsys.readouterr().err == "importing plugin 'slow_plugin' (LRBENCH_PLUGINS)\n"
    monkeypatch.setattr(plugins, "PATIENCE", 60)
    Path("quick_plugin.py").write_text("")
    plugins._import("quick_plugin", VARIABLE)
    assert capsys.readouterr().err == ""
