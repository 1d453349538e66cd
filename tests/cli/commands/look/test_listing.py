"""`lrbench tasks`, `models`, `protocols`, `tables`: grouped lines, plugins marked, and cards."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lrbench import plugins
from lrbench.cli.commands.look.cards import protocol_card, task_card
from lrbench.cli.commands.look.listing import PROTOCOLS_HELP
from lrbench.cli.completion import typed
from lrbench.cli.hydra.compose import composed
from lrbench.registry import ENCODERS, MIXERS, PROTOCOLS, TASKS
from lrbench.runs.train.validate import validated
from lrbench.tables import load_table

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
    lines = [line for line in ended.out.splitlines() if line and not line.startswith("# ")]
    assert sorted(line.split()[0] for line in lines) == names
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


def test_groups(lrbench: Run) -> None:
    headings = [line for line in lrbench("tasks").out.splitlines() if line.startswith("# ")]
    assert [line.split()[1] for line in headings] == ["strings,", "series", "corpora,"]
    groups = lrbench("models").out.split("\n\n")
    assert groups[0].startswith("# mixers for strings and series: attention\ntransformer ")
    assert [group.splitlines()[0] for group in groups if "\nebt_grc " in group] == [
        "# encoders for corpora: trees"
    ]


CARDS = [
    *(("models", "deltanet"), ("models", "bbt_grc"), ("models", "pooled"), ("tasks", "listops")),
    *(("tasks", "mackey_glass"), ("protocols", "walker2025"), ("tables", "fan2024_table2")),
]


@pytest.mark.parametrize(("command", "name"), CARDS)
def test_a_card_says_what_json_says(lrbench: Run, command: str, name: str) -> None:
    ended = lrbench(command, name)
    assert (ended.code, ended.err) == (0, "") and "\x1b" not in ended.out
    said = json.loads(lrbench(command, name, "--json").out)
    assert said["name"] == name and said["source"] in ended.out
    assert all(line in ended.out for line in said["text"].splitlines())
    words = " ".join(ended.out.split())
    for one in said["settings"]:
        assert f"\n{one['key']}={typed(one['default'])}" in ended.out
        assert " ".join(one["meaning"].split()) in words
    assert all(f"\n    {example}\n" in ended.out for example in said["examples"])


def test_what_a_card_offers_to_train_can_be_trained() -> None:
    """Of the cards of all tasks and protocols: corpora and images are not at hand."""
    away = ("task=listops", "task=logic", "task=lra_", "task=psmnist")
    cards = [task_card(name) for name in TASKS.names()]
    cards += [protocol_card(name) for name in PROTOCOLS.names()]
    tried = 0
    for card in cards:
        command = next(one for one in card.examples if one.startswith("lrbench train "))
        if not any(word in command for word in away):
            validated(composed([*command.split()[2:], "device=cpu"]))
            tried += 1
    assert tried >= 47
    validated(composed(PROTOCOLS_HELP.split("lrbench train ")[1].split()))


def test_what_a_card_tells_of_a_setting(lrbench: Run) -> None:
    said = {
        one["key"]: one for one in json.loads(lrbench("models", "lmu", "--json").out)["settings"]
    }
    assert said["model.width"]["least"] == 1 and said["model.backbone.norm"]["default"] is True
    order, gate = said["model.mixer.order"], said["model.mixer.f"]
    assert (order["default"], order["least"], order["values"]) == (64, 1, None)
    assert gate["default"] in gate["values"] and gate["meaning"] == "the non-linearity."
    assert "h_t = f(W_x x_t + W_h h_{t-1} + W_m m_t)" in lrbench("models", "lmu").out


@pytest.mark.parametrize("command", ["models", "tasks", "protocols", "tables"])
def test_lists_as_json(lrbench: Run, command: str) -> None:
    ended = lrbench(command, "--json")
    cards = json.loads(ended.out)
    assert (ended.code, ended.err) == (0, "") and len(cards) > 10
    names = [card["name"] for card in cards]
    assert names == sorted(names) and all(card["text"] and card["examples"] for card in cards)
    listed = [line.split()[0] for line in lrbench(command).out.splitlines() if line]
    assert sorted(name for name in listed if name != "#") == names


def test_a_name_that_is_not_there(lrbench: Run) -> None:
    for command in ("models", "tasks", "protocols", "tables"):
        ended = lrbench(command, "blockdig", "--json")
        assert (ended.code, ended.out) == (1, "") and "'blockdig' unknown" in ended.err
    assert "Did you mean 'blockdiag'?" in lrbench("models", "blockdig").err


def test_the_file_of_a_table(lrbench: Run, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(lrbench("tables", "fan2024_column", "--yaml").out)
    mine = load_table(str(tmp_path / "mine.yaml"))
    assert mine.cells == load_table("fan2024_column").cells
    assert lrbench("tables", "--yaml").code == 2


def test_a_card_imports_no_other_model() -> None:
    code = (
        "import sys; from lrbench.cli.commands.look.cards import model_card;"
        "model_card('lru'); print(*(m for m in sys.modules if m.startswith('lrbench.mixers.')))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "lrbench.mixers.state_space.lru" in ended.stdout.split(), ended.stderr
    assert not {"s5", "gru_seed", "mamba3"} & {m.rpartition(".")[2] for m in ended.stdout.split()}


def test_a_plugin_that_is_not_there(lrbench: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LRBENCH_PLUGINS", "not_there")
    ended = lrbench("models")
    assert (ended.code, ended.out) == (1, "")
    assert "plugin 'not_there' (LRBENCH_PLUGINS) not found" in ended.err
