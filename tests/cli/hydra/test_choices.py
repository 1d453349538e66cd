"""Choices that were composed before: what is set in a copy is what Hydra composes anew."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import make_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from lrbench.cli.hydra import choices, compose
from lrbench.cli.hydra.choices import by_hydra, composed_node
from lrbench.cli.hydra.compose import completed, prepare, run_hydra
from lrbench.config import Config, ModelConfig
from lrbench.locations import conf_dir
from lrbench.registry import TASKS

LINES = (
    [],
    ["seed=3", "seed=4", "protocol.further_lengths=[]", "model.mixer.solver='a, b'"],
    ["task=mod_arith", "model=lstm", "optim.lr=${optim.weight_decay}"],
    ["task=listops", "model=bbt_grc", "optim.name=adam"],
    ["optim=ranger", "protocol=rir2023", "task=logic", "model=mega", "protocol.epochs=3"],
    ["task=sum", "task=dfa", "protocol=suite_v1", "model=mamba2", "model.mixer.range=signed"],
    ["model=gru", "model.backbone.name=bare", "model.width=7"],
    ["model=foreign", "model.mixer.settings.a=1", "model.mixer.settings={b:[x]}"],
    ["task=sum", "++model.width=9", "optim.betas=[0.5,0.6]", "output_dir=null"],
)


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, ...], Any]:
    kept: dict[tuple[str, ...], Any] = {}
    monkeypatch.setattr(choices, "_kept", kept)
    return kept


def words_of(line: list[str]) -> list[str]:
    prepare(line)
    return completed(line, [choices.conf_dir()])


def everything(node: Any, key: str = "") -> Iterator[tuple[Any, ...]]:
    """Yield what is set, as it was written, of which type, and whether more may be added."""
    yield key, OmegaConf.get_type(node), OmegaConf.is_struct(node), node._get_flag("readonly")
    for name in [] if node._is_none() or node._is_missing() else node:
        child = node._get_node(name)
        if OmegaConf.is_dict(child):
            yield from everything(child, f"{key}.{name}")
        else:
            yield f"{key}.{name}", child if OmegaConf.is_list(child) else child._value()


def outcome(way: Any, words: list[str]) -> Any:
    """What comes of it: a configuration or an error."""
    try:
        return list(everything(way(words)))
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_a_copy_is_what_hydra_composes(
    line: list[str], nothing_kept: dict[tuple[str, ...], Any]
) -> None:
    """At first, where only the choices are kept, and once more; an error is Hydra's own."""
    words = words_of(line)
    plain = outcome(by_hydra, words)
    assert [outcome(composed_node, words) for _ in range(2)] == [plain, plain]
    assert len(nothing_kept) == 1


def test_a_value_is_not_kept_and_a_choice_is_composed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    composed = []
    monkeypatch.setattr(choices, "by_hydra", lambda words: composed.append(1) or by_hydra(words))
    before = composed_node(["task=sum"])
    changed = composed_node(["task=sum", "optim.betas=[0.1,0.2]", "task.modulus=7"])
    changed.optim.betas.append(0.3)
    after = composed_node(["task=sum"])
    assert (changed.task.modulus, len(composed)) == (7, 1)
    assert list(everything(before)) == list(everything(after)) != list(everything(changed))


@pytest.mark.parametrize(
    "words", [["+seed=3"], ["optim={lr:0.5}"], ["optim.lr=x"], ["seed=1", "+seed=2"], ["nothing=1"]]
)
def test_other_words_are_hydras(words: list[str]) -> None:
    assert outcome(composed_node, words) == outcome(by_hydra, words)


def test_a_file_that_was_changed_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    preset = tmp_path / "preset/model/fan2024_sum_gru.yaml"
    preset.parent.mkdir(parents=True)
    shutil.copy(conf_dir() / "config.yaml", tmp_path)
    for group in ("optim", "protocol"):
        shutil.copytree(conf_dir() / group, tmp_path / group)
    monkeypatch.setattr(choices, "conf_dir", lambda: tmp_path)
    widths = []
    for width in (11, 12):
        preset.write_text(f"# @package _global_\nmodel: {{width: {width}}}\n")
        os.utime(preset, (width, width))
        widths.append(composed_node(["task=sum", "model=gru"]).model.width)
    preset.unlink()
    widths.append(composed_node(["task=sum", "model=gru"]).model.width)
    assert widths == [11, 12, ModelConfig.width]


def test_a_name_that_was_registered_again_is_composed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = words_of(["task=sum"])
    assert "more" not in composed_node(words).task
    entry = TASKS.get("sum")
    wider = make_dataclass("Wider", [("more", int, 3)], bases=(entry.config,))
    get = TASKS.get
    monkeypatch.setattr(
        TASKS, "get", lambda name: replace(entry, config=wider) if name == "sum" else get(name)
    )
    try:
        assert composed_node(words_of(["task=sum"])).task.more == 3
    finally:
        monkeypatch.undo()
        prepare(["task=sum"])


def test_what_only_hydra_can_resolve_goes_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Config] = []
    run_hydra(["output_dir=${hydra:runtime.cwd}"], given.append)
    assert [config.output_dir for config in given] == [os.getcwd()]
    monkeypatch.setattr(compose, "hydra_main", None)  # not asked for plain words
    run_hydra(["seed=3"], given.append)
    assert given[1].seed == 3
