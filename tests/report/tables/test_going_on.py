"""The command that goes on with an unfinished run is the one that was typed, or none is named."""

from __future__ import annotations

from typing import Any

import pytest

from lrbench.report.output.cells import Column, Table, to_markdown
from lrbench.report.runs.columns import UnderWay
from lrbench.report.tables.going_on import going_on

SETTINGS = {
    "task.name": "parity",
    "task.modulus": 2,
    "model.name": "lstm",
    "model.width": 16,
    "model.layers": 2,
    "protocol.name": "fan2024",
    "protocol.max_steps": 90_000,
    "protocol.test_lengths": "[20, 50]",
    "optim.lr": 5e-4,
    "seed": 0,
    "data_seed": None,
    "trials": 3,
    "output_dir": "elsewhere",
}
CELL = ("task=parity", "model=lstm", "trials=3")
NONE = "the command that began parity/lstm/fan2024/aaaa/s2 goes on with it"


def said(*typed: str, program: tuple[str, ...] = ("lrbench", "train"), **changes: Any) -> str:
    place = ("parity", "lstm", "fan2024", "aaaa", 2, "parity/lstm/fan2024/aaaa/s2")
    task, model, protocol, fingerprint, seed, folder = place
    settings = {**SETTINGS, **changes}
    run = UnderWay(task, model, protocol, fingerprint, seed, folder, settings)
    return going_on(run, CELL, {"command": [*program, *typed]})


def test_the_words_that_were_typed() -> None:
    typed = ("task=parity", "model=lstm", "model.layers=2", "model.width=16", "optim.lr=5e-4")
    more = ("protocol.max_steps=90000", "device=cpu", "protocol.certify=never", "trials=3")
    assert said(*typed, *more, "output_dir=cut", "force=true") == (
        "goes on with: lrbench train task=parity model=lstm model.layers=2 model.width=16"
        " optim.lr=5e-4 protocol.max_steps=90000 device=cpu protocol.certify=never"
        " output_dir=elsewhere seed=2"
    )
    assert said("model=lstm", "task=parity", output_dir="outputs") == (
        "goes on with: lrbench train model=lstm task=parity seed=2"
    )
    twice = said("protocol=fan2024", "model=lstm", "task=parity", "protocol.name='fan2024'")
    assert twice.startswith("goes on with: lrbench train protocol=fan2024 model=lstm task=parity o")
    lengths = said("task=parity", "model=lstm", "protocol.test_lengths=[20,50]", output_dir="a b")
    assert lengths.endswith("'protocol.test_lengths=[20,50]' 'output_dir=a b' seed=2")


@pytest.mark.parametrize(
    "typed",
    [
        ("--config-dir=mine", "model=lstm"),
        ("--config-dir", "mine", "model=lstm"),
        ("+preset/mine=one", "model=lstm"),
        ("model=gru",),
        ("model=lstm", "model.width=32"),
        ("model=lstm", "protocol.test_lengths=[50]"),
    ],
)
def test_words_that_are_not_certain(typed: tuple[str, ...]) -> None:
    assert said("task=parity", *typed) == NONE


def test_no_command_is_known() -> None:
    assert said("task=parity", program=("script.py", "0")) == NONE
    assert said("task=parity", "model=lstm", data_seed=0) == NONE
    run = UnderWay("parity", "lstm", "fan2024", "aaaa", 2, "parity/lstm/fan2024/aaaa/s2", SETTINGS)
    for environment in ({}, {"command": "lrbench train"}, {"command": [1, 2]}):
        assert going_on(run, CELL, environment) == NONE


def test_words_of_a_cell_that_name_every_setting() -> None:
    settings = {"task.name": "parity", "model.name": "lstm", "optim.lr": 1e-3, "seed": 0}
    run = UnderWay("parity", "lstm", "fan2024", "aaaa", 2, "folder", settings)
    words = (*CELL, "optim.lr=1e-3")
    assert going_on(run, words, {}) == f"goes on with: lrbench train {words[0]} {words[1]}" + (
        " optim.lr=1e-3 seed=2"
    )
    assert going_on(run, CELL, {}) == "the command that began folder goes on with it"


def test_a_command_can_be_copied_out_of_markdown() -> None:
    note = "a_b seed 2: unfinished; goes on with: lrbench train 'protocol.test_lengths=[20,50]'"
    text = to_markdown(Table("T", (Column("c"),), (), (note, "x; goes on with: lrbench train y")))
    assert "goes on with: `lrbench train 'protocol.test_lengths=[20,50]'`" in text
    assert "- x; goes on with: lrbench train y" in text
