"""Cells that share a composition have the configuration that each has alone."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from lrbench.cli.hydra.compose import composed
from lrbench.cli.hydra.sharing import SharedComposition
from lrbench.cli.hydra.sweeping import SweepRequest
from lrbench.config import Config
from lrbench.errors import UserError


class Counted:
    """`composed`, and how often it was called."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, overrides: Sequence[str]) -> Config:
        self.calls += 1
        return composed(overrides)


def both(cells: Sequence[Sequence[str]]) -> int:
    """Compare every cell with itself composed alone; return how often the shared way composed."""
    counted = Counted()
    shared = SharedComposition(counted)
    for cell in cells:
        assert repr(shared(cell)) == repr(composed(cell)), cell  # where 1 is not 1.0
    return counted.calls


def test_numbers_are_read_as_hydra_reads_them() -> None:
    rates = ("1e-3", "0.01", "1", "3e-4", "2.5e-05", "0.1")
    seeds = ("0", "7", "123456789", "+3", "0012")
    cells = [(f"optim.lr={rate}", f"seed={seed}") for rate, seed in product(rates, seeds)]
    # once for the cell, then for each word that is no plain number of its field: 1, +3, 0012
    assert both(cells) == 4


def test_choices_presets_and_values_of_every_kind() -> None:
    values = [
        ("protocol.max_steps=30", "model.width=32", "optim.name=adamw", "protocol.stop=never"),
        ("protocol.max_steps=60", "model.width=16", "optim.name=adam", "protocol.stop=perfect"),
        ("protocol.test_lengths=[9]", "device=cpu", "data_seed=null"),
        ("protocol.test_lengths=[9,13]", "device=auto", "data_seed=5"),
        ("model.mixer.hidden=8", "optim.lr=0.1"),  # of blockdiag, whose presets set both
    ]
    choices = [("task=sum", "model=blockdiag"), ("task=parity", "model=blockdiag")]
    cells = [(*chosen, *given) for chosen, given in product(choices, values)]
    assert both(cells) < 2 * len(cells)


@pytest.mark.parametrize(
    "cells",
    [
        [("seed=1", "seed=2"), ("seed=3", "seed=4")],
        [("seed=1", "data_seed=${seed}"), ("seed=2", "data_seed=${seed}")],
        [("model.backbone.name=bare", "seed=1"), ("model.backbone.name=gpt", "seed=1")],
        [("optim={lr: 0.1}", "seed=1"), ("optim={lr: 0.2}", "seed=2")],
    ],
    ids=["a key twice", "a reference", "another stack", "a dictionary"],
)
def test_what_is_no_plain_value_is_composed(cells: list[tuple[str, ...]]) -> None:
    both(cells)


def test_what_is_refused_alone_is_refused_in_the_same_words() -> None:
    shared = SharedComposition(composed)
    shared(("optim.lr=0.1", "model.width=8"))
    for cell in (("optim.lr=0.1", "model.width=0"), ("optim.lr=0.1", "model.width=8.5")):
        with pytest.raises(UserError) as alone:
            composed(cell)
        with pytest.raises(UserError) as together:
            shared(cell)
        assert str(together.value) == str(alone.value)


def test_a_module_of_somebody_elses_is_looked_at_for_every_cell() -> None:
    counted = Counted()
    shared = SharedComposition(counted)
    for width in (4, 8):
        target = ("model=foreign", "model.mixer.target=torch.nn.Linear", f"model.width={width}")
        shared((*target, "model.mixer.width_as=[in_features,out_features]"))
    assert counted.calls == 2


def test_files_whose_values_refer_to_others_are_composed_for_every_cell(tmp_path: Path) -> None:
    preset = tmp_path / "mine" / "preset.yaml"
    preset.parent.mkdir()
    for text, data_seeds in (("data_seed: 5", [5, 5]), ("data_seed: ${seed}", [1, 2])):
        preset.write_text(f"# @package _global_\n{text}\n")
        request = SweepRequest.read(["+mine=preset", "seed=1,2"], None, tmp_path)
        found = [request.compose(cell) for cell in request.cells]
        assert [(one.seed, one.data_seed) for one in found] == list(
            zip((1, 2), data_seeds, strict=True)
        )
    (tmp_path / "folder.yaml").mkdir()
    assert SweepRequest.read(["seed=1,2"], None, tmp_path).cells


def test_cells_of_other_seeds_share_their_parts() -> None:
    shared = SharedComposition(composed)
    first, second = (shared(("optim.lr=0.1", f"seed={seed}")) for seed in (1, 2))
    other = shared(("optim.lr=0.2", "seed=2"))
    assert first.model is second.model and first.optim is second.optim
    assert (first.seed, second.seed, other.seed) == (1, 2, 2)
    assert (second.optim.lr, other.optim.lr) == (0.1, 0.2)
