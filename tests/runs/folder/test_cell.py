"""The folder that all seeds of a configuration share."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from lrbench.cli.hydra.compose import composed
from lrbench.config import Config
from lrbench.errors import UserError
from lrbench.registry import MIXERS
from lrbench.runs.folder import files, versions
from lrbench.runs.folder.cell import Cell
from lrbench.tasks.symbols.cyclic import Sum

Tiny = Callable[..., Config]


def test_seeds_and_machines_share_a_folder_and_settings_do_not(
    tiny: Tiny, output_dir: Path
) -> None:
    cell = Cell.of(tiny())
    assert cell.folder.parent == output_dir / "sum" / "blockdiag" / "fan2024"
    assert Cell.of(tiny(seed=5, trials=3, threads=2, force=True)).folder == cell.folder
    assert Cell.of(tiny(optim={"lr": 0.5})).folder != cell.folder
    assert Cell.of(tiny(seed=5, trials=3)).seeds == [5, 6, 7]


def test_a_later_setting_moves_a_cell_only_where_it_is_set(tiny: Tiny) -> None:
    """Neither the files nor the name of an older cell know of it."""
    optim = {"lr": 0.5, "schedule": "cosine"}
    old = Cell.of(tiny(optim=optim))
    assert "final_lr" not in old.settings["optim"]
    assert Cell.of(tiny(optim={**optim, "final_lr": 0.0})).fingerprint == old.fingerprint
    new = Cell.of(tiny(optim={**optim, "final_lr": 0.25}))
    assert new.settings["optim"]["final_lr"] == 0.25
    assert new.fingerprint != old.fingerprint


def test_another_version_of_a_task_is_another_cell(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Cell.of(tiny())
    monkeypatch.setattr(Sum, "version", Sum.version + 1)
    assert Cell.of(tiny()).fingerprint != before.fingerprint


def test_what_stands_inside_an_encoder_is_in_the_name(
    monkeypatch: pytest.MonkeyPatch, output_dir: Path
) -> None:
    """Another version of a pooled mixer is another model, and so is another source of a plug-in."""
    words = ["task=listops", "model=pooled", f"output_dir={output_dir}"]
    before, other = composed([*words, "model.encoder.mixer=gru"]), composed(words)
    first, unchanged = Cell.of(before), Cell.of(other)
    assert not {"inner_mixer", "inner_backbone"} & set(first.versions)  # older names stay
    with monkeypatch.context() as patched:
        patched.setattr(MIXERS.get("gru").cls, "version", 2)
        assert Cell.of(before).versions["inner_mixer"] == 2
        assert Cell.of(before).fingerprint != first.fingerprint
        assert Cell.of(other).fingerprint == unchanged.fingerprint
    mine = type("Mine", (MIXERS.get("gru").cls,), {"__module__": "inner_mine"})
    own = replace(MIXERS.get("gru"), name="inner_mine", cls=mine)
    monkeypatch.setitem(MIXERS._entries, "inner_mine", own)
    plugins = {"inner_mine": ModuleType("inner_mine")}
    monkeypatch.setattr(versions, "load_plugins", lambda: plugins)
    names = []
    for digest in ("as it is", "changed"):
        monkeypatch.setattr(versions, "source_hash", lambda module, digest=digest: digest)
        cell = Cell.of(composed([*words, "model.encoder.mixer=inner_mine"]))
        assert cell.versions["plugins"] == {"inner_mine": digest}
        names.append(cell.fingerprint)
    assert len(set(names)) == 2


def test_the_configuration_is_written_once(tiny: Tiny) -> None:
    cell = Cell.of(tiny(seed=1))
    cell.open()
    Cell.of(tiny(seed=2)).open()
    assert files.read_json(cell.folder / "config.json")["seed"] == 1
    assert [path.name for path in cell.folder.iterdir()] == ["config.json"]


def test_the_environment_says_what_trains(tiny: Tiny) -> None:
    cell = Cell.of(tiny())
    cell.open()
    cell.describe_environment()
    assert files.read_json(cell.folder / "environment.json")["python"]


def test_an_edited_configuration_is_refused_by_key(tiny: Tiny) -> None:
    cell = Cell.of(tiny())
    cell.open()
    edited = {**cell.settings, "optim": {**cell.settings["optim"], "lr": 0.5}, "seed": 9}
    files.write_json(cell.folder / "config.json", edited)
    with pytest.raises(UserError, match=r"config\.json was changed .*: optim\.lr\n"):
        cell.open()


def test_a_torn_configuration_is_written_again(tiny: Tiny) -> None:
    cell = Cell.of(tiny())
    cell.open()
    path = cell.folder / "config.json"
    path.write_text(path.read_text()[:50])
    cell.open()
    assert files.read_json(path) == cell.settings


def test_a_folder_that_cannot_be_made_is_reported(tiny: Tiny, output_dir: Path) -> None:
    output_dir.write_text("a file")
    with pytest.raises(UserError, match="cannot be written"):
        Cell.of(tiny()).open()


def test_what_a_killed_run_left_beside_the_seeds_goes(tiny: Tiny) -> None:
    cell = Cell.of(tiny())
    cell.open()
    pid = subprocess.run(["sh", "-c", "echo $$"], capture_output=True, text=True).stdout.strip()
    left = cell.folder / f".config.json.{pid}.{files._host_tag()}0123abcd.tmp"
    left.touch()
    cell.open()
    assert [path.name for path in cell.folder.iterdir()] == ["config.json"]
