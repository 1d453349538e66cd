"""`lrbench tasks` and `lrbench models`: a line each, plugins marked."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench import plugins
from lrbench.registry import ENCODERS, MIXERS, TASKS

Run = Callable[..., Any]
PLUGIN = '''
from dataclasses import dataclass
from lrbench.registry import register_mixer, register_task

@dataclass
class Settings:
    name: str = "mine"

@register_mixer("mine", Settings)
class Mine:
    """A model of [my] own."""

@register_task("mine", Settings, "what I ask")
class Ask:
    pass
'''


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_listed.py").write_text(PLUGIN)
    monkeypatch.setenv("LRBENCH_PLUGINS", "mine_listed")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(plugins, "_loaded", {})
    for registry in (TASKS, MIXERS):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    monkeypatch.delitem(sys.modules, "mine_listed", raising=False)


@pytest.mark.parametrize("registries", [[TASKS], [MIXERS, ENCODERS]], ids=["tasks", "models"])
def test_a_line_each(lrbench: Run, registries: list[Any]) -> None:
    ended = lrbench("tasks" if TASKS in registries else "models")
    assert (ended.code, ended.err) == (0, "")
    names = sorted(name for registry in registries for name in registry.names())
    lines = ended.out.splitlines()
    assert [line.split()[0] for line in lines] == names
    assert max(map(len, lines)) <= 110  # the longest name alone has 32
    assert "plugin" not in ended.out and "\x1b" not in ended.out


def test_columns(lrbench: Run) -> None:
    lines = lrbench("tasks").out.splitlines()
    width = max(map(len, TASKS.names()))
    assert f"{'sum':<{width}}  running sum mod M (Fan, Chi & Rudnicky 2024)" in lines
    assert f"{'mod_arith':<{width}}  prefix expressions mod M (Fan et al. 2024)" in lines


@pytest.mark.usefixtures("mine")
def test_plugins_name_their_module(lrbench: Run) -> None:
    assert "A model of [my] own. [plugin mine_listed]" in lrbench("models").out
    assert "what I ask [plugin mine_listed]" in lrbench("tasks").out


def test_a_plugin_that_is_not_there(lrbench: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LRBENCH_PLUGINS", "not_there")
    ended = lrbench("models")
    assert (ended.code, ended.out) == (1, "")
    assert "plugin 'not_there' (LRBENCH_PLUGINS) not found" in ended.err
